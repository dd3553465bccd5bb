"""Operations: one row for each verb, from which its REST route, tools and command are generated.

A row names a function whose parameters select what it receives:

- ``tx``: the transaction of a change, or ``conn``: a read snapshot. Without either, the function awaits or computes.
- ``asked``: the request, a struct of path variables, query parameters and body.
- ``actor``: the author of the request.
- ``now_ms`` and the records of ``Services``: ``store``, ``files``, ``processes``, ``kernel``, ``memory``, ``nodes``.

The first paragraph of its docstring is the summary of the route and the description of its tools.
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
    """Author of a request (an attempt, a person, or a person's program) and the request's headers."""

    access: Access = ADMIN
    """Access of a person's token. The scope of the route has been checked."""
    identity: Identity | None = None
    """Identity of an attempt."""
    call_key: str | None = None
    """Key of an attempt's call."""
    request_key: RequestKey | None = None
    """From ``Idempotency-Key``: a repeat gets the recorded answer."""
    last_event_id: str | None = None
    accept: str = ""
    if_match: int | None = None
    """From ``If-Match``: version that the change is based on."""
    if_none_match: bool = False
    """From ``If-None-Match: *``: create only."""
    known: str = ""
    """``If-None-Match`` of a GET: ETags of the client's copies."""
    signed: Signed | None = None
    """Body and signature of a signed request."""

    @property
    def author(self) -> Author | None:
        """Return the attempt as author of commits. None: a person."""
        return None if self.identity is None else self.attempt

    @property
    def attempt(self) -> Author:
        """Return the attempt that sent the request, as author, with the key of its call."""
        return Author(self.agent.instruction, self.agent.epoch, self.call_key)

    @property
    def agent(self) -> Identity:
        """Return the identity of the attempt that sent the request."""
        assert self.identity is not None, "this is a tool of agents"
        return self.identity

    @property
    def name(self) -> str:
        """Return the name in messages: of the agent, or ``user``."""
        return USER if self.identity is None else self.identity.name


class Nothing(Ask, frozen=True, kw_only=True):
    """Request without fields."""


Space = Annotated[SpaceId, msgspec.Meta(min_length=1, description="Space, such as review:main or dm:alice.")]
"""Space of a request. People name a space; the space of an agent's request is where it works."""


class OfAgent(Ask, frozen=True, kw_only=True):
    """Request about an agent."""

    name: Annotated[str, msgspec.Meta(min_length=1)]


class OfId(Ask, frozen=True, kw_only=True):
    """Request that names an object by its id."""

    id: str


class InSpace(Ask, frozen=True, kw_only=True):
    """Request about a space."""

    space: Space


Run = Annotated[str, msgspec.Meta(description="Id of a run, such as r12. Unset: the newest run, or all runs.")] | None


class OfRun(Ask, frozen=True, kw_only=True):
    """Request about one run, or all runs."""

    run: Run = None


Wait = Annotated[bool, msgspec.Meta(description="Whether to answer only after the work has ended.")]
Limit = Annotated[int, msgspec.Meta(ge=1, le=LONGEST, description="Maximum number of rows.")]
After = Annotated[str, msgspec.Meta(description="Value of next on the previous page.")] | None
Before = Annotated[str, msgspec.Meta(description="Value of next on the previous page.")] | None


PAGING: Final = ("before", "after", "limit")
"""Paging fields, which come last."""


class Forward(Ask, frozen=True, kw_only=True):
    """Request for a page of a list, oldest first."""

    limit: Limit = LONGEST
    after: After = None


class Backward(Ask, frozen=True, kw_only=True):
    """Request for a page of a list, newest first."""

    limit: Limit = LONGEST
    before: Before = None


class ForwardOfSpace(Forward, frozen=True, kw_only=True):
    """Request for a page of a list, optionally only of a space."""

    space: Annotated[str, msgspec.Meta(description="Space, such as review:main or dm:alice.")] | None = None


class ForwardInSpace(InSpace, frozen=True, kw_only=True):
    """Request for a page of a space's list, oldest first."""

    limit: Limit = LONGEST
    after: After = None


class BackwardInSpace(InSpace, frozen=True, kw_only=True):
    """Request for a page of a space's list, newest first."""

    limit: Limit = LONGEST
    before: Before = None


def page_of(asked: Forward | Backward | ForwardInSpace | BackwardInSpace, letter: str) -> RowPage:
    """Return the requested page. Ids start with ``letter``. Raises Refused (bad_request)."""
    if isinstance(asked, Forward | ForwardInSpace):
        parameter, text = "after", asked.after
    else:
        parameter, text = "before", asked.before
    number = None if text is None else number_of(text, letter)
    if text is not None and number is None:
        raise Refused("bad_request", f"{parameter} must be the next of the previous page, such as {letter}12")
    return RowPage(asked.limit, number)


class ToolFront(msgspec.Struct, frozen=True):
    """Tool of an operation, for agents or for MCP clients of people.

    Its arguments are the fields of the request by their attribute names: ``task: str = field(name="id")`` is ``<id>``
    in a path, and ``task`` in the tool.
    """

    name: str
    description: str = ""
    """Description, if it differs from the operation's."""
    idempotent: bool = True
    """Whether a repeated call is harmless."""
    limits: tuple[int, int] | None = None
    """Default and maximum number of rows of a page."""
    in_space: bool = False
    """Whether an agent may name a space below its run's space."""
    without: tuple[str, ...] = ()
    """Fields of the request that are no arguments."""
    needs: tuple[str, ...] = ()
    """Arguments that are required although the route has a default."""
    waits: bool = False
    """Whether the call may block as long as a person takes."""
    words: Callable[[Any], bytes | None] | None = None
    """Function that returns a result as plain text, or None. The tool has no output schema."""


class CommandFront(msgspec.Struct, frozen=True):
    """Command of an operation. Path variables are positional arguments, other fields are flags."""

    words: str
    """Words of the command: ``task done``."""
    help: str
    view: str
    """Name of the function that shows the answer, in the command's module: ``ended_lines``."""
    arguments: Mapping[str, str] = {}
    """Placeholder and help by field: ``ID the id``. A placeholder ``ID...`` takes several ids."""
    lists: str = ""
    """For a page: the field with its rows, and the query parameter for its ``next``."""


class Operation(msgspec.Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """One verb of the API: a function with its request, result, required access and front ends."""

    method: Method | Literal[""]
    path: str
    """Path with variables in angle brackets. "": no route."""
    handler: Callable[..., Any]
    takes: tuple[str, ...]
    """Parameters of the handler, without ``tx`` and ``conn``."""
    kind: Literal["change", "query", "awaits", "computes"]
    request: type[msgspec.Struct]
    answers: type[msgspec.Struct] | None
    """Struct of the route's answer. None: a stream or a file."""
    gives: type[msgspec.Struct]
    """Struct of the tool's result for agents."""
    also: tuple[type[msgspec.Struct], ...] = ()
    """Other possible answers of the route."""
    status: int = 200
    statuses: tuple[int, ...] = ()
    """Other possible statuses of an answer."""
    variables: Mapping[str, str]
    """Field of the request by path variable."""
    query: Mapping[str, str]
    """Field of the request by query parameter."""
    without: tuple[str, ...]
    """Fields of the request that keep their defaults in this route."""
    body_optional: bool
    """Whether the body may be empty, which means all defaults."""
    changes: bool
    open: bool = False
    """Whether the route needs no token."""
    file: bool = False
    """Whether the answer is a file of the page."""
    signed: bool = False
    """Whether the route needs a signature of its body instead of a token. The handler checks it. The last part of the
    path is a variable."""
    keyed: bool = False
    """Whether the route needs a key in its body instead of a token. The handler checks it. The path is fixed."""
    people_only: bool
    """Whether processes of agents are refused, with any token."""
    trusts: Callable[[Any], bool] | None
    """Function that returns whether a request approves content of files in advance, or contains a command."""
    vouches: Callable[[Any], bool] | None
    """Function that returns whether a request makes a person responsible for what will run. Default: ``trusts``."""
    waits: bool = False
    """Whether the answer may take long, so the request is cancelled when the client disconnects."""
    keeps_key: bool = False
    """Whether the handler records the Idempotency-Key, because its work continues after the answer."""
    secret: bool = False
    """Whether the answer contains a secret that is shown only once."""
    scope: RouteScope | None = None
    """Required scope. None: ``read`` for a GET, otherwise ``operate``."""
    of_agent: bool = False
    """Whether a token for some agents is sufficient: the handler checks the request's agent."""
    team: ToolFront | None
    manage: ToolFront | None
    cli: CommandFront | None

    @property
    def tokenless(self) -> bool:
        """Return whether requests need no token."""
        return self.open or self.signed or self.keyed

    @property
    def direct(self) -> bool:
        """Return whether the path is fixed, so that no router is needed."""
        return "<" not in self.path

    @property
    def needs(self) -> RouteScope:
        """Return the required scope."""
        return self.scope or ("read" if self.method == "GET" else "operate")

    def opened_by(self, access: Access) -> bool:
        """Return whether ``access`` is sufficient. A token to approve calls of some agents opens no
        approval for all agents."""
        limited = self.needs == "approve" and access.agents is not None and not self.of_agent
        return access.opens(self.needs) and not limited

    def check(self, access: Access) -> None:
        """Raise Refused (forbidden, unauthorized) if ``access`` is not sufficient."""
        if self.tokenless:
            return
        if access == STRANGER:
            raise Refused("unauthorized", "a bearer token is required", hint="create a token with `awk token create`")
        if self.opened_by(access):
            return
        hint = "ask the administrator; `awk token create` cannot create a token for this"
        if self.needs != "admin":
            hint = f"ask the administrator for a token: awk token create --scope {self.needs}"
        has = access.scope if access.agents is None else f"{access.scope} for some agents only"
        raise Refused("forbidden", f"scope {self.needs} is required; this token has {has}", hint)

    @property
    def description(self) -> str:
        """Return the first paragraph of the handler's docstring, in one line."""
        return " ".join((inspect.getdoc(self.handler) or "").partition("\n\n")[0].split())

    @cached_property
    def in_space(self) -> bool:
        """Return whether the operation is about a space, which is resolved before it runs."""
        fields = self.variables if self.path else set(self.request.__struct_fields__) - _optional(self.request)
        return "space" in fields

    @cached_property
    def asks(self) -> type[msgspec.Struct] | None:
        """Return the struct of the body: all fields outside path and query. Computed at the first request."""
        if self.method not in _WITH_BODY:
            return None
        names = [name for name in self.request.__struct_fields__ if name not in self.query.values()]
        bases = (one for one in reversed(self.request.__mro__) if issubclass(one, msgspec.Struct))
        # Requests that extend each other with query parameters share their body.
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
    """Return the row of ``run``, whose annotations declare request and result.

    ``A | B`` is A for people and B for agents.

    Args:
        http: Method and path of its route. If the request has a body, the path names the query parameters:
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
    if not names or names == request.__struct_fields__:
        return request if names else None
    fields = [declared(one) for one in msgspec.structs.fields(request) if one.name in names]
    return struct_of(request.__name__, request.__doc__, fields)


Declared = tuple[str, Any, Any]
"""Name, type and default of a field, in the form of msgspec.defstruct."""


def declared(field: msgspec.structs.FieldInfo, **changed: Any) -> Declared:
    """Return the declaration of ``field`` with a ``changed`` ``name``, ``type`` or ``default``."""
    how = {"name": field.encode_name, "default": field.default, "default_factory": field.default_factory, **changed}
    return field.name, how.pop("type", field.type), msgspec.field(**how)


def struct_of(name: str, doc: str | None, fields: list[Declared]) -> type[msgspec.Struct]:
    """Return a struct of ``fields`` that refuses unknown fields."""
    return msgspec.defstruct(name, fields, bases=(Ask,), namespace={"__doc__": doc}, frozen=True, kw_only=True)


async def invoke(row: Operation, services: Services, actor: Actor, asked: msgspec.Struct) -> Any:
    """Run an operation and return the result of its handler. Raises Refused."""
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
