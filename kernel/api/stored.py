"""Answers of read routes without a kernel, from the log that the last kernel stored. Nothing is written.

The handlers are the kernel's. Those that need more than the log and the files are refused. The others never suspend
here, so no event loop runs.
"""

from collections.abc import AsyncGenerator, Awaitable, Generator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast
from urllib.parse import unquote

from kernel.agents.catalog import Catalog
from kernel.api.dispatch import RawRequest, Result, answer_of, decode
from kernel.api.routes import matched
from kernel.operations.answers import Response, Stream, json_reply
from kernel.operations.context import ProjectFiles, Services, StoreAccess
from kernel.store.checkup import StoredLog
from kernel.workflows.load import Definitions, definitions
from protocol.discovery import DATABASE
from protocol.errors import Refused

T = TypeVar("T")


class _Absent:
    """Service that only a kernel has."""

    def __getattr__(self, name: str) -> NoReturn:
        raise _needs_kernel()


def _needs_kernel() -> Refused:
    return Refused("busy", "only a running kernel can answer this", "start it with: awk start")


def get(root: Path, state: Path, environ: Mapping[str, str], target: str, now_ms: int) -> bytes:
    """Return the answer of ``GET target``. Raises Refused."""
    with closing(StoredLog(str(state / DATABASE))) as log:
        found = _answer(log, root, environ, target, now_ms)
        if isinstance(found, Stream):
            raise _needs_kernel()
        return (found if isinstance(found, Response) else json_reply(found)).body


def stream(root: Path, state: Path, environ: Mapping[str, str], target: str, now_ms: int) -> Generator[bytes]:
    """Return the pieces of the stream of ``GET target``. Raises Refused."""
    log = StoredLog(str(state / DATABASE))
    found = _answer(log, root, environ, target, now_ms)
    assert isinstance(found, Stream), target
    return _pieces(log, found.pieces)


def _pieces(log: StoredLog, passing: AsyncGenerator[bytes, None]) -> Generator[bytes]:
    with closing(log), suppress(StopAsyncIteration):
        while True:
            yield _now(anext(passing))


def _answer(log: StoredLog, root: Path, environ: Mapping[str, str], target: str, now_ms: int) -> Result:
    path, _, query = target.partition("?")
    found = matched("GET", path)
    if found is None:
        raise _needs_kernel()
    variables = {name: unquote(text) for name, text in found[1].items()}
    decoded = decode(found[0], RawRequest({}, query.encode(), b"", variables))
    assert not isinstance(decoded, Response)
    return _now(answer_of(_services(log, root, environ, now_ms), found[0], *decoded))


def _services(log: StoredLog, root: Path, environ: Mapping[str, str], now_ms: int) -> Services:
    absent: Any = _Absent()
    catalog = Catalog(root, Path.home())

    async def current() -> Definitions:
        return definitions(catalog)

    def made(kind: type[T], **there: Any) -> T:
        fields = cast("Any", kind).__struct_fields__
        return kind(**{**dict.fromkeys(fields, absent), **there})

    store = made(StoreAccess, reader=log, now_ms=lambda: now_ms)
    files = made(ProjectFiles, catalog=catalog, definitions=current, environ=environ)
    return made(Services, store=store, files=files)


def _now(waiting: Awaitable[T]) -> T:
    """Return the result of ``waiting``, which is refused if it waits for anything."""
    try:
        next(waiting.__await__())
    except StopIteration as ended:
        return cast("T", ended.value)
    except RuntimeError as error:  # a thread, without an event loop
        raise _needs_kernel() from error
    raise _needs_kernel()
