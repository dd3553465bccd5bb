"""Conversion to Structs: every mistake at once, each at its place with a hint."""

from typing import Annotated, Any, Literal

import msgspec
import pytest

from kernel.source.convert import Converter, TypeRules
from kernel.source.diagnostics import MAX_ERRORS, Diagnostics
from kernel.source.files import tree_of
from kernel.source.yaml_tree import ListNode, Node


class Inner(msgspec.Struct, frozen=True, kw_only=True):
    lasts: Annotated[float, msgspec.Meta(ge=0.1, le=60, extra={"duration": True})] = 1.0


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    count: Annotated[int, msgspec.Meta(ge=1, le=10)] = 1
    ratio: float = 0.5
    flag: bool = False
    mode: Literal["fast", "slow"] = "fast"
    maybe: str | None = None
    either: str | Inner | None = None
    words: tuple[str, ...] = ()
    inners: tuple[Inner, ...] = ()
    numbers: dict[str, int] = {}
    free: dict[str, Any] = {}
    bound: str | None = msgspec.field(default=None, name="as")


def convert(text: str, shapes: TypeRules | None = None) -> tuple[Sample | None, Diagnostics]:
    node, problems = tree_of(text.encode(), "file.yaml")
    return Converter(problems, shapes or TypeRules()).struct(node, Sample, ""), problems


@pytest.mark.promise("CF06")
@pytest.mark.parametrize("word", ["no", "12:30", "010", "1e3", "2026-02-30", "true", "0x10", "5"])
def test_a_text_field_takes_the_text_as_it_stands(word: str) -> None:
    sample, problems = convert(f"text: {word}")
    assert problems.errors == ()
    assert sample is not None
    assert sample.text == word


def test_every_kind_of_field_is_converted() -> None:
    """contracts 1: the shapes the files use."""
    sample, problems = convert(
        "text: t\ncount: 3\nratio: 1e-1\nflag: true\nmode: slow\nmaybe: ~\neither: {lasts: 200ms}\n"
        "words: [a, 1]\ninners: [{lasts: 10}, {lasts: 1m}]\nnumbers: {a: 1}\nfree: {x: [1, 010, 1e3, no, ~, true]}\n"
        "as: b"
    )
    assert problems.errors == ()
    assert sample == Sample(
        text="t",
        count=3,
        ratio=0.1,
        flag=True,
        mode="slow",
        either=Inner(lasts=0.2),
        words=("a", "1"),
        inners=(Inner(lasts=10.0), Inner(lasts=60.0)),
        numbers={"a": 1},
        free={"x": [1, "010", 1000.0, "no", None, True]},
        bound="b",
    )


@pytest.mark.promise("CF06", "CF07", "CF13")
@pytest.mark.parametrize(
    ("line", "where", "column", "message", "hint"),
    [
        ("txt: a", "txt", 1, "unknown key 'txt'", "did you mean text?"),
        ("zzz: a", "zzz", 1, "unknown key 'zzz'", "known keys: as, count"),
        ("count: 010", "count", 8, "needs a whole number, has '010'", "leading zero"),
        ('count: "5"', "count", 8, "needs a whole number, has '5'", "remove the quotes"),
        ("count: 99", "count", 8, "must be at most 10, is 99", ""),
        ("count: 0", "count", 8, "must be at least 1, is 0", ""),
        ("count: 99999999999999999999", "count", 8, "needs a whole number", ""),
        ("count: [1]", "count", 8, "needs a whole number, has a list", ""),
        ("ratio: .inf", "ratio", 8, "needs a number", ""),
        ("ratio: 1e999", "ratio", 8, "needs a number", ""),
        ("flag: yes", "flag", 7, "needs true or false, has 'yes'", "write true"),
        ("flag: 'true'", "flag", 7, "needs true or false", "write true"),
        ("mode: fats", "mode", 7, "'fats' is not allowed", "did you mean fast?"),
        ("mode: [fast]", "mode", 7, "needs one word, has a list", "allowed: fast, slow"),
        ("maybe: {a: 1}", "maybe", 8, "needs a text, has keys", ""),
        ("either: {last: 1}", "either.last", 10, "unknown key 'last'", "did you mean lasts?"),
        ("inners: [{lasts: 0s}]", "inners[0].lasts", 18, "must be at least 100ms, is 0s", ""),
        ("inners: [{lasts: -5m}]", "inners[0].lasts", 18, "needs a duration, has '-5m'", "30s, 10m"),
        ("inners: [{lasts: 1e-9s}]", "inners[0].lasts", 18, "needs a duration", ""),
        ("inners: [{lasts: 1000000000d}]", "inners[0].lasts", 18, "must be at most 1m", ""),
        ("words: one", "words", 8, "needs a list, has 'one'", "- item"),
        ("words:", "words", 7, "needs a list, has nothing", ""),
        ("numbers: {a: b}", "numbers.a", 14, "needs a whole number, has 'b'", ""),
    ],
)
def test_a_wrong_value_is_told_with_place_and_hint(line: str, where: str, column: int, message: str, hint: str) -> None:
    sample, problems = convert(f"text: x\n{line}\n")
    [error] = problems.errors
    assert (sample, error.path, error.where, error.source) == (None, "file.yaml", where, line)
    assert (error.line, error.column) == (2, column)
    assert message in error.message
    assert hint in (error.hint or "")


def test_a_missing_key_is_told() -> None:
    _, problems = convert("count: 1")
    assert [(error.where, error.message, error.hint) for error in problems.errors] == [
        ("text", "is missing", "add text:")
    ]


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file() -> None:
    _, problems = convert("flag: no\ntext: [a]\ncuont: 1\nmode: x\n")
    assert [error.line for error in problems.errors] == [1, 2, 3, 4]


@pytest.mark.promise("P10")
def test_the_number_of_mistakes_is_bounded() -> None:
    _, problems = convert("".join(f"k{number}: 1\n" for number in range(1000)))
    assert len(problems.errors) == MAX_ERRORS


def test_a_known_key_that_is_not_taken_says_why() -> None:
    """Keys of later versions are refused, never ignored."""
    shapes = TypeRules(refused={(Sample, "later"): ("later is not supported", "remove it")})
    _, problems = convert("text: x\nlater: 1", shapes)
    assert [(error.message, error.hint) for error in problems.errors] == [("later is not supported", "remove it")]


def test_a_short_form_is_rewritten_before_conversion() -> None:
    """contracts 1: short spellings."""

    def wrap(node: Node) -> Node:
        return node if isinstance(node, ListNode) else ListNode((node,), node.place)

    sample, _ = convert("text: x\nwords: one", TypeRules(short_forms={(Sample, "words"): wrap}))
    assert sample is not None
    assert sample.words == ("one",)
