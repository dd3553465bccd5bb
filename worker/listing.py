"""What a server says its tools are, mended as it comes in: one that is not as MCP has it costs no other its place.

The SDK takes a list as a whole or not at all. Importing this imports it.
"""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Final, Self, cast

import mcp_types as types
from pydantic import ValidationError

_ANYTHING: Final = {"type": "object"}
"""Arguments that nothing is said of."""


@asynccontextmanager
async def mended(transport: AbstractAsyncContextManager[Any]) -> AsyncGenerator[Any]:
    """The streams of ``transport``, whose type is private to the SDK."""
    async with transport as (read, write):
        yield _Mending(read), write


class _Mending:
    """A stream of messages, with lists of tools in it mended."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    @property
    def last_context(self) -> Any:
        """What the SDK looks for on its own streams."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        """The next message."""
        return _mend(await self._stream.receive())

    async def aclose(self) -> None:
        """Hear no more."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return _mend(await self._stream.__anext__())

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return cast("bool | None", await self._stream.__aexit__(kind, error, trace))


def _mend(item: Any) -> Any:
    message = getattr(item, "message", None)
    if isinstance(message, types.JSONRPCResponse):
        tools = message.result.get("tools")
        if isinstance(tools, list):
            message.result["tools"] = [fit for tool in tools if (fit := _fit(tool)) is not None]
    return item


def _fit(tool: Any) -> dict[str, Any] | None:
    """``tool`` if it is one; else what of it can be used: its name and what it is for. None: not even that."""
    if not isinstance(tool, dict):
        return None
    given = cast("dict[str, Any]", tool)
    schema = given.get("inputSchema")
    try:
        types.Tool.model_validate(given, by_name=False)
    except ValidationError:
        name, about = given.get("name"), given.get("description")
        if not isinstance(name, str):
            return None
        given = {"name": name, **({"description": about} if isinstance(about, str) else {})}
    fits = isinstance(schema, dict) and cast("dict[str, Any]", schema).get("type") == "object"
    return {**given, "inputSchema": schema if fits else _ANYTHING}
