"""A row of the table of routes, and what its handler gets and gives."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import msgspec

from kernel.api.context import Services
from kernel.api.reply import Reply
from kernel.store.requests import RequestKey
from protocol.errors import Refused

T = TypeVar("T")
Method = Literal["GET", "POST", "PATCH", "DELETE"]


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request, decoded. ``args`` are the variables of the path, ``body`` what the route asks for."""

    body: T
    args: Mapping[str, str]
    query: Mapping[str, str]
    last_event_id: str | None = None
    request_key: RequestKey | None = None
    """From ``Idempotency-Key``: who repeats it gets the recorded answer."""

    def number(self, name: str, default: int, *, low: int = 0, high: int = 2**53) -> int:
        """The query parameter ``name`` as a whole number. Raises Refused (bad_request)."""
        text = self.query.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdecimal() and len(text) <= 16 and low <= int(text) <= high):
            raise Refused("bad_request", f"{name} must be a whole number from {low} to {high}")
        return int(text)


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer in pieces: server-sent events."""

    pieces: AsyncGenerator[bytes, None]


Handler = Callable[[Services, Call[Any]], Awaitable[msgspec.Struct | Reply | Stream]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One route. ``path`` has its variables in angle brackets, ``answers`` None stands for a stream."""

    method: Method
    path: str
    handler: Handler
    answers: type[msgspec.Struct] | None
    asks: type[msgspec.Struct] | None = None
    body_optional: bool = False
    """An empty body asks for what ``asks`` has as its defaults."""
    status: int = 200
    open: bool = False
    """Needs no token."""
    people_only: bool = False
    """Not for processes that we run, whatever token they have got hold of."""
    waits: bool = False
    """Takes as long as work takes: it has to notice a client that leaves."""

    @property
    def direct(self) -> bool:
        """Whether its path is fixed and its answer one piece, so that nothing has to match or stream it."""
        return "<" not in self.path and self.answers is not None
