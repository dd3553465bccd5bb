"""Operations: one row for each verb, from which its REST route, its tools and its command are generated.

A row names a function, which takes some of these by name:

- ``tx``: what it changes, in one commit; or ``conn``: what it reads, in one snapshot. With neither it awaits, or
  computes.
- ``asked``: the request, a struct with the variables of the path, the query parameters and the body together.
- ``actor``: who asks.
- ``now_ms`` and the records of ``Services``: ``store``, ``files``, ``processes``, ``kernel``, ``memory``, ``nodes``.

Its docstring is the summary of the route and the description of the tools.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from types import FunctionType
from typing import Annotated, Any, Final, Literal, cast, get_args

import msgspec

from kernel.operations.answers import Response, Stream
from kernel.operations.context import Services
from kernel.policy.access import ADMIN, STRANGER, Access
from kernel.policy.webhooks import Signed
from kernel.rule.draft import Author
from kernel.store.attempts import Identity
from kernel.store.idempotency import RequestKey
from kernel.store.rows import LONGEST, RowPage
from protocol.api.document import Ask
from protocol.api.tokens import RouteScope
from protocol.errors import Refused
from protocol.message import USER
from protocol.names import SpaceId, number_of

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """The author of a request, an attempt or a person (or their program), and what it says beside its fields."""

    access: Access = ADMIN
    """Of a person's token. What opens the route has been checked."""
    identity: Identity | None = None
    """Of an attempt."""
    call_key: str | None = None
    """Key of an attempt's call."""
    request_key: RequestKey | None = None
    """From ``Idempotency-Key``: a repeat gets the recorded answer."""
    last_event_id: str | None = None
    accept: str = ""
    """Media types that the client takes."""
    if_match: int | None = None
    """From ``If-Match``: the version that the change is based on."""
    if_none_match: bool = False
    """``If-None-Match: *``: only where nothing exists yet."""
    known: str = ""
    """``If-None-Match`` of a GET: the ETags of the copies that the client has."""
    signed: Signed | None = None
    """Body and signature, of a route for signed requests."""

    @property
    def author(self) -> Author | None:
        """The attempt, as commits take it; None: a person."""
        return None if self.identity is None else self.attempt

    @property
    def attempt(self) -> Author:
        """The same, where the request is an attempt's."""
        return Author(self.agent.instruction, self.agent.epoch)

    @property
    def agent(self) -> Identity:
        """The attempt, where the request is one's."""
        assert self.identity is not None, "this is a tool of agents"
        return self.identity

    @property
    def name(self) -> str:
        """The name that others see."""
        return USER if self.identity is None else self.identity.name


class Nothing(Ask, frozen=True, kw_only=True):
    """A request without fields."""


Space = Annotated[SpaceId, msgspec.Meta(min_length=1, description="Space, such as review:main or dm:alice.")]
"""The space of a request: people name it, agents work in it."""


class OfAgent(Ask, frozen=True, kw_only=True):
    """A request about an agent."""

    name: Annotated[str, msgspec.Meta(min_length=1)]


class InSpace(Ask, frozen=True, kw_only=True):
    """A request about a space."""

    space: Space


Run = Annotated[str, msgspec.Meta(description="Id of a run, such as r12; without it the newest, or all.")] | None


class OfRun(Ask, frozen=True, kw_only=True):
    """What is of one run, or of all."""

    run: Run = None


Wait = Annotated[bool, msgspec.Meta(description="Whether the answer waits until the work has ended.")]
Limit = Annotated[int, msgspec.Meta(ge=1, le=LONGEST, description="Maximum number of rows.")]
After = Annotated[str, msgspec.Meta(description="Value of next on the previous page: start after it.")] | None
Before = Annotated[str, msgspec.Meta(description="Value of next on the previous page: start before it.")] | None


PAGING: Final = ("before", "after", "limit")
"""Fields of a page, which come last."""


class Forward(Ask, frozen=True, kw_only=True):
    """A page of a list, oldest first."""

    limit: Limit = LONGEST
    after: After = None


class Backward(Ask, frozen=True, kw_only=True):
    """A page of a list, newest first."""

    limit: Limit = LONGEST
    before: Before = None


class ForwardInSpace(InSpace, frozen=True, kw_only=True):
    """A page of a list of a space, oldest first."""

    limit: Limit = LONGEST
    after: After = None


class BackwardInSpace(InSpace, frozen=True, kw_only=True):
    """A page of a list of a space, newest first."""

    limit: Limit = LONGEST
    before: Before = None


def page_of(asked: Forward | Backward | ForwardInSpace | BackwardInSpace, letter: str) -> RowPage:
    """Return the page that is asked for. Ids start with ``letter``. Raises Refused (bad_request)."""
    if isinstance(asked, Forward | ForwardInSpace):
        parameter, text = "after", asked.after
    else:
        parameter, text = "before", asked.before
    number = None if text is None else number_of(text, letter)
    if text is not None and number is None:
        raise Refused("bad_request", f"{parameter} must be what the page before has as next, such as {letter}12")
    return RowPage(asked.limit, number)


class ToolFront(msgspec.Struct, frozen=True):
    """The tool that an operation is to agents, or to people's MCP clients.

    Its arguments are the fields of the request, called like their attributes: ``task: str = field(name="id")`` is
    ``<id>`` in a path, and ``task`` in the tool.
    """

    name: str
    description: str = ""
    """Where that is not the operation's."""
    idempotent: bool = True
    """A repeated call does no harm."""
    limits: tuple[int, int] | None = None
    """Rows of a page, unless asked otherwise, and at most."""
    in_space: bool = False
    """An agent may name a space below that of its run."""
    without: tuple[str, ...] = ()
    """Fields of the request that are no arguments."""
    needs: tuple[str, ...] = ()
    """Texts that have to be given, though the route has a default."""
    waits: bool = False
    """Its answer may take as long as a person does."""
    words: Callable[[Any], bytes | None] | None = None
    """Some of its results are nothing but this text; so no schema of them is published."""


class CommandFront(msgspec.Struct, frozen=True):
    """The command that an operation is to people. The variables of the path are words, other fields are flags."""

    words: str
    """``task done``."""
    help: str
    view: str
    """The function in the module of the command that shows the answer: ``ended_lines``."""
    arguments: Mapping[str, str] = {}
    """Placeholder and meaning of each, by its field: ``TASK... their ids`` may be given several times."""
    lists: str = ""
    """Of a page: the field of its rows, and the parameter that its ``next`` goes into."""


class Operation(msgspec.Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """A verb: a function, its request and its result, who may ask for it, and the fronts that it has."""

    method: Method | Literal[""]
    path: str
    """Variables are in angle brackets; "": it is no route."""
    handler: Callable[..., Any]
    takes: tuple[str, ...]
    """What the handler takes by name, without ``tx`` and ``conn``."""
    kind: Literal["change", "query", "awaits", "computes"]
    request: type[msgspec.Struct]
    answers: type[msgspec.Struct] | None
    """The struct that the route answers; None: a stream, or a file."""
    gives: type[msgspec.Struct]
    """The struct that its tool gives to agents."""
    also: tuple[type[msgspec.Struct], ...] = ()
    """Other structs that the route may answer."""
    status: int = 200
    statuses: tuple[int, ...] = ()
    """Other statuses that an answer may have."""
    variables: Mapping[str, str]
    """The variables of the path, each with its field of the request."""
    query: Mapping[str, str]
    """The query parameters, likewise."""
    without: tuple[str, ...]
    """Fields of the request that this route leaves at their defaults."""
    body_optional: bool
    """An empty body stands for one with all defaults."""
    changes: bool
    open: bool = False
    """Needs no token."""
    file: bool = False
    """Answers with a file of the page: bytes in one piece."""
    signed: bool = False
    """Needs no token but a signature of its body, which the handler checks. Its last part is a variable."""
    keyed: bool = False
    """Needs no token but a key in its body, which the handler checks. Its path is fixed."""
    people_only: bool
    """Not for processes that we run, whatever token they have got hold of."""
    trusts: Callable[[Any], bool] | None
    """Return whether a request approves in advance what files would run, or brings a command itself."""
    vouches: Callable[[Any], bool] | None
    """Return whether a request makes a person answer for what will be run, as ``trusts`` does unless said otherwise."""
    waits: bool = False
    """Takes as long as work takes: it has to notice a client that leaves."""
    keeps_key: bool = False
    """Its handler records the Idempotency-Key by itself: what it begins goes on when answered."""
    secret: bool = False
    """Its answer tells a secret, once."""
    scope: RouteScope | None = None
    """Of the token that it needs; None: ``read`` of a GET, ``operate`` of all else."""
    of_agent: bool = False
    """What it decides is one agent's: a token for some agents only may open it, and its handler looks for whom."""
    team: ToolFront | None
    manage: ToolFront | None
    cli: CommandFront | None

    @property
    def tokenless(self) -> bool:
        """Return whether a request may come without a token."""
        return self.open or self.signed or self.keyed

    @property
    def direct(self) -> bool:
        """Return whether its path is fixed and its answer one piece: nothing has to match or stream it."""
        return "<" not in self.path and (self.answers is not None or self.file)

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
    def description(self) -> str:
        """The first paragraph of the docstring."""
        return " ".join((inspect.getdoc(self.handler) or "").partition("\n\n")[0].split())

    @cached_property
    def in_space(self) -> bool:
        """Return whether it is about a space, which is looked up before it runs."""
        fields = self.variables if self.path else set(self.request.__struct_fields__) - _optional(self.request)
        return "space" in fields

    @cached_property
    def asks(self) -> type[msgspec.Struct] | None:
        """The body: what is neither in the path nor in the query. Computed at the first request."""
        if self.method not in _WITH_BODY:
            return None
        names = [name for name in self.request.__struct_fields__ if name not in self.query.values()]
        bases = (one for one in reversed(self.request.__mro__) if issubclass(one, msgspec.Struct))
        # Requests that extend one another with query parameters share their body.
        request = next(one for one in bases if set(names) <= set(one.__struct_fields__))
        elsewhere = {*self.variables.values(), *self.without}
        return _part(request, tuple(name for name in names if name not in elsewhere))


_WITH_BODY: Final = ("POST", "PUT", "PATCH")


def operation(
    run: Callable[..., Any],
    http: str = "",
    *,
    answers: type[msgspec.Struct] | None = None,
    team: ToolFront | None = None,
    manage: ToolFront | None = None,
    cli: CommandFront | None = None,
    people_only: bool | None = None,
    changes: bool | None = None,
    trusts: Callable[[Any], bool] | None = None,
    vouches: Callable[[Any], bool] | None = None,
    without: tuple[str, ...] = (),
    **more: Any,
) -> Operation:
    """Return the row of ``run``, whose annotations say what is asked and what is given.

    ``A | B`` is given as A to people, and as B to agents.

    Args:
        http: Method and path of its route. Where the request has a body, its query parameters are named:
            ``POST /agents/<name>/stop?wait``.
        more: Other fields of Operation.
    """
    function = cast("FunctionType", run)
    hints, code = function.__annotations__, function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    request, gives = hints.get("asked", Nothing), get_args(hints["return"]) or (hints["return"],)
    method, _, target = http.partition(" ")
    path, _, in_query = target.partition("?")
    kind: Literal["change", "query", "awaits", "computes"] = "awaits"
    if not inspect.iscoroutinefunction(run):
        kind = "change" if "tx" in names else "query" if "conn" in names else "computes"
    named = zip(request.__struct_encode_fields__, request.__struct_fields__, strict=True)
    known = (field for field in named if field[1] not in without)
    fields = dict(sorted(known, key=lambda field: field[1] in PAGING))
    variables = {name: fields.pop(name) for name in _VARIABLE.findall(path)}
    query = {name: fields[name] for name in in_query.split("&") if name} if method in _WITH_BODY else fields
    body = set(fields.values()) - set(query.values())
    return Operation(
        method=cast("Method", method),
        path=path,
        handler=run,
        takes=tuple(name for name in names if name not in ("tx", "conn")),
        kind=kind,
        request=request,
        gives=gives[-1],
        answers=answers or (None if gives[0] in (Response, Stream) else gives[0]),
        variables=variables,
        query=query,
        without=without,
        trusts=trusts,
        vouches=vouches or trusts,
        team=team,
        manage=manage,
        cli=cli,
        changes=(kind == "change" or method not in ("", "GET")) if changes is None else changes,
        people_only=method not in ("", "GET") if people_only is None else people_only,
        body_optional=more.pop("body_optional", bool(body) and body <= _optional(request)),
        **more,
    )


_VARIABLE: Final = re.compile(r"<(?:path:)?(\w+)>")


def _optional(request: type[msgspec.Struct]) -> set[str]:
    defaults = zip(reversed(request.__struct_fields__), reversed(request.__struct_defaults__), strict=False)
    return {name for name, default in defaults if default is not msgspec.NODEFAULT}


@cache
def _part(request: type[msgspec.Struct], names: tuple[str, ...]) -> type[msgspec.Struct] | None:
    """Return a struct of the fields ``names`` of ``request``, and with its name; None: of none."""
    if not names or names == request.__struct_fields__:
        return request if names else None
    fields = [declared(one) for one in msgspec.structs.fields(request) if one.name in names]
    return struct_of(request.__name__, request.__doc__, fields)


Declared = tuple[str, Any, Any]
"""Name, type and default of a field, as msgspec.defstruct takes them."""


def declared(field: msgspec.structs.FieldInfo, **changed: Any) -> Declared:
    """Return ``field`` for another struct, with what is ``changed``: ``name`` outside, ``type``, ``default``."""
    how = {"name": field.encode_name, "default": field.default, "default_factory": field.default_factory, **changed}
    return field.name, how.pop("type", field.type), msgspec.field(**how)


def struct_of(name: str, doc: str | None, fields: list[Declared]) -> type[msgspec.Struct]:
    """Return a struct of ``fields`` that refuses all others."""
    return msgspec.defstruct(name, fields, bases=(Ask,), namespace={"__doc__": doc}, frozen=True, kw_only=True)


async def invoke(row: Operation, services: Services, actor: Actor, asked: msgspec.Struct) -> Any:
    """Run an operation. Raises Refused."""
    store = services.store
    given: dict[str, Any] = {}
    for name in row.takes:
        match name:
            case "asked":
                given[name] = asked
            case "actor":
                given[name] = actor
            case "now_ms":
                given[name] = store.now_ms()
            case _:
                given[name] = getattr(services, name)
    match row.kind:
        case "change":
            return await store.writer.commit(row.handler, **given)
        case "query":
            return await store.reader.read(row.handler, **given)
        case "awaits":
            return await row.handler(**given)
        case _:
            return row.handler(**given)
