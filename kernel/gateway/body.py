"""Bodies of model requests: read completely before they are forwarded, and their model.

Bodies up to MEMORY_BYTES stay in memory. Larger ones are written to a file without a name, and their model is read
from an outline without its long texts, so that memory use is independent of the size.
"""

import json
import re
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import IO, Any, Final

import msgspec
import trio

from protocol.errors import Refused, bad_request

Receive = Callable[[], Awaitable[Mapping[str, Any]]]

MEMORY_BYTES: Final = 1024 * 1024
BODY_BYTES: Final = 64 * 1024 * 1024
PART_SECONDS: Final = 60.0
"""Maximum time between two parts of a body."""
_INLINE_BYTES: Final = 256 * 1024
"""Size up to which a body is parsed without a thread."""
_OUTLINE_BYTES: Final = 8 * 1024 * 1024
_TEXT_BYTES: Final = 256
"""Length of the longest text in an outline."""


class RequestBody:
    """Complete body of a request. ``data`` is empty if the body is in a file."""

    def __init__(self, data: bytes, file: IO[bytes] | None = None, size: int = 0) -> None:
        self.data = data
        self._file = file
        self.size = size or len(data)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the content."""
        if self._file is None:
            yield self.data
            return
        await trio.to_thread.run_sync(self._file.seek, 0)
        while piece := await trio.to_thread.run_sync(self._file.read, MEMORY_BYTES):
            yield piece

    def close(self) -> None:
        """Release the content."""
        self.data = b""
        if self._file is not None:
            self._file.close()


async def read_body(receive: Receive, folder: str) -> tuple[RequestBody, bytes]:
    """Return the body and the JSON that names its model: the body itself, or an outline of a large one.

    Raises Refused (too_large, bad_request), OSError.
    """
    buffer, outline, size, more = bytearray(), bytearray(), 0, True
    file: IO[bytes] | None = None
    try:
        while more:
            with trio.fail_after(PART_SECONDS):
                message = await receive()
            if message["type"] == "http.disconnect":
                await trio.sleep_forever()  # the caller cancels the request
            buffer += message.get("body", b"")
            size += len(message.get("body", b""))
            more = bool(message.get("more_body", False))
            if size > BODY_BYTES:
                raise Refused("too_large", f"the body is larger than {BODY_BYTES} bytes")
            if size > MEMORY_BYTES and (len(buffer) > MEMORY_BYTES or not more):
                file = file or tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  (closed with the body)
                half = (len(buffer) - len(buffer.rstrip(b"\\"))) % 2 if more else 0  # of an escape sequence
                part, buffer = bytes(buffer[: len(buffer) - half]), buffer[len(buffer) - half :]
                await trio.to_thread.run_sync(file.write, part)
                outline += await trio.to_thread.run_sync(outlined, part)
            if len(outline) > _OUTLINE_BYTES:
                raise Refused("too_large", f"the structure of the body is larger than {_OUTLINE_BYTES} bytes")
    except BaseException as error:
        if file is not None:
            file.close()
        if isinstance(error, trio.TooSlowError):
            raise bad_request(f"no part of the body arrived within {PART_SECONDS:g} s") from error
        raise
    if file is None:
        data = bytes(buffer)
        return RequestBody(data), data
    return RequestBody(b"", file, size), bytes(outline)


# Content of a text, or everything between two texts.
_RUN: Final = re.compile(rb'(?:[^"\\]++|\\.)++', re.DOTALL)
_BETWEEN: Final = re.compile(rb"[\s\d.,:+\-\[\]{}truefalsnE]*+")


def outlined(part: bytes) -> bytes:
    """Return a part of a JSON document with ``0000`` in place of long texts, which also completes half of a ``\\u``."""
    return _RUN.sub(lambda run: run[0] if len(run[0]) <= _TEXT_BYTES or _BETWEEN.fullmatch(run[0]) else b"0000", part)


_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_SHORTEST_MEMBER: Final = len(',"model":1')


async def models_in(document: bytes) -> tuple[str, ...]:
    """Return the models that a request names. Raises Refused (bad_request) if they are missing or ambiguous."""
    if len(document) <= _INLINE_BYTES:
        return _models_in(document)
    return await trio.to_thread.run_sync(_models_in, document)


def _models_in(document: bytes) -> tuple[str, ...]:
    try:
        members = _members.decode(document)
        # Parsers differ in duplicate keys, and some ignore case. Usually, no space is left for another key.
        known = sum(len(key) + len(value) + len('"":,') for key, value in members.items()) + 1
        has_more = len(document) - known >= _SHORTEST_MEMBER
        pairs = json.loads(document, object_pairs_hook=list) if has_more else members.items()
        keys = [key.lower() for key, _ in pairs]
        if keys.count("model") != 1 or keys.count("models") > 1:
            raise bad_request("the body must name its model once")
        model = msgspec.json.decode(members.get("model", b""), type=str)
        others = msgspec.json.decode(members.get("models", b"[]"))  # of some compatible endpoints
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise bad_request(f"the body does not name its model: {str(error)[:200]}") from error
    return (model, *(str(one) for one in others)) if isinstance(others, list) else (model,)
