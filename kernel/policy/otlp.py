"""Spans as bytes: the messages of OTLP's trace service that we send, in Protocol Buffers' wire format. Pure.

Written by hand, for it is five small messages: no library has to be loaded, and none installed. What a collector's
library reads of it is compared in the tests.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

Value = str | int | float | bool | tuple[str, ...]
INTERNAL: Final = 1
CLIENT: Final = 3
OK: Final = 1
ERROR: Final = 2
CONTENT_TYPE: Final = "application/x-protobuf"
_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One span. Ids are 16 and 8 bytes; ``parent`` is empty at the root of a trace."""

    trace: bytes
    id: bytes
    parent: bytes = b""
    name: str
    kind: Literal[1, 3] = INTERNAL
    start_ms: int
    end_ms: int
    attributes: Mapping[str, Value] = {}
    failed: str | None = None
    """What is said of its failure; None: it did not fail."""


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value & 0xFFFF_FFFF_FFFF_FFFF)


def _time(number: int, at_ms: int) -> bytes:
    return _varint(number << 3 | _FIXED64) + struct.pack("<Q", max(at_ms, 0) * 1_000_000)


def _value(value: Value) -> bytes:
    match value:
        case bool():
            return _number(2, value)
        case int():
            return _number(3, value)
        case float():
            return _varint(4 << 3 | _FIXED64) + struct.pack("<d", value)
        case str():
            return _field(1, value.encode("utf-8", "replace"))
        case _:
            return _field(5, b"".join(_field(1, _value(one)) for one in value))


def _attributes(number: int, values: Mapping[str, Value]) -> bytes:
    return b"".join(_field(number, _field(1, key.encode()) + _field(2, _value(value))) for key, value in values.items())


def _span(one: Span) -> bytes:
    status = b"" if one.failed is None else _field(2, one.failed.encode("utf-8", "replace")) + _number(3, ERROR)
    return b"".join(
        (
            _field(1, one.trace),
            _field(2, one.id),
            _field(4, one.parent) if one.parent else b"",
            _field(5, one.name.encode("utf-8", "replace")),
            _number(6, one.kind),
            _time(7, one.start_ms),
            _time(8, max(one.end_ms, one.start_ms)),
            _attributes(9, one.attributes),
            _field(15, status) if status else b"",
        )
    )


def export_request(
    spans: Iterable[Span], resource: Mapping[str, Value], scope: str, version: str, schema: str
) -> bytes:
    """An ExportTraceServiceRequest with ``spans`` of one resource and one instrumentation scope."""
    name = _field(1, _field(1, scope.encode()) + _field(2, version.encode()))
    told = b"".join(_field(2, _span(one)) for one in spans)
    within = _field(2, name + told + _field(3, schema.encode()))
    return _field(1, _field(1, _attributes(1, resource)) + within)
