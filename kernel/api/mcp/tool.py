"""Rows of the table of tools: arguments, result and handler of what an agent may ask for."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from kernel.api.http.route import Route
from kernel.rule.draft import Author
from kernel.store.attempts import Identity
from protocol.tools import CONTEXT_SCOPES, ToolScope


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


class ToolRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a table of tools. ``idempotent`` ones may be repeated without harm."""

    name: str
    description: str
    asks: type[ToolArguments]
    gives: type[msgspec.Struct]
    handler: Callable[..., Awaitable[Any]]
    idempotent: bool = True
    waits: bool = False
    """Its answer may take as long as a person does."""
    words: Callable[[Any], bytes | None] | None = None
    """Some of its results are nothing but this text; so no schema of them is published."""


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


AnyTool = Tool | ManagementTool


def schema_of(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of ``struct``, an object at its root as MCP wants it."""
    (root,), parts = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")
    schema = parts.pop(str(root["$ref"]).rpartition("/")[2])
    schema.pop("title", None)
    return {**schema, "$defs": parts} if parts else schema
