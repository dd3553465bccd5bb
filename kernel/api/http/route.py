"""Rows of the routes that are no operations yet, and the requests of their handlers."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from kernel.operations.answer import Response, Stream
from kernel.operations.operation import Actor, Method, Operation, RestRoute
from kernel.store.rows import LONGEST, Page
from protocol.errors import Refused
from protocol.names import number_of

T = TypeVar("T")


class Request(Actor, Generic[T], frozen=True, kw_only=True):
    """One request, decoded. ``body`` is what an operation is asked, or the body that a route asks for."""

    body: T
    args: Mapping[str, str]
    """Variables of the path."""
    query: Mapping[str, str]

    def flag(self, name: str, default: bool | None = False) -> bool | None:
        """The query parameter ``name`` as true or false."""
        return self.query[name] in ("true", "1") if name in self.query else default

    def number(self, name: str, default: int) -> int:
        """The query parameter ``name`` as a whole number."""
        return int(self.query.get(name, default))


Handler = Callable[..., Awaitable[msgspec.Struct | Response | Stream]]
"""Takes the request, and by name the records of the context that it uses."""


class Route(RestRoute, frozen=True, eq=False):
    """A route that is no operation."""

    method: Method
    path: str
    handler: Handler
    answers: type[msgspec.Struct] | None
    asks: type[msgspec.Struct] | None = msgspec.field(default=None)


AnyRoute = Route | Operation


def page_of(call: Request[Any], parameter: str, letter: str, *, default: int = LONGEST) -> Page:
    """The page that is asked for. Ids in its ``parameter`` begin with ``letter``. Raises Refused (bad_request)."""
    limit = call.number("limit", default)
    text = call.query.get(parameter)
    if text is None:
        return Page(limit)
    number = number_of(text, letter)
    if number is None:
        raise Refused("bad_request", f"{parameter} must be what the page before has as next, such as {letter}12")
    return Page(limit, number)
