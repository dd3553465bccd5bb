"""Arguments of the worker's own tools: Structs that are both the JSON Schema a model is shown and the check of it."""

from typing import Any, TypeVar

import msgspec

from protocol.ipc import Json
from worker.tool import Outcome, ToolSpec


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of a tool."""


A = TypeVar("A", bound=Arguments)


class BadArguments(Exception):
    """They do not fit. ``outcome`` tells the model what is wrong, so that it can mend its call."""

    def __init__(self, name: str, error: msgspec.ValidationError) -> None:
        super().__init__(str(error))
        self.outcome = Outcome(f"the arguments of {name} do not fit: {error}", True)


def read_arguments(kind: type[A], name: str, args: dict[str, Any]) -> A:
    """``args`` of the tool ``name`` as a ``kind``. Raises BadArguments."""
    try:
        return msgspec.convert(args, kind)
    except msgspec.ValidationError as error:
        raise BadArguments(name, error) from error


def spec(name: str, about: str, kind: type[Arguments]) -> ToolSpec:
    """Describe the tool ``name`` for a model."""
    (_reference,), parts = msgspec.json.schema_components([kind])
    schema = parts[kind.__name__]
    schema = {key: value for key, value in schema.items() if key not in {"title", "description"}}
    return ToolSpec(name=name, description=about, input_schema=Json(msgspec.json.encode(schema)))
