"""A tree of nodes to frozen Structs, with every mistake noted at its place. Driven by the Structs' own types.

What a type cannot say comes as a Shapes: short forms, keys of later versions. Rules between fields are checked
by whoever owns the Struct, after conversion.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin

import msgspec

from kernel.source.diagnostics import Diagnostics, Location
from kernel.source.scalars import READERS, Mismatch, quantity_of, read_free, show
from kernel.source.suggest import suggest
from kernel.source.yaml_tree import ListNode, MapNode, Node, ScalarNode

S = TypeVar("S", bound=msgspec.Struct)

_WHERE_LIMIT: Final = 200


class _Invalid:
    """Stands for a value that was noted as a mistake."""


_INVALID: Final = _Invalid()
_EMPTY: Final[Mapping[Any, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TypeRules:
    """What the types do not say. Keys are (Struct type, key of the file)."""

    short_forms: Mapping[tuple[type, str], Callable[[Node], Node]] = field(default_factory=lambda: _EMPTY)
    """Rewrites a short spelling to the full one before it is converted."""
    refused: Mapping[tuple[type, str], tuple[str, str]] = field(default_factory=lambda: _EMPTY)
    """Keys that are not taken, fields among them: message and hint."""
    refused_values: Mapping[tuple[type, str], Mapping[str, str]] = field(default_factory=lambda: _EMPTY)
    """Values of a closed set that are known but not taken: value -> hint."""


class Converter:
    """Converts the nodes of one file. Mistakes go to ``problems``; a Struct with one in it is not made."""

    def __init__(self, problems: Diagnostics, shapes: TypeRules) -> None:
        self._problems = problems
        self._shapes = shapes
        self._compound: dict[object, Callable[[Node, Any, str], object]] = {
            Union: self._union,
            tuple: self._tuple,
            dict: self._dict,
            Literal: self._literal,
            msgspec.Struct: self._struct,
        }

    def struct(self, node: Node, kind: type[S], where: str, given: Mapping[str, object] = _EMPTY) -> S | None:
        """``node`` as ``kind``; None where it was not right. ``given`` are fields that do not come from the file."""
        value = self._struct(node, kind, where, given)
        return None if isinstance(value, _Invalid) else cast("S", value)

    def _struct(self, node: Node, kind: type, where: str, given: Mapping[str, object] = _EMPTY) -> object:
        if not isinstance(node, MapNode):
            keys = ", ".join(info.encode_name for info in _fields(kind) if info.name not in given)
            return self._bad(node.place, where, f"needs keys, has {_what(node)}", f"keys: {keys}")
        fields = {info.encode_name: info for info in _fields(kind) if info.name not in given}
        values = dict(given)
        sound = True
        for key, child in node.entries:
            info = None if (kind, key.text) in self._shapes.refused else fields.get(key.text)
            at = _join(where, key.text)
            value = self._unknown(key, kind, at) if info is None else self._field(child, kind, info, at)
            sound = sound and not isinstance(value, _Invalid)
            values[key.text if info is None else info.name] = value
        sound = sound and not any(info.required and node.get(name) is None for name, info in fields.items())
        if not any((kind, key.text) in self._shapes.refused for key, _ in node.entries):
            for name, info in fields.items():
                if info.required and node.get(name) is None:
                    self._problems.add(node.place, _join(where, name), "is missing", f"add {name}:")
        return kind(**values) if sound else _INVALID

    def _unknown(self, key: ScalarNode, kind: type[msgspec.Struct], where: str) -> object:
        refused = self._shapes.refused.get((kind, key.text))
        if refused is not None:
            return self._bad(key.place, where, *refused)
        known = [info.encode_name for info in _fields(kind)]
        return self._bad(key.place, where, f"unknown key {show(key)}", suggest(key.text, known, what="known keys"))

    def _field(self, node: Node, kind: type, info: msgspec.structs.FieldInfo, where: str) -> object:
        name = info.encode_name
        rewrite = self._shapes.short_forms.get((kind, name))
        if rewrite is not None:
            node = rewrite(node)
        later = self._shapes.refused_values.get((kind, name))
        if later and isinstance(node, ScalarNode) and node.text in later:
            return self._bad(node.place, where, f"{node.text} is not supported in this version", later[node.text])
        return self._value(node, info.type, where)

    def _value(self, node: Node, kind: Any, where: str) -> object:
        bare, meta = _bare(kind)
        if bare is Any:
            return self._free(node)
        compound = self._compound.get(_sort_of(bare))
        if compound is not None:
            return compound(node, bare, where)
        if not isinstance(node, ScalarNode):
            return self._bad(node.place, where, f"needs {_NEEDS.get(bare, 'one word')}, has {_what(node)}")
        quantity = quantity_of(meta)
        try:
            value = READERS[bare](node) if quantity is None else quantity.read(node)
            show_number = _plain if quantity is None else quantity.show
            if meta is None or not isinstance(value, int | float):
                pass
            else:
                if meta.ge is not None and value < meta.ge:
                    raise Mismatch(f"must be at least {show_number(meta.ge)}, is {show_number(value)}")
                if meta.le is not None and value > meta.le:
                    raise Mismatch(f"must be at most {show_number(meta.le)}, is {show_number(value)}")
        except Mismatch as error:
            return self._bad(node.place, where, error.message, error.hint)
        return value

    def _literal(self, node: Node, kind: Any, where: str) -> object:
        allowed: tuple[str, ...] = get_args(kind)
        if not isinstance(node, ScalarNode):
            return self._bad(
                node.place, where, f"needs one word, has {_what(node)}", suggest("", allowed, what="allowed")
            )
        if not node.is_null and node.text in allowed:
            return node.text
        return self._bad(node.place, where, f"{show(node)} is not allowed", suggest(node.text, allowed, what="allowed"))

    def _union(self, node: Node, kind: Any, where: str) -> object:
        options: tuple[Any, ...] = get_args(kind)
        if NoneType in options and isinstance(node, ScalarNode) and node.is_null:
            return None
        kinds = [option for option in options if option is not NoneType]
        fitting = [option for option in kinds if isinstance(node, _shape_of(option))]
        return self._value(node, (fitting or kinds)[0], where)

    def _tuple(self, node: Node, kind: Any, where: str) -> object:
        if not isinstance(node, ListNode):
            return self._bad(node.place, where, f"needs a list, has {_what(node)}", "write each item on a line: - item")
        inner = get_args(kind)[0]
        values = [self._value(item, inner, f"{where}[{index}]") for index, item in enumerate(node.items)]
        return _INVALID if any(isinstance(value, _Invalid) for value in values) else tuple(values)

    def _dict(self, node: Node, kind: Any, where: str) -> object:
        if not isinstance(node, MapNode):
            return self._bad(node.place, where, f"needs keys, has {_what(node)}")
        inner = get_args(kind)[1]
        values = {key.text: self._value(child, inner, _join(where, key.text)) for key, child in node.entries}
        return _INVALID if any(isinstance(value, _Invalid) for value in values.values()) else values

    def _free(self, node: Node) -> object:
        if isinstance(node, ScalarNode):
            return read_free(node)
        if isinstance(node, ListNode):
            return [self._free(item) for item in node.items]
        return {key.text: self._free(value) for key, value in node.entries}

    def _bad(self, place: Location, where: str, message: str, hint: str | None = None) -> _Invalid:
        self._problems.add(place, where[:_WHERE_LIMIT], message, hint)
        return _INVALID


_NEEDS: Final[Mapping[object, str]] = MappingProxyType(
    {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
)


def _join(where: str, key: str) -> str:
    return f"{where}.{key[:_WHERE_LIMIT]}" if where else key[:_WHERE_LIMIT]


def _what(node: Node) -> str:
    if isinstance(node, ScalarNode):
        return show(node)
    return "a list" if isinstance(node, ListNode) else "keys"


def _bare(kind: Any) -> tuple[Any, msgspec.Meta | None]:
    if get_origin(kind) is not Annotated:
        return kind, None
    inner, *metas = get_args(kind)
    return inner, next((meta for meta in metas if isinstance(meta, msgspec.Meta)), None)


def _sort_of(bare: Any) -> object:
    """What ``bare`` is converted by: a key of the table above; None for a scalar."""
    if isinstance(bare, type) and issubclass(bare, msgspec.Struct):
        return msgspec.Struct
    origin: object = get_origin(bare)
    return Union if origin is UnionType else origin


def _shape_of(kind: Any) -> type[Node]:
    """The sort of node that could be ``kind``."""
    shapes: Mapping[object, type[Node]] = {tuple: ListNode, dict: MapNode, msgspec.Struct: MapNode}
    return shapes.get(_sort_of(_bare(kind)[0]), ScalarNode)


def _plain(number: float) -> str:
    return str(number).removesuffix(".0")


@lru_cache
def _fields(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The fields of ``kind``: finding out takes longer than reading a small file, and thousands are of one kind."""
    return msgspec.structs.fields(kind)
