"""Makes what others wrote fit into one line of the link. Pure.

Sizes are of the encoded JSON: a control character costs six bytes there. What is left out is said in its
place, so that neither a model nor a person takes a part for the whole.
"""

from typing import Final

import msgspec

from protocol.ipc import Entry, Json, Shown
from protocol.ndjson import LINE_LIMIT_BYTES
from protocol.text import encode_json

TOOL_RESULT_LIMIT_BYTES: Final = 128 * 1024
"""A tool's result in an entry, and so in the model's context."""
TEXT_LIMIT_BYTES: Final = 512 * 1024
"""A reply's text in a terminal frame."""
TOO_LARGE: Final = Json(b'{"left out":"arguments that hold a secret and are too large to be kept without it"}')
_HEADROOM_BYTES: Final = 1024


class TooLarge(ValueError):
    """A reply whose calls and native form alone are over the limit: it cannot be made durable."""


def clean(text: str) -> str:
    """``text`` with lone surrogates replaced: they are legal in a provider's JSON, and in no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def shorten(text: str, limit_bytes: int) -> str:
    """``text``, its middle replaced by a marker if its encoded form is over ``limit_bytes``."""
    kept = len(text)
    short = text
    while (size := len(encode_json(short))) > limit_bytes:
        kept = min(kept - 1, int(kept * limit_bytes / size * 0.95))
        head = kept * 3 // 4
        tail = len(text) - (kept - head)
        short = f"{text[:head]}\n[... {tail - head} characters left out ...]\n{text[tail:]}"
    return short


def truncate_entry(entry: Entry) -> Entry:
    """``entry`` small enough for a line. Raises TooLarge.

    A reply gives up part of its text first: its native form still has all of it.
    """
    room = LINE_LIMIT_BYTES - _HEADROOM_BYTES
    size = len(encode_json(entry))
    if size <= room:
        return entry
    if entry.shown is not None:
        calls = tuple(msgspec.structs.replace(call, args=TOO_LARGE) for call in entry.shown.calls)
        shown = Shown(text=shorten(entry.shown.text, TOOL_RESULT_LIMIT_BYTES), calls=calls)
        entry = msgspec.structs.replace(entry, shown=shown)
        size = len(encode_json(entry))
        if size <= room:
            return entry
    text_bytes = len(encode_json(entry.text))
    left = room - (size - text_bytes)
    if left < _HEADROOM_BYTES:
        raise TooLarge(f"a reply of {size} bytes does not fit into a frame of {LINE_LIMIT_BYTES}")
    return msgspec.structs.replace(entry, text=shorten(entry.text, left))
