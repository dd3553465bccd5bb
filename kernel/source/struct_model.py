"""A model of Struct types: each field with its key, value type, bounds, default and text; built once per Struct.

YAML conversion, JSON Schema, the reference pages and the origins of values walk this model and no Python types. A
Struct inside of another is named, and modelled only when it is met: a small file needs few of them.

``msgspec.inspect.type_info`` is not used. It translates all nested Structs at once (8 ms for an agent's, against
0.3 ms for its own fields, at each start of a kernel), and it sorts the words of a ``Literal``, which are shown in the
order of the source.
"""

import ast
import inspect
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

from kernel.source.scalars import Quantity, quantity_of


class Anything(msgspec.Struct, frozen=True):
    """A value that nothing is known of."""


class Scalar(msgspec.Struct, frozen=True):
    """A text, number or truth value. ``quantity`` is set for a number that is written with a unit."""

    kind: type
    low: float | None = None
    high: float | None = None
    pattern: str | None = None
    quantity: Quantity | None = None


class Choice(msgspec.Struct, frozen=True):
    """One of a closed set of words, in the order of the source."""

    words: tuple[str, ...]


class Items(msgspec.Struct, frozen=True):
    """A list of values of one type."""

    item: "ValueType"


class Entries(msgspec.Struct, frozen=True):
    """A mapping of names to values of one type."""

    value: "ValueType"


class Nested(msgspec.Struct, frozen=True):
    """A value that is a Struct; ``model_of`` has its fields."""

    struct: type[msgspec.Struct]


class OneOf(msgspec.Struct, frozen=True):
    """A value of one of several types; ``nullable``: or none at all."""

    options: "tuple[ValueType, ...]"
    nullable: bool


ValueType = Anything | Scalar | Choice | Items | Entries | Nested | OneOf


class Field(msgspec.Struct, frozen=True):
    """A field of a Struct. ``key`` is its name in a file; ``default`` is NODEFAULT where it has none, or makes one."""

    name: str
    key: str
    type: ValueType
    default: object
    required: bool

    @property
    def quantity(self) -> Quantity | None:
        """The unit that its number is written with; None where it has none."""
        options = self.type.options if isinstance(self.type, OneOf) else (self.type,)
        return next((one.quantity for one in options if isinstance(one, Scalar) and one.quantity is not None), None)


class StructModel(msgspec.Struct, frozen=True):
    """The fields of a Struct in the order of the source, and by the key of the file."""

    struct: type[msgspec.Struct]
    fields: tuple[Field, ...]
    by_key: Mapping[str, Field]


@cache
def model_of(struct: type[msgspec.Struct]) -> StructModel:
    """The model of ``struct``. Raises TypeError for a type of a field that no file can hold."""
    fields = tuple(
        Field(info.name, info.encode_name, _value_type(info.type), info.default, info.required)
        for info in msgspec.structs.fields(struct)
    )
    return StructModel(struct, fields, MappingProxyType({field.key: field for field in fields}))


@cache
def field_texts(struct: type[msgspec.Struct]) -> Mapping[str, str]:
    """The docstrings below the fields of ``struct`` by the field's name, each on one line; they are read from source.

    A field that has none is left out; one that is inherited has that of the base.
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
    """The paragraphs of the docstring of ``struct``, each on one line."""
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
        return Choice(arguments)
    if origin in (Union, UnionType):
        options = tuple(_value_type(one) for one in arguments if one is not NoneType)
        return OneOf(options, nullable=NoneType in arguments)
    if origin is tuple:
        return Items(_value_type(arguments[0]))
    if origin is dict:
        return Entries(_value_type(arguments[1]))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return Nested(kind)
    raise TypeError(f"no key of a file can be a {kind}")
