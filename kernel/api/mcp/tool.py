"""A row of the table of tools: what an agent may ask for, what it gets, and who answers."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from kernel.api.context import Services
from kernel.rule.draft import Author
from kernel.store.attempts import Identity

Scope = Literal["context"]
"""What a token opens. Every attempt has ``context``."""


class ToolArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of a tool."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: an attempt, as its token says, and the key of this very call if the client has one."""

    identity: Identity
    call_key: str | None = None

    @property
    def author(self) -> Author:
        """The attempt, as commits want it."""
        return Author(self.identity.instruction, self.identity.epoch)


ToolHandler = Callable[[Services, Caller, Any], Awaitable[msgspec.Struct]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool. ``mutating`` ones change something; ``idempotent`` ones may be repeated without harm."""

    name: str
    description: str
    asks: type[ToolArguments]
    gives: type[msgspec.Struct]
    handler: ToolHandler
    scope: Scope = "context"
    mutating: bool = False
    idempotent: bool = True
    waits: bool = False
    """Its answer may take as long as a person does."""
    words: Callable[[Any], bytes | None] | None = None
    """Some of its results are nothing but this text; so no schema of them is published."""


def schema_of(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of ``struct``, an object at its root as MCP wants it."""
    (root,), parts = msgspec.json.schema_components([struct], ref_template=_REFERENCE)
    schema = parts.pop(str(root["$ref"]).rpartition("/")[2])
    schema.pop("title", None)
    return {**schema, "$defs": parts} if parts else schema


_REFERENCE: Final = "#/$defs/{name}"
