"""Rows of the table of routes, the requests and streams of their handlers, and what many handlers do alike.

Changes happen once for each Idempotency-Key (kernel.api.keyed_answers). Lists are given by the page, ``?limit=`` from 1
to 1000: those of the past newest first with ``?before=``, those of what is to be done with ``?after=``.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Generic, Literal, TypeVar

import msgspec

from kernel.api.responses import Response
from kernel.policy.access import ADMIN, STRANGER, Access
from kernel.policy.webhooks import Signed
from kernel.store.idempotency import RequestKey
from kernel.store.rows import LONGEST, Page
from protocol.api.tokens import RouteScope
from protocol.errors import Refused
from protocol.names import number_of

T = TypeVar("T")
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


class Request(msgspec.Struct, Generic[T], frozen=True):
    """One request, decoded. ``args`` are the variables of the path, ``body`` what the route asks for."""

    body: T
    args: Mapping[str, str]
    query: Mapping[str, str]
    last_event_id: str | None = None
    accept: str = ""
    """The kinds of answers that it takes."""
    if_match: int | None = None
    """From ``If-Match``: the version that the change is made from."""
    if_none_match: bool = False
    """``If-None-Match: *``: only where nothing is there."""
    known: str = ""
    """``If-None-Match`` of a GET: the bytes that the client has, by their ETags."""
    signed: Signed | None = None
    """Of a route that says so: the body as it came, and what signs it."""
    request_key: RequestKey | None = None
    """From ``Idempotency-Key``: who repeats it gets the recorded answer."""
    access: Access = ADMIN
    """Of who asks. What opens the route has been looked at."""

    def flag(self, name: str, default: bool | None = False) -> bool | None:
        """The query parameter ``name`` as true or false."""
        return self.query[name] in ("true", "1") if name in self.query else default

    def number(self, name: str, default: int) -> int:
        """The query parameter ``name`` as a whole number."""
        return int(self.query.get(name, default))


class Stream(msgspec.Struct, frozen=True):
    """An answer in pieces: server-sent events, or an archive."""

    pieces: AsyncGenerator[bytes, None]
    content_type: str = "text/event-stream; charset=utf-8"


Handler = Callable[..., Awaitable[msgspec.Struct | Response | Stream]]
"""Takes the request, and by name the records of the context that it uses."""


class Route(msgspec.Struct, frozen=True):
    """One route. ``path`` has its variables in angle brackets, ``answers`` None stands for a stream, or a file."""

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
    file: bool = False
    """Answers with a file of the page: bytes in one piece."""
    signed: bool = False
    """Needs no token but a signature of its body, which the handler checks. Its last part is a variable."""
    keyed: bool = False
    """Needs no token but a key in its body, which the handler checks. Its path is fixed."""
    people_only: bool = False
    """Not for processes that we run, whatever token they have got hold of."""
    waits: bool = False
    """Takes as long as work takes: it has to notice a client that leaves."""
    also: tuple[type[msgspec.Struct], ...] = ()
    """What else it may answer, by what it is asked."""
    statuses: tuple[int, ...] = ()
    """Others than ``status`` that such an answer may have."""
    scope: RouteScope | None = None
    """Of the token that it needs; not said: ``read`` of a GET, ``operate`` of all else."""

    of_agent: bool = False
    """What it decides is one agent's: a token for some agents only may open it, and its handler looks for whom."""

    @property
    def tokenless(self) -> bool:
        """Return whether a request may come without a token."""
        return self.open or self.signed or self.keyed

    @property
    def keeps_key(self) -> bool:
        """Return whether its handler records the Idempotency-Key by itself: what it begins goes on when answered."""
        return self.path in ("/messages", "/run", "/serve", "/workflows")

    @property
    def secret(self) -> bool:
        """Return whether its answer tells a secret, once."""
        return self.path in ("/tokens", "/nodes", "/page/keys")

    @property
    def needs(self) -> RouteScope:
        """The scope of the token that it needs."""
        return self.scope or ("read" if self.method == "GET" else "operate")

    def opened_by(self, access: Access) -> bool:
        """Return whether the token of ``access`` opens it; one for some agents only approves their calls, no more."""
        limited = self.needs == "approve" and access.agents is not None and not self.of_agent
        return access.opens(self.needs) and not limited

    def check(self, access: Access) -> None:
        """Raise Refused (forbidden, unauthorized) where ``access`` does not open it."""
        if self.tokenless:
            return
        if access == STRANGER:
            raise Refused("unauthorized", "a bearer token is required", hint="awk token create makes one")
        if self.opened_by(access):
            return
        hint = "ask who runs the kernel; `awk token create` makes no token that opens this"
        if self.needs != "admin":
            hint = f"ask who runs the kernel for one: awk token create --scope {self.needs}"
        has = access.scope if access.agents is None else f"{access.scope} for some agents only"
        raise Refused("forbidden", f"this needs the scope {self.needs}; this token has {has}", hint)

    @property
    def direct(self) -> bool:
        """Return whether its path is fixed and its answer one piece: nothing has to match or stream it."""
        return "<" not in self.path and (self.answers is not None or self.file)


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
