"""Answers of read routes without a kernel, from the log that the last kernel stored. Nothing is written.

The handlers are the kernel's. Those that need more than the log and the files are refused. The others run in an event
loop of their own, because some read files in a thread. Streams of stored events never suspend, so they need none.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn
from urllib.parse import unquote

import trio

from kernel.agents.catalog import Catalog
from kernel.api.dispatch import RawRequest, answer_of, decode
from kernel.api.routes import matched
from kernel.operations.answers import Response, Stream, json_reply
from kernel.store.checkup import StoredLog
from kernel.workflows.load import Definitions, definitions
from protocol.discovery import DATABASE
from protocol.errors import Refused


class _Absent:
    """Service that only a kernel has."""

    def __getattr__(self, *_: object) -> NoReturn:
        raise _needs_kernel()

    __call__ = __iter__ = __getattr__


class _Services(SimpleNamespace):
    """Services that need no kernel. The others are absent."""

    def __getattr__(self, name: str) -> _Absent:
        return _Absent()


def _needs_kernel() -> Refused:
    return Refused("busy", "only a running kernel can answer this", "start it with: awk start")


def pieces(root: Path, state: Path, environ: Mapping[str, str], target: str, now_ms: int) -> Iterator[bytes]:
    """Return the pieces of the answer of ``GET target``. Raises Refused."""
    path, _, query = target.partition("?")
    found = matched("GET", path)
    if found is None:
        raise _needs_kernel()
    route, variables = found
    catalog = Catalog(root, Path.home())

    async def current() -> Definitions:
        return definitions(catalog)

    store = _Services(reader=StoredLog(str(state / DATABASE)), now_ms=lambda: now_ms)
    files = _Services(catalog=catalog, definitions=current, environ=environ)
    services: Any = _Services(store=store, files=files)
    asked = RawRequest({}, query.encode(), b"", {name: unquote(text) for name, text in variables.items()})
    result = trio.run(answer_of, services, route, *decode(route, asked))
    if isinstance(result, Stream):
        return _passing(result.pieces)
    body = (result if isinstance(result, Response) else json_reply(result)).body
    return iter((body,))


def _passing(stream: AsyncGenerator[bytes, None]) -> Iterator[bytes]:
    """Yield the pieces of ``stream``, which is refused if it waits for anything."""
    while True:
        try:
            next(anext(stream).__await__())
        except StopAsyncIteration:
            return
        except StopIteration as ended:
            yield ended.value
            continue
        except RuntimeError as error:  # a thread, without an event loop
            raise _needs_kernel() from error
        raise _needs_kernel()
