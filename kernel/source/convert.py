"""Convert a tree of nodes to frozen Structs by a model of their types, and report every error with its location.

The model describes each field with its key, value type, bounds, default and text; it is built once per Struct. YAML
conversion, JSON Schema, the reference pages and the origins of values use this model instead of Python types. A nested
Struct is modelled only when it is first used, because a small file needs few of them.

TypeRules express what types cannot: short forms, and refused keys and values. The owner of a Struct checks rules
between fields after the conversion.

``msgspec.inspect.type_info`` is not used. It translates all nested Structs at once (8 ms for an agent's, against 0.3 ms
for its own fields, at each start of a kernel), and it sorts the words of a ``Literal``, which are shown in the order of
the source.
"""

import ast
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin

import msgspec

from kernel.source.diagnostics import Diagnostics, Location, suggest
from kernel.source.scalars import READERS, Mismatch, Quantity, quantity_of, read_free, show
from kernel.source.yaml_tree import ListNode, MapNode, Node, ScalarNode


class Anything(msgspec.Struct, frozen=True):
    """Value of any type."""


class Scalar(msgspec.Struct, frozen=True):
    """Text, number or truth value. ``quantity`` is set for a number that is written with a unit."""

    kind: type
    low: float | None = None
    high: float | None = None
    pattern: str | None = None
    quantity: Quantity | None = None


class Words(msgspec.Struct, frozen=True):
    """Word from a closed set, in the order of the source."""

    words: tuple[str, ...]


class Items(msgspec.Struct, frozen=True):
    """List of values of one type."""

    item: "ValueType"


class Entries(msgspec.Struct, frozen=True):
    """Mapping of names to values of one type."""

    value: "ValueType"


class Nested(msgspec.Struct, frozen=True):
    """Value that is a Struct; ``model_of`` returns its fields."""

    struct: type[msgspec.Struct]


class OneOf(msgspec.Struct, frozen=True):
    """Value of one of several types; ``nullable``: or no value."""

    options: "tuple[ValueType, ...]"
    nullable: bool


ValueType = Anything | Scalar | Words | Items | Entries | Nested | OneOf


class Field(msgspec.Struct, frozen=True):
    """Field of a Struct; ``key``: its name in a file, ``default``: NODEFAULT without a constant."""

    name: str
    key: str
    type: ValueType
    default: object
    required: bool

    @property
    def quantity(self) -> Quantity | None:
        """Return the unit of a field that is a number with a unit; None for other fields."""
        options = self.type.options if isinstance(self.type, OneOf) else (self.type,)
        return next((one.quantity for one in options if isinstance(one, Scalar) and one.quantity is not None), None)


class StructModel(msgspec.Struct, frozen=True):
    """Fields of a Struct in the order of the source, and by their keys in a file."""

    struct: type[msgspec.Struct]
    fields: tuple[Field, ...]
    by_key: Mapping[str, Field]


@cache
def model_of(struct: type[msgspec.Struct]) -> StructModel:
    """Return the model of ``struct``. Raises TypeError for a field type that no file can contain."""
    fields = tuple(
        Field(info.name, info.encode_name, _value_type(info.type), info.default, info.required)
        for info in msgspec.structs.fields(struct)
    )
    return StructModel(struct, fields, MappingProxyType({field.key: field for field in fields}))


@cache
def field_texts(struct: type[msgspec.Struct]) -> Mapping[str, str]:
    """Return the docstrings of the fields of ``struct`` by field name, each on one line, read from the source.

    Fields without a docstring are omitted; inherited fields have their base's.
    """
    (node,) = ast.parse(inspect.getsource(struct)).body
    assert isinstance(node, ast.ClassDef)
    bases = (base for base in struct.__bases__ if issubclass(base, msgspec.Struct) and base.__struct_fields__)
    texts: dict[str, str] = {name: text for base in bases for name, text in field_texts(base).items()}
    for before, after in zip(node.body, node.body[1:], strict=False):
        constant = after.value if isinstance(after, ast.Expr) else None
        text = constant.value if isinstance(constant, ast.Constant) else None
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name) and isinstance(text, str):
            texts[before.target.id] = _prose(text)
    return MappingProxyType(texts)


def struct_text(struct: type[msgspec.Struct]) -> list[str]:
    """Return the paragraphs of the docstring of ``struct``, each on one line."""
    return [_prose(paragraph) for paragraph in (struct.__doc__ or "").split("\n\n")]


def _prose(text: str) -> str:
    return " ".join(text.replace("``", "`").split())


_SCALARS: Final = frozenset({str, int, float, bool})


def _value_type(kind: Any) -> ValueType:  # noqa: PLR0911  (one for each type)
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return Anything()
    if kind in _SCALARS:
        return Scalar(kind)
    if origin is Annotated and arguments[0] in _SCALARS:
        bounds = next(one for one in arguments[1:] if isinstance(one, msgspec.Meta))
        return Scalar(arguments[0], bounds.ge, bounds.le, bounds.pattern, quantity_of(bounds))
    if origin is Literal:
        return Words(arguments)
    if origin in (Union, UnionType):
        options = tuple(_value_type(one) for one in arguments if one is not NoneType)
        return OneOf(options, nullable=NoneType in arguments)
    if origin is tuple:
        return Items(_value_type(arguments[0]))
    if origin is dict:
        return Entries(_value_type(arguments[1]))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return Nested(kind)
    raise TypeError(f"a key of a file cannot have the type {kind}")


S = TypeVar("S", bound=msgspec.Struct)

_WHERE_LIMIT: Final = 200


class _Invalid:
    """Type of ``_INVALID``, which stands for a value that cannot be converted."""


_INVALID: Final = _Invalid()
_EMPTY: Final[Mapping[Any, Any]] = {}


class TypeRules(msgspec.Struct, frozen=True):
    """Rules for the keys of files that types cannot express, by (Struct type, key of the file)."""

    short_forms: Mapping[tuple[type, str], Callable[[Node], Node]] = _EMPTY
    """Functions that rewrite a short form to the full one before the conversion."""
    refused: Mapping[tuple[type, str], tuple[str, str]] = _EMPTY
    """Refused keys, including fields: message and hint."""
    refused_values: Mapping[tuple[type, str], Mapping[str, str]] = _EMPTY
    """Refused values of a closed set: value -> hint."""


class Converter:
    """Converts the nodes of one file. Errors go to ``problems``; a Struct with an error is not created."""

    def __init__(self, problems: Diagnostics, rules: TypeRules) -> None:
        self._problems = problems
        self._rules = rules

    def struct(self, node: Node, kind: type[S], where: str, given: Mapping[str, object] = _EMPTY) -> S | None:
        """Return ``node`` as ``kind``, or None if it is invalid. ``given`` are fields not from the file."""
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
            # A refused key may be a misspelled required key.
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
                words = tuple(word for one in options if isinstance(one, Words) for word in one.words)
                if words and isinstance(node, ScalarNode) and not node.text.lstrip("-")[:1].isdecimal():
                    if node.text in words:
                        return node.text
                    hint = suggest(node.text, words, what="allowed besides a number")
                    return self._bad(node.place, where, f"{show(node)} is not allowed", hint)
                # The first option that fits the shape of the node, else the error of the first option.
                fitting = (one for one in options if isinstance(node, _SHAPES.get(type(one), ScalarNode)))
                return self._value(node, next(fitting, options[0]), where)
            case Words(words):
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


_NEEDS: Final[Mapping[type, str]] = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
_SHAPES: Final[Mapping[type, type[Node]]] = {Items: ListNode, Entries: MapNode, Nested: MapNode}
"""Node types that fit a value type; all other types need scalars."""


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
