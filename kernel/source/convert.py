"""Converts a tree of nodes to frozen Structs by the model of their types, and notes every mistake at its place.

TypeRules say what the types cannot: short forms, keys and values that are refused. Rules between fields are checked
by the owner of the Struct, after conversion.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast

import msgspec

from kernel.source.diagnostics import Diagnostics, Location, suggest
from kernel.source.scalars import READERS, Mismatch, read_free, show
from kernel.source.struct_model import (
    Anything,
    Choice,
    Entries,
    Items,
    Nested,
    OneOf,
    Scalar,
    StructModel,
    ValueType,
    model_of,
)
from kernel.source.yaml_tree import ListNode, MapNode, Node, ScalarNode

S = TypeVar("S", bound=msgspec.Struct)

_WHERE_LIMIT: Final = 200


class _Invalid:
    """The type of the mark for a value that was noted as a mistake."""


_INVALID: Final = _Invalid()
_EMPTY: Final[Mapping[Any, Any]] = MappingProxyType({})


class TypeRules(msgspec.Struct, frozen=True):
    """Rules for the keys of files that types cannot express, by (Struct type, key of the file)."""

    short_forms: Mapping[tuple[type, str], Callable[[Node], Node]] = _EMPTY
    """Rewrites a short spelling to the full one before it is converted."""
    refused: Mapping[tuple[type, str], tuple[str, str]] = _EMPTY
    """Keys that are not taken, fields among them: message and hint."""
    refused_values: Mapping[tuple[type, str], Mapping[str, str]] = _EMPTY
    """Values of a closed set that are known but not taken: value -> hint."""


class Converter:
    """Converts the nodes of one file. Mistakes go to ``problems``; a Struct with one in it is not made."""

    def __init__(self, problems: Diagnostics, rules: TypeRules) -> None:
        self._problems = problems
        self._rules = rules

    def struct(self, node: Node, kind: type[S], where: str, given: Mapping[str, object] = _EMPTY) -> S | None:
        """``node`` as ``kind``; None where it was not right. ``given`` are fields that do not come from the file."""
        value = self._struct(node, model_of(kind), where, given)
        return None if value is _INVALID else cast("S", value)

    def _struct(self, node: Node, model: StructModel, where: str, given: Mapping[str, object] = _EMPTY) -> object:
        struct, rules = model.struct, self._rules
        fields = {key: one for key, one in model.by_key.items() if one.name not in given} if given else model.by_key
        if not isinstance(node, MapNode):
            return self._bad(node.place, where, f"needs keys, has {_what(node)}", f"keys: {', '.join(fields)}")
        values = dict(given)
        for key, child in node.entries:
            at = _join(where, key.text)
            refused = rules.refused.get((struct, key.text))
            found = fields.get(key.text)
            if refused is not None:
                values[key.text] = self._bad(key.place, at, *refused)
            elif found is None:
                hint = suggest(key.text, model.by_key, what="known keys")
                values[key.text] = self._bad(key.place, at, f"unknown key {show(key)}", hint)
            else:
                rewrite = rules.short_forms.get((struct, key.text))
                full = child if rewrite is None else rewrite(child)
                later = rules.refused_values.get((struct, key.text))
                if later and isinstance(full, ScalarNode) and full.text in later:
                    message = f"{full.text} is not supported in this version"
                    values[found.name] = self._bad(full.place, at, message, later[full.text])
                else:
                    values[found.name] = self._value(full, found.type, at)
        missing = [key for key, one in fields.items() if one.required and node.get(key) is None]
        if not any((struct, key.text) in rules.refused for key, _ in node.entries):
            # A key that is refused may be the missing one under another name.
            for name in missing:
                self._problems.add(node.place, _join(where, name), "is missing", f"add {name}:")
        return _INVALID if missing or _has_invalid(values.values()) else struct(**values)

    def _value(self, node: Node, kind: ValueType, where: str) -> object:  # noqa: C901, PLR0911  (one for each type)
        match kind:
            case Scalar():
                return self._scalar(node, kind, where)
            case OneOf(options, nullable):
                if nullable and isinstance(node, ScalarNode) and node.is_null:
                    return None
                # The first option that a node of this shape can be, else the error of the first of all.
                fitting = (one for one in options if isinstance(node, _SHAPES.get(type(one), ScalarNode)))
                return self._value(node, next(fitting, options[0]), where)
            case Choice(words):
                if not isinstance(node, ScalarNode):
                    hint = suggest("", words, what="allowed")
                    return self._bad(node.place, where, f"needs one word, has {_what(node)}", hint)
                if not node.is_null and node.text in words:
                    return node.text
                hint = suggest(node.text, words, what="allowed")
                return self._bad(node.place, where, f"{show(node)} is not allowed", hint)
            case Items(item):
                if not isinstance(node, ListNode):
                    hint = "write each item on a line: - item"
                    return self._bad(node.place, where, f"needs a list, has {_what(node)}", hint)
                items = [self._value(one, item, f"{where}[{index}]") for index, one in enumerate(node.items)]
                return _INVALID if _has_invalid(items) else tuple(items)
            case Entries(value):
                if not isinstance(node, MapNode):
                    return self._bad(node.place, where, f"needs keys, has {_what(node)}")
                entries = {key.text: self._value(one, value, _join(where, key.text)) for key, one in node.entries}
                return _INVALID if _has_invalid(entries.values()) else entries
            case Nested(struct):
                return self._struct(node, model_of(struct), where)
            case Anything():
                return self._free(node)

    def _scalar(self, node: Node, kind: Scalar, where: str) -> object:
        if not isinstance(node, ScalarNode):
            return self._bad(node.place, where, f"needs {_NEEDS[kind.kind]}, has {_what(node)}")
        quantity = kind.quantity
        try:
            value = READERS[kind.kind](node) if quantity is None else quantity.read(node)
            if isinstance(value, int | float):
                show_number = _plain if quantity is None else quantity.show
                if kind.low is not None and value < kind.low:
                    raise Mismatch(f"must be at least {show_number(kind.low)}, is {show_number(value)}")
                if kind.high is not None and value > kind.high:
                    raise Mismatch(f"must be at most {show_number(kind.high)}, is {show_number(value)}")
        except Mismatch as error:
            return self._bad(node.place, where, error.message, error.hint)
        return value

    def _free(self, node: Node) -> object:
        if isinstance(node, ScalarNode):
            return read_free(node)
        if isinstance(node, ListNode):
            return [self._free(item) for item in node.items]
        return {key.text: self._free(value) for key, value in node.entries}

    def _bad(self, place: Location, where: str, message: str, hint: str | None = None) -> _Invalid:
        self._problems.add(place, where[:_WHERE_LIMIT], message, hint)
        return _INVALID


_NEEDS: Final[Mapping[type, str]] = MappingProxyType(
    {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
)
_SHAPES: Final[Mapping[type, type[Node]]] = MappingProxyType({Items: ListNode, Entries: MapNode, Nested: MapNode})
"""The nodes that can be of a type; of every other one, scalars."""


def _has_invalid(values: Iterable[object]) -> bool:
    return any(value is _INVALID for value in values)


def _join(where: str, key: str) -> str:
    return f"{where}.{key[:_WHERE_LIMIT]}" if where else key[:_WHERE_LIMIT]


def _what(node: Node) -> str:
    if isinstance(node, ScalarNode):
        return show(node)
    return "a list" if isinstance(node, ListNode) else "keys"


def _plain(number: float) -> str:
    return str(number).removesuffix(".0")
