"""JSON Schema of what a user writes, from the Structs and their Shapes: for editors, which complete and underline.

An editor sees one file and no environment, so what passes here may still be refused; validate knows better.

What Structs say of themselves in their source: the text below each field. Nothing else in Python keeps it.
"""

import ast
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

from kernel.agents.definition import AGENT_SHAPES
from kernel.agents.mcp_servers import MCP_FILE
from kernel.agents.project import PROJECT_SHAPES
from kernel.inspect.resolve import quantity_in
from kernel.source.convert import TypeRules
from kernel.source.scalars import quantity_of
from kernel.workflows.load import WORKFLOW_SHAPES
from protocol.agent import Action, AgentDefinition, McpServer, Rule
from protocol.inspection import Kind
from protocol.names import NAME
from protocol.project import ProjectDefinition, ProjectLimits
from protocol.workflow import Param, Ref, VerdictTerms, WorkflowDefinition


def field_texts(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Name of a field -> what it means, on one line; fields that nobody explained are left out."""
    return _written(AgentDefinition) | _written(Ref) if kind is Ref else _written(kind)


@cache
def _written(kind: type[msgspec.Struct]) -> dict[str, str]:
    """As the docstrings below the fields say."""
    tree = ast.parse(inspect.getsource(kind))
    (node,) = tree.body
    assert isinstance(node, ast.ClassDef)
    texts: dict[str, str] = {}
    for before, after in zip(node.body, node.body[1:], strict=False):
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name) and _documents_text(after):
            texts[before.target.id] = _documents_text(after)
    return texts


def class_text(kind: type[msgspec.Struct]) -> str:
    """The first paragraph of the docstring of ``kind``, on one line."""
    return _prose((kind.__doc__ or "").partition("\n\n")[0])


def whole_text(kind: type[msgspec.Struct]) -> list[str]:
    """Every paragraph of the docstring of ``kind``."""
    return [_prose(paragraph) for paragraph in (kind.__doc__ or "").split("\n\n")]


def _prose(text: str) -> str:
    return " ".join(text.replace("``", "`").split())


def _documents_text(node: ast.stmt) -> str:
    constant = node.value if isinstance(node, ast.Expr) else None
    if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
        return _prose(constant.value)
    return ""


DRAFT: Final = "http://json-schema.org/draft-07/schema#"
"""The newest one that every editor's YAML support understands."""

Schema = dict[str, Any]
_PERCENT: Final = r"^[0-9]{1,3}(\.[0-9]{1,3})? ?%$"
_SCALARS: Final[Mapping[object, str]] = MappingProxyType(
    {str: "string", int: "integer", float: "number", bool: "boolean"}
)
_TITLES: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        "agent": "An agent: .agents/<name>.yaml",
        "workflow": "A workflow: .workflows/<name>.yaml",
        "project": "The project: .agents.yaml or moniro.yaml",
    }
)


@dataclass(frozen=True, slots=True)
class Root:
    """One sort of file: its Struct, what its types do not say, and keys that its place or its key gives it."""

    struct: type[msgspec.Struct]
    shapes: TypeRules


_PROJECT: Final = TypeRules(refused=MappingProxyType({**AGENT_SHAPES.refused, **PROJECT_SHAPES.refused}))
ROOTS: Final[Mapping[Kind, Root]] = MappingProxyType(
    {
        "agent": Root(AgentDefinition, AGENT_SHAPES),
        "workflow": Root(WorkflowDefinition, WORKFLOW_SHAPES),
        "project": Root(ProjectDefinition, _PROJECT),
    }
)


def schema_text(kind: Kind) -> str:
    """The schema as a file has it."""
    encoded = msgspec.json.encode(json_schema(kind))
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def schema_texts() -> dict[Kind, str]:
    """All of them."""
    return {kind: schema_text(kind) for kind in ROOTS}


def json_schema(kind: Kind) -> Schema:
    """The schema of a file of this ``kind``."""
    root = ROOTS[kind]
    writing = _Writing(root.shapes)
    body = writing.body(root.struct)
    return {"$schema": DRAFT, "title": _TITLES[kind], **body, "$defs": dict(sorted(writing.definitions.items()))}


def fields_of(kind: type[msgspec.Struct], shapes: TypeRules) -> list[msgspec.structs.FieldInfo]:
    """The keys a file may have, in the order in which they are declared."""
    return [info for info in msgspec.structs.fields(kind) if (kind, info.encode_name) not in shapes.refused]


def needed(kind: type[msgspec.Struct], info: msgspec.structs.FieldInfo) -> bool:
    """Whether a file must have the key. A name comes from the file's, or from the key of a workflow."""
    return info.required and (kind, info.name) not in _NAMED


_NAMED: Final = frozenset({(AgentDefinition, "name"), (WorkflowDefinition, "name")})


@dataclass(slots=True)
class _Writing:
    """One schema on its way. ``definitions`` grows by every Struct that is met."""

    shapes: TypeRules
    definitions: dict[str, Schema] = field(default_factory=dict[str, Schema])

    def body(self, kind: type[msgspec.Struct]) -> Schema:
        """The object that ``kind`` is in a file."""
        texts = field_texts(kind)
        keys = fields_of(kind, self.shapes)
        properties = {info.encode_name: self._property(kind, info, texts.get(info.name, "")) for info in keys}
        required = [info.encode_name for info in keys if needed(kind, info)]
        return {
            "description": class_text(kind),
            "type": "object",
            "properties": properties,
            **({"required": required} if required else {}),
            **_BETWEEN.get(kind, {}),
            "additionalProperties": False,
        }

    def _property(self, kind: type, info: msgspec.structs.FieldInfo, text: str) -> Schema:
        made = _SPECIAL.get((kind, info.name))
        schema = self._value(info.type) if made is None else made(self)
        refused = self.shapes.refused_values.get((kind, info.encode_name))
        if refused and "enum" in schema:
            schema = {**schema, "enum": [value for value in schema["enum"] if value not in refused]}
        if text:
            # Beside $ref everything else is ignored in this draft.
            schema = {"allOf": [schema], "description": text} if "$ref" in schema else {**schema, "description": text}
        default = default_of(info)
        return schema if default is None else {**schema, "default": default}

    def _value(self, kind: Any) -> Schema:
        if get_origin(kind) is Annotated:
            bare, *metas = get_args(kind)
            schema = self._value(bare)
            bounded_metas = [meta for meta in metas if isinstance(meta, msgspec.Meta)]
            for bounded_meta in bounded_metas:
                bounds = {"minimum": bounded_meta.ge, "maximum": bounded_meta.le, "pattern": bounded_meta.pattern}
                schema = {**schema, **{key: value for key, value in bounds.items() if value is not None}}
                quantity = quantity_of(bounded_meta)
                if quantity is not None:
                    schema = {"anyOf": [{"type": "string", "pattern": quantity.pattern}, schema]}
            return schema
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self.reference(kind)
        if kind in _SCALARS:
            return {"type": _SCALARS[kind]}
        compound = _COMPOUND.get(get_origin(kind))
        return {} if compound is None else compound(self, get_args(kind))

    def reference(self, kind: type[msgspec.Struct]) -> Schema:
        """A reference to the definition of ``kind``, which is written if this is the first one."""
        if kind.__name__ not in self.definitions:
            self.definitions[kind.__name__] = {}  # a Struct may hold itself
            self.definitions[kind.__name__] = self.body(kind)
        return {"$ref": f"#/$defs/{kind.__name__}"}

    def union(self, options: tuple[Any, ...]) -> Schema:
        kinds = [self._value(option) for option in options if option is not NoneType]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}

    def items(self, options: tuple[Any, ...]) -> Schema:
        return {"type": "array", "items": self._value(options[0])}

    def entries(self, options: tuple[Any, ...]) -> Schema:
        return {"type": "object", "additionalProperties": self._value(options[1]) or True}


def default_of(info: msgspec.structs.FieldInfo) -> object:
    """The default as a file would have it; None where there is none worth telling."""
    if info.default is msgspec.NODEFAULT or info.default is None:
        return None
    if isinstance(info.default, msgspec.Struct | tuple) or info.default in ("", {}):
        return None
    quantity = quantity_in(info.type)
    return info.default if quantity is None else quantity.show(info.default)


def _literal(writing: _Writing, options: tuple[Any, ...]) -> Schema:
    return {"type": "string", "enum": list(options)}


def _text(writing: _Writing) -> Schema:
    """A text: whatever YAML makes of it, the loader takes it as it is written."""
    return {"type": ["string", "number", "boolean"]}


def _script(writing: _Writing) -> Schema:
    """Rules, or in short the actions of one."""
    return {"type": "array", "items": {"anyOf": [writing.reference(Rule), writing.reference(Action)]}}


def _exit(writing: _Writing) -> Schema:
    """A signal's name, an exit code, or both in full."""
    full = writing.union(get_args(next(info.type for info in msgspec.structs.fields(Action) if info.name == "exit")))
    return {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 0, "maximum": 255}, full]}


def _servers(writing: _Writing) -> Schema:
    """In full, or names of servers of ``.mcp.json``, or all of them."""
    full = {"type": "object", "additionalProperties": writing.reference(McpServer)}
    return {"anyOf": [full, {"type": "array", "items": {"type": "string"}}, {"const": MCP_FILE}]}


def _members(writing: _Writing) -> Schema:
    entries = {"anyOf": [writing.reference(Ref), writing.reference(AgentDefinition)]}
    return {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"pattern": f"^{NAME.pattern}$"},
        "additionalProperties": entries,
    }


def _declared(writing: _Writing) -> Schema:
    either = [{"type": "string"}, writing.reference(AgentDefinition)]
    named = {
        "type": "object",
        "propertyNames": {"pattern": f"^{NAME.pattern}$"},
        "additionalProperties": {"anyOf": either},
    }
    return {"anyOf": [named, {"type": "array", "items": {"anyOf": either}}]}


def _name(writing: _Writing) -> Schema:
    return {"type": "string", "pattern": f"^{NAME.pattern}$"}


def _verdict(writing: _Writing) -> Schema:
    """Its id alone, or its terms."""
    return {"anyOf": [_name(writing), writing.reference(VerdictTerms)]}


def _backend(name: str) -> Schema:
    return {"properties": {"backend": {"const": name}}, "required": ["backend"]}


def _fraction(writing: _Writing) -> Schema:
    return {"anyOf": [{"type": "string", "pattern": _PERCENT}, {"type": "number", "minimum": 0, "maximum": 0.9}]}


_COMPOUND: Final[Mapping[object, Callable[[_Writing, tuple[Any, ...]], Schema]]] = MappingProxyType(
    {Union: _Writing.union, UnionType: _Writing.union, tuple: _Writing.items, dict: _Writing.entries, Literal: _literal}
)
_SPECIAL: Final[Mapping[tuple[type, str], Callable[[_Writing], Schema]]] = MappingProxyType(
    {
        (AgentDefinition, "name"): _name,
        (AgentDefinition, "mcp_servers"): _servers,
        (AgentDefinition, "mock"): _script,
        (Ref, "mock"): _script,
        (Ref, "ref"): _name,
        (Action, "exit"): _exit,
        (Param, "default"): _text,
        (WorkflowDefinition, "name"): _name,
        (WorkflowDefinition, "agents"): _members,
        (WorkflowDefinition, "verdict"): _verdict,
        (VerdictTerms, "id"): _name,
        (ProjectDefinition, "agents"): _declared,
        (ProjectLimits, "memory_reserve"): _fraction,
    }
)
"""Keys whose short spellings no type says."""
_BETWEEN: Final[Mapping[type, Schema]] = MappingProxyType(
    {
        AgentDefinition: {
            "if": _backend("mock"),
            "then": {"required": ["mock"]},
            "else": {
                "if": _backend("exec"),
                "then": {"required": ["command"]},
                "else": {"required": ["model"]},
            },
        }
    }
)
"""Rules between keys."""
