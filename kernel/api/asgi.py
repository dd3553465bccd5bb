"""The few ASGI shapes this layer speaks, as types."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

Fields = dict[bytes, bytes]
"""Header fields by lower-case name. Repeated ones are joined with ``, ``: a doubled Host or token matches nothing."""


def header_fields(headers: list[tuple[bytes, bytes]]) -> Fields:
    """Header fields as a mapping."""
    fields: Fields = {}
    for name, value in headers:
        fields[name] = fields[name] + b", " + value if name in fields else value
    return fields
