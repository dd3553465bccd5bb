"""YAML to a tree with places: what is refused, where, and how soon."""

import pytest

from kernel.source.files import tree_of
from kernel.source.yaml_tree import MAX_NODES, ListNode, MapNode, Node, ScalarNode
from protocol.api.document import FileError
from tests.kernel.refusals import faults


def tree(text: str) -> Node:
    return tree_of(text.encode(), "file.yaml")[0]


def errors(data: str | bytes) -> tuple[FileError, ...]:
    return faults(read, data.encode() if isinstance(data, str) else data)


def read(data: bytes) -> None:
    _, problems = tree_of(data, "file.yaml")
    problems.check()


@pytest.mark.promise("CF06")
def test_a_scalar_keeps_its_text_whatever_yaml_1_1_would_make_of_it() -> None:
    node = tree("[no, 12:30:45, 010, 1e3, 2026-02-30, 0x1F, on]")
    assert isinstance(node, ListNode)
    assert [item.text for item in node.items if isinstance(item, ScalarNode)] == [
        "no", "12:30:45", "010", "1e3", "2026-02-30", "0x1F", "on",
    ]  # fmt: skip


@pytest.mark.promise("CF06")
@pytest.mark.parametrize(
    ("text", "plain"),
    [("a: 1", True), ("{a: 1}", True), ('{"a":1}', True), ("a: '1'", False), ('{a: "1"}', False), ("a: |\n  1", False)],
)
def test_only_a_scalar_without_quotes_is_plain(text: str, plain: bool) -> None:
    node = tree(text)
    assert isinstance(node, MapNode)
    value = node.get("a")
    assert isinstance(value, ScalarNode)
    assert value.plain == plain


@pytest.mark.promise("CF05")
def test_a_place_counts_lines_and_characters_from_one() -> None:
    node = tree("# comment\na:\n  - äöü: x\n")
    assert isinstance(node, MapNode)
    [(key, items)] = node.entries
    assert (key.place.line, key.place.column) == (2, 1)
    assert isinstance(items, ListNode)
    [inner] = items.items
    assert isinstance(inner, MapNode)
    value = inner.get("äöü")
    assert value is not None
    assert (value.place.line, value.place.column) == (3, 10)


def test_an_alias_repeats_its_anchor() -> None:
    node = tree("a: &x {k: v}\nb: *x\n")
    assert isinstance(node, MapNode)
    assert node.get("a") == node.get("b")


@pytest.mark.promise("CF05")
def test_a_duplicate_key_names_both_lines_and_reading_goes_on() -> None:
    first, second = errors("a: 1\nb: {c: 1, c: 2}\na: 3\n")
    assert (first.line, first.where, first.source) == (2, "b.c", "b: {c: 1, c: 2}")
    assert (second.line, second.column, second.where) == (3, 1, "a")
    assert "on line 1 and on line 3" in second.message


@pytest.mark.promise("CF02", "CF04")
@pytest.mark.parametrize(
    ("text", "line", "column", "part"),
    [
        ("a: !!python/object/apply:os.system [id]", 1, 4, "tag"),
        ("a: !secret x", 1, 4, "tag"),
        ("a: !!str 1", 1, 4, "tag"),
        ("&a [*a]", 1, 5, "inside its own anchor"),
        ("a: *nobody", 1, 4, "no anchor"),
        ("a: 1\n---\nb: 2", 2, 1, "second document"),
        ("? [a, b]\n: 1", 1, 3, "plain word"),
        ("a: {<<: {b: 1}}", 1, 5, "merge keys"),
        ("~: 1", 1, 1, "key is missing"),
        ("kickoff: @alice go", 1, 10, "not YAML"),
        ("a: b: c", 1, 5, "not YAML"),
        ("a:\n\t- b", 2, 1, "not YAML"),
        ('a: "open', 1, 9, "not YAML"),
        ("a: x\x07y", 1, 5, "not YAML"),
        ('a: "x\\0y"', 1, 4, "NUL"),
        ("", 1, 1, "empty"),
        ("# only a comment\n", 1, 1, "empty"),
    ],
)
def test_what_is_refused_says_where_and_why(text: str, line: int, column: int, part: str) -> None:
    [error] = errors(text)
    assert (error.line, error.column) == (line, column)
    assert part in error.message


def test_bytes_that_are_no_utf8_are_located() -> None:
    """Never a UnicodeDecodeError."""
    [error] = errors("a: ä\nb: ".encode() + b"\xff\n")
    assert (error.line, error.column) == (2, 4)
    assert "0xff" in error.message


def test_a_byte_order_mark_is_no_part_of_the_first_key() -> None:
    node, _ = tree_of(b"\xef\xbb\xbfname: x", "file.yaml")
    assert isinstance(node, MapNode)
    assert node.get("name") is not None


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 10)}]\n" for i in range(9)
)


@pytest.mark.promise("CF01", "CF03")
@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("alias bomb", BOMB, "aliases"),
        ("many aliases", "a: &a x\nb: [" + "*a, " * 101 + "]", "aliases"),
        ("nested lists", "[" * 3000, "nested deeper"),
        ("nested maps", "{a: " * 3000, "nested deeper"),
        ("nested keys", "? " * 3000, "nested deeper"),
        ("block lists", "- " * 3000, "nested deeper"),
        ("many values", "- a\n" * (MAX_NODES + 1), "more than"),
    ],
)
def test_a_bomb_is_refused_while_it_is_read(name: str, text: str, part: str) -> None:
    assert part in errors(text)[-1].message, name


def test_a_megabyte_of_text_is_one_value() -> None:
    node = tree("a: |\n" + "  line\n" * 100_000)
    assert isinstance(node, MapNode)
    assert node.size == 3
