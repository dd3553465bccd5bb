"""The model of Struct types: what conversion, schemas and pages walk instead of Python types."""

from typing import Annotated, Any, Literal

import msgspec
import pytest

from kernel.source.convert import (
    Anything,
    Entries,
    Field,
    Items,
    Nested,
    OneOf,
    Scalar,
    Words,
    field_texts,
    model_of,
    struct_text,
)
from kernel.source.scalars import QUANTITIES


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part.

    It has ``texts``.
    """

    lasts: Annotated[float, msgspec.Meta(ge=0.1, le=60, extra={"duration": True})] | None = None
    """For how long;
    a ``duration``."""
    mode: Literal["slow", "fast"] = "slow"


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    parts: tuple[Part, ...] = ()
    free: dict[str, Any] = {}
    either: str | Part | None = None
    bound: Annotated[str, msgspec.Meta(pattern="^x")] = msgspec.field(default="x", name="as")


class Unreadable(msgspec.Struct):
    data: bytes


def test_a_model_has_every_field_with_its_key_type_and_default() -> None:
    made = msgspec.NODEFAULT
    assert model_of(Whole).fields == (
        Field("name", "name", Scalar(str), made, required=True),
        Field("parts", "parts", Items(Nested(Part)), (), required=False),
        Field("free", "free", Entries(Anything()), made, required=False),
        Field("either", "either", OneOf((Scalar(str), Nested(Part)), nullable=True), None, required=False),
        Field("bound", "as", Scalar(str, pattern="^x"), "x", required=False),
    )
    assert model_of(Whole).by_key["as"].name == "bound"
    assert model_of(Whole) is model_of(Whole)


def test_a_number_with_a_unit_is_one_also_where_it_may_be_left_out() -> None:
    lasts, mode = model_of(Part).fields
    assert lasts.type == OneOf((Scalar(float, 0.1, 60, None, QUANTITIES["duration"]),), nullable=True)
    assert lasts.quantity is QUANTITIES["duration"]
    assert mode.quantity is None


def test_words_keep_the_order_of_the_source() -> None:
    assert model_of(Part).by_key["mode"].type == Words(("slow", "fast"))


def test_texts_are_one_line_each() -> None:
    assert field_texts(Part) == {"lasts": "For how long; a `duration`."}
    assert struct_text(Part) == ["A part.", "It has `texts`."]


def test_a_type_that_no_file_can_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="bytes"):
        model_of(Unreadable)
