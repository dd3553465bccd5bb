"""JSON Schema of the files that users write, for editors, generated from the model of Structs.

An editor sees one file and no environment, so ``validate`` may still refuse a file that passes here.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from kernel.agents.definition import AGENT_SHAPES
from kernel.agents.mcp_servers import MCP_FILE
from kernel.agents.project import PROJECT_SHAPES
from kernel.source.convert import (
    Anything,
    Entries,
    Field,
    Items,
    Nested,
    OneOf,
    Scalar,
    TypeRules,
    ValueType,
    Words,
    field_texts,
    model_of,
    struct_text,
)
from kernel.workflows.load import WORKFLOW_SHAPES
from protocol.agent import Action, AgentDefinition, McpServer, MockExit, Rule
from protocol.inspection import Kind
from protocol.message import DURABLE, LIVE, Message
from protocol.names import NAME
from protocol.project import ProjectDefinition, ProjectLimits
from protocol.workflow import Param, Ref, VerdictTerms, WorkflowDefinition

DRAFT: Final = "http://json-schema.org/draft-07/schema#"
"""The newest draft that the YAML support of all common editors understands."""

Schema = dict[str, Any]
_PERCENT: Final = r"^[0-9]{1,3}(\.[0-9]{1,3})? ?%$"
_SCALARS: Final[Mapping[type, str]] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_TITLES: Final[Mapping[Kind, str]] = {
    "agent": "An agent: .agents/<name>.yaml",
    "workflow": "A workflow: .workflows/<name>.yaml",
    "project": "The project: .agents.yaml or moniro.yaml",
}


class Root(msgspec.Struct, frozen=True):
    """A kind of file: its Struct, and the rules that its types cannot express."""

    struct: type[msgspec.Struct]
    rules: TypeRules


_PROJECT: Final = TypeRules(refused={**AGENT_SHAPES.refused, **PROJECT_SHAPES.refused})
ROOTS: Final[Mapping[Kind, Root]] = {
    "agent": Root(AgentDefinition, AGENT_SHAPES),
    "workflow": Root(WorkflowDefinition, WORKFLOW_SHAPES),
    "project": Root(ProjectDefinition, _PROJECT),
}


def schema_text(kind: Kind) -> str:
    """Return the schema as the text of a file."""
    encoded = msgspec.json.encode(json_schema(kind))
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def json_schema(kind: Kind) -> Schema:
    """Return the schema of files of this ``kind``."""
    root = ROOTS[kind]
    writing = _Writing(root.rules)
    body = writing.body(root.struct)
    return {"$schema": DRAFT, "title": _TITLES[kind], **body, "$defs": dict(sorted(writing.definitions.items()))}


def texts_of(struct: type[msgspec.Struct]) -> Mapping[str, str]:
    """Return the texts of the fields. A Ref's key without a text has the text of an agent's key."""
    return {**field_texts(AgentDefinition), **field_texts(Ref)} if struct is Ref else field_texts(struct)


def fields_of(struct: type[msgspec.Struct], rules: TypeRules) -> list[Field]:
    """Return the keys that a file may have, in the order of their declaration."""
    return [one for one in model_of(struct).fields if (struct, one.key) not in rules.refused]


def needed(struct: type[msgspec.Struct], one: Field) -> bool:
    """Return whether a file must have the key. ``name`` may come from the file's name or a key."""
    return one.required and (struct, one.name) not in _NAMED


_NAMED: Final = frozenset({(AgentDefinition, "name"), (WorkflowDefinition, "name")})


class _Writing(msgspec.Struct):
    """Builder of one schema. ``definitions`` contains every Struct used so far."""

    rules: TypeRules
    definitions: dict[str, Schema] = msgspec.field(default_factory=dict[str, Schema])

    def body(self, struct: type[msgspec.Struct]) -> Schema:
        texts = texts_of(struct)
        keys = fields_of(struct, self.rules)
        required = [one.key for one in keys if needed(struct, one)]
        return {
            "description": struct_text(struct)[0],
            "type": "object",
            "properties": {one.key: self.property(struct, one, texts.get(one.name, "")) for one in keys},
            **({"required": required} if required else {}),
            **_BETWEEN.get(struct, {}),
            "additionalProperties": False,
        }

    def property(self, struct: type, one: Field, text: str) -> Schema:
        made = _SPECIAL.get((struct, one.name))
        fixed = _FIXED.get((struct, one.name))
        schema = fixed or (self.value(one.type) if made is None else made(self))
        refused = self.rules.refused_values.get((struct, one.key))
        if refused and "enum" in schema:
            schema = {**schema, "enum": [value for value in schema["enum"] if value not in refused]}
        if text:
            # This draft ignores all keys beside $ref.
            schema = {"allOf": [schema], "description": text} if "$ref" in schema else {**schema, "description": text}
        default = default_of(one)
        return schema if default is None else {**schema, "default": default}

    def value(self, kind: ValueType) -> Schema:  # noqa: PLR0911  (one for each type)
        match kind:
            case Scalar():
                bounds = {"minimum": kind.low, "maximum": kind.high, "pattern": kind.pattern}
                present = {key: value for key, value in bounds.items() if value is not None}
                schema = {"type": _SCALARS[kind.kind], **present}
                if kind.quantity is None:
                    return schema
                return {"anyOf": [{"type": "string", "pattern": kind.quantity.pattern}, schema]}
            case Words(words):
                return {"type": "string", "enum": list(words)}
            case OneOf(options):
                kinds = [self.value(option) for option in options]
                return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
            case Items(item):
                return {"type": "array", "items": self.value(item)}
            case Entries(value):
                return {"type": "object", "additionalProperties": self.value(value) or True}
            case Nested(struct):
                return self.reference(struct)
            case Anything():
                return {}

    def reference(self, struct: type[msgspec.Struct]) -> Schema:
        """Return a reference to the definition of ``struct``, which is written on first use."""
        if struct.__name__ not in self.definitions:
            self.definitions[struct.__name__] = {}  # a Struct may contain itself
            self.definitions[struct.__name__] = self.body(struct)
        return {"$ref": f"#/$defs/{struct.__name__}"}


def default_of(one: Field) -> object:
    """Return the default as a file writes it. None: no default, or an empty one."""
    if one.default is msgspec.NODEFAULT or one.default is None:
        return None
    if isinstance(one.default, msgspec.Struct | tuple) or one.default in ("", {}):
        return None
    if one.quantity is not None and isinstance(one.default, int | float):
        return one.quantity.show(one.default)
    return one.default


_NAMES: Final[Schema] = {"pattern": f"^{NAME.pattern}$"}
_NAME: Final[Schema] = {"type": "string", "pattern": f"^{NAME.pattern}$"}


def _script(writing: _Writing) -> Schema:
    return {"type": "array", "items": {"anyOf": [writing.reference(Rule), writing.reference(Action)]}}


def _backend(name: str) -> Schema:
    return {"properties": {"backend": {"const": name}}, "required": ["backend"]}


def _declared_agents(writing: _Writing) -> Schema:
    either = {"anyOf": [{"type": "string"}, writing.reference(AgentDefinition)]}
    named = {"type": "object", "propertyNames": _NAMES, "additionalProperties": either}
    return {"anyOf": [named, {"type": "array", "items": either}]}


_SPECIAL: Final[Mapping[tuple[type, str], Callable[[_Writing], Schema]]] = {
    # Definitions, names of servers of .mcp.json, or all its servers.
    (AgentDefinition, "mcp_servers"): lambda writing: {
        "anyOf": [
            {"type": "object", "additionalProperties": writing.reference(McpServer)},
            {"type": "array", "items": {"type": "string"}},
            {"const": MCP_FILE},
        ]
    },
    (AgentDefinition, "mock"): _script,
    (Ref, "mock"): _script,
    # The name of a signal, an exit code, or both as a mapping.
    (Action, "exit"): lambda writing: {
        "anyOf": [{"type": "string"}, {"type": "integer", "minimum": 0, "maximum": 255}, writing.reference(MockExit)]
    },
    (WorkflowDefinition, "agents"): lambda writing: {
        "type": "object",
        "minProperties": 1,
        "propertyNames": _NAMES,
        "additionalProperties": {"anyOf": [writing.reference(Ref), writing.reference(AgentDefinition)]},
    },
    # The id alone, or the terms.
    (WorkflowDefinition, "verdict"): lambda writing: {"anyOf": [_NAME, writing.reference(VerdictTerms)]},
    (ProjectDefinition, "agents"): _declared_agents,
}
"""Schemas of keys with short forms that their types do not express. They refer to other Structs."""
_FIXED: Final[Mapping[tuple[type, str], Schema]] = {
    (AgentDefinition, "name"): _NAME,
    (Ref, "ref"): _NAME,
    (WorkflowDefinition, "name"): _NAME,
    (VerdictTerms, "id"): _NAME,
    # A text: the loader uses the written form, whatever type YAML infers.
    (Param, "default"): {"type": ["string", "number", "boolean"]},
    (ProjectLimits, "memory_reserve"): {
        "anyOf": [{"type": "string", "pattern": _PERCENT}, {"type": "number", "minimum": 0, "maximum": 0.9}]
    },
}
"""Schemas of keys with short forms that their types do not express. They refer to no Struct."""
_BETWEEN: Final[Mapping[type, Schema]] = {
    AgentDefinition: {
        "if": _backend("mock"),
        "then": {"required": ["mock"]},
        "else": {
            "if": _backend("exec"),
            "then": {"required": ["command"]},
            "else": {"if": {"not": _backend("human")}, "then": {"required": ["model"]}},
        },
    }
}
"""Conditions that relate several keys of a Struct."""


def events_schema_text() -> str:
    """Return the schema of one event of GET /events, the text of schema/events.json."""
    (message,), parts = msgspec.json.schema_components([Message], ref_template="#/definitions/{name}")
    parts["event"] = {
        "type": "object",
        "properties": {
            "at": {"type": "string", "format": "date-time"},
            **{name: {"type": ["string", "null"]} for name in ("space", "agent", "instruction")},
            "data": {"type": "object"},
        },
        "required": ["type", "at", "data"],
    }
    kinds: list[Schema] = []
    for types, seq in ((DURABLE, {"type": "integer", "minimum": 1}), (LIVE, {"type": "null"})):
        for name, text in types.items():
            properties: Schema = {"type": {"const": name}, "seq": seq}
            if name == "message":
                properties["data"] = message
            required = {"required": ["seq"]} if types is DURABLE else {}
            kinds.append({"description": text, "properties": properties, **required})
    schema = {
        "$schema": DRAFT,
        "title": "An event of GET /events, awk events --jsonl and events_read",
        "allOf": [{"$ref": "#/definitions/event"}],
        "oneOf": kinds,
        "definitions": parts,
    }
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"
