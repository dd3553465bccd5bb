"""Rows of the table of tools: arguments, result and handler of what an agent may ask for."""

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Annotated, Any

import msgspec

from kernel.api.http.parameters import fields_of
from kernel.api.http.route import Route
from kernel.operations.operation import PAGING, Declared, Operation, ToolFront, declared, struct_of
from kernel.rule.draft import Author
from kernel.store.attempts import Identity
from protocol.tools import CONTEXT_SCOPES, ToolScope

InSpace = Annotated[
    str, msgspec.Meta(min_length=1, max_length=64, description="A space that you are in; unset: where you work.")
]


class ToolArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of a tool."""


class Caller(msgspec.Struct, frozen=True):
    """The author of a call: an attempt, as its token says, and the key of this very call if the client has one."""

    identity: Identity
    call_key: str | None = None

    @property
    def author(self) -> Author:
        """The attempt, as commits want it."""
        return Author(self.identity.instruction, self.identity.epoch)


class ToolRow(ToolFront, frozen=True, kw_only=True):
    """One row of a table of tools."""

    asks: type[ToolArguments]
    gives: type[msgspec.Struct]
    handler: Callable[..., Awaitable[Any]]


class Tool(ToolRow, frozen=True, kw_only=True):
    """One tool of agents. Its handler takes the caller and the arguments, and by name the records that it uses."""

    mutating: bool = False
    """It changes something."""

    @property
    def scope(self) -> ToolScope:
        """The part of the tools that it is of; those of ``tree`` say so to who calls them without one."""
        return CONTEXT_SCOPES[self.name]

    @property
    def is_paid_first(self) -> bool:
        """A grant is used before it begins: it reads, or changes files, which no commit takes back."""
        return not self.mutating or self.scope == "memory"


class ManagementTool(ToolRow, frozen=True, kw_only=True):
    """One tool of people's own programs: a route by another name, and open to whom that is.

    Arguments go where the route has their name: into its path, its body, else its query. The handler is the route's, or
    one that puts such together.
    """

    route: Route

    @property
    def mutating(self) -> bool:
        """Return whether it changes something."""
        return self.route.method != "GET"


class OperationTool(msgspec.Struct, frozen=True, eq=False, dict=True):
    """An operation as a tool."""

    row: Operation
    front: ToolFront

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.front.name

    @property
    def description(self) -> str:
        """Its own, or that of the operation."""
        return self.front.description or self.row.description

    @cached_property
    def asks(self) -> type[msgspec.Struct]:
        """The arguments: the fields of the request, those of a page last."""
        fields = [self._argument(one) for one in msgspec.structs.fields(self.row.request) if self._is_argument(one)]
        fields.sort(key=lambda one: self._rank(one[0]))
        return struct_of("Arguments", f"Arguments of {self.name}.", fields)

    def _rank(self, name: str) -> int:
        return 1 if name in PAGING else 0

    def _is_argument(self, field: msgspec.structs.FieldInfo) -> bool:
        return field.name not in self.front.without

    def _argument(self, field: msgspec.structs.FieldInfo) -> Declared:
        changed: dict[str, Any] = {"name": field.name.rstrip("_")}
        if field.name == "limit" and self.front.limits is not None:
            default, most = self.front.limits
            description = fields_of(self.row.request)["limit"].description
            kind = Annotated[int, msgspec.Meta(ge=1, le=most, description=description)]
            changed |= {"type": kind, "default": default}
        elif field.name in self.front.needs:
            given: Any = field.type
            changed |= {"type": Annotated[given, msgspec.Meta(min_length=1)], "default": msgspec.NODEFAULT}
        return declared(field, **changed)

    @property
    def idempotent(self) -> bool:
        """Return whether a repeated call does no harm."""
        return self.front.idempotent

    @property
    def waits(self) -> bool:
        """Return whether its answer may take as long as a person does."""
        return self.front.waits or self.row.waits

    @property
    def words(self) -> Callable[[Any], bytes | None] | None:
        """Makes a text of a result that is nothing else."""
        return self.front.words

    @property
    def mutating(self) -> bool:
        """Return whether it changes something."""
        return self.row.changes


class TeamTool(OperationTool, frozen=True, eq=False):
    """An operation as a tool of agents, which work in a space."""

    def _rank(self, name: str) -> int:
        return 2 if name == "space" else super()._rank(name)

    def _is_argument(self, field: msgspec.structs.FieldInfo) -> bool:
        return super()._is_argument(field) and (field.name != "space" or self.front.in_space)

    def _argument(self, field: msgspec.structs.FieldInfo) -> Declared:
        if field.name == "space":
            return declared(field, type=InSpace | None, default=None)
        return super()._argument(field)

    @property
    def gives(self) -> type[msgspec.Struct]:
        """The result."""
        return self.row.gives

    @property
    def scope(self) -> ToolScope:
        """The part of the tools that it is of."""
        return CONTEXT_SCOPES[self.name]

    @property
    def is_paid_first(self) -> bool:
        """A grant is used before it begins, as of Tool."""
        return not self.mutating or self.scope == "memory"


class PeopleTool(OperationTool, frozen=True, eq=False):
    """An operation as a tool of people's own programs."""

    @property
    def gives(self) -> type[msgspec.Struct]:
        """The result: that of the route."""
        assert self.row.answers is not None, "no tool streams"
        return self.row.answers

    @property
    def route(self) -> Operation:
        """The operation, which says to whom it is open."""
        return self.row


AnyTeamTool = Tool | TeamTool
AnyPeopleTool = ManagementTool | PeopleTool
AnyTool = AnyTeamTool | AnyPeopleTool


def schema_of(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of ``struct``, an object at its root as MCP wants it."""
    (root,), parts = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")
    schema = parts.pop(str(root["$ref"]).rpartition("/")[2])
    schema.pop("title", None)
    return {**schema, "$defs": parts} if parts else schema
