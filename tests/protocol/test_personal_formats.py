"""The formats of an agent's personal context: what is written is what is read, and people may write beside it."""

import re

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from kernel.source.files import tree_of
from kernel.source.yaml_tree import ListNode, MapNode, Node, ScalarNode
from protocol.agent_layout import dir_fault
from protocol.agent_memory import (
    CLASSES,
    TIERS,
    VISIBILITIES,
    Entry,
    EntryRejected,
    Item,
    NoteRejected,
    Source,
    TodoRejected,
    check_entry,
    content,
    file_name,
    file_of,
    items_of,
    least,
    matches,
    note,
    order,
    title_of,
    with_done,
    with_item,
    with_source,
    without,
    written,
)
from protocol.memory_files import Skipped, parse
from protocol.yaml_writer import document

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
HARD = st.sampled_from(
    ["no", "12:30", "010", "1e3", "~", "null", "2026-02-30", "- a", "# x", "a: b", "a #b", "a\n\n b\n", "\n", " a",
     "|", "'", '"', "[a", "{", "*x", "&x", "!t", "%", "@", "`", "=", "<<", "\x85", "\u2028", "\ufeff", "a\tb", "\ta",
     "😀", "\x00", "\x1b[31m", "a\n  b\nc", "  a\nb", "a\r\nb", "a:", ":a", "?", "-", "---", "...", "a\n...\n", "$HOME"]
)  # fmt: skip
ANY = TEXTS | HARD
VALUES = st.recursive(
    ANY | st.booleans() | st.none() | st.integers(-999, 999) | st.integers(-99, 99).map(lambda n: n / 16),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY, inner, max_size=3),
    max_leaves=6,
)


def _read(text: str) -> object:
    return yaml.CBaseLoader(text).get_single_data()


def _plain(value: object) -> object:
    match value:
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer():
            return str(int(value))
        case _:
            return str(value)


def _of_nodes(node: Node) -> object:
    match node:
        case MapNode():
            return {key.text: _of_nodes(item) for key, item in node.entries}
        case ListNode():
            return [_of_nodes(item) for item in node.items]
        case ScalarNode():
            return node.text


@pytest.mark.promise("CF06")
@pytest.mark.slow
@given(st.dictionaries(ANY, VALUES, min_size=1, max_size=4))
@example({"": ["why?"]})
def test_what_is_written_as_yaml_is_what_everybody_reads(value: dict[str, object]) -> None:
    text = document(value)  # type: ignore[arg-type]
    assert _read(text) == _plain(value)
    if not any("\0" in str(item) for item in _leaves(value)):
        node, problems = tree_of(text.encode(), "x.yaml")
        assert (_of_nodes(node), problems.errors) == (_plain(value), ())
    assert _types(yaml.safe_load(text)) == _types(value)


def _leaves(value: object) -> list[object]:
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in (key, *_leaves(item))]
    return [leaf for item in value for leaf in _leaves(item)] if isinstance(value, list) else [value]


def _types(value: object) -> list[bool]:
    return [isinstance(leaf, str) for leaf in _leaves(value)]


def test_long_texts_are_written_as_people_would() -> None:
    text = document(
        {"prompt": {"system": "You review.\n\nBe kind.\n"}, "soul": {"expertise": ["a", "b: c"]}, "idle": 600.0}
    )
    assert text == (
        'prompt:\n  system: |\n    You review.\n\n    Be kind.\nsoul:\n  expertise: [a, "b: c"]\nidle: 600\n'
    )


SOURCES = st.builds(
    Source, st.sampled_from([(), ("m1", "m22")]), st.sampled_from(CLASSES), st.sampled_from(["", "coder", "web"])
)
ENTRIES = st.builds(
    Entry,
    ANY,
    ANY,
    st.sampled_from(TIERS),
    st.sampled_from(VISIBILITIES),
    st.sampled_from([None, "review:main"]),
    SOURCES,
    st.sampled_from([None, "2026-11-22T20:15:00Z"]),
)


@given(ENTRIES, st.sampled_from([*map(file_of, TIERS), "core-2.yaml", "preferences.yaml"]))
def test_an_entry_comes_back_as_it_was_written(entry: Entry, file: str) -> None:
    text = "".join(f"{line}\n" for line in written(entry, file))
    read = parse(text, file)
    assert ([one.entry for one in read.entries], read.skipped) == ([entry], ())


def test_an_entry_says_no_more_than_it_must() -> None:
    assert written(Entry("auth", "JWT", "core"), "core.yaml") == ["auth: JWT"]
    assert written(Entry("auth", "JWT", "core", "public"), "x.yaml") == [
        "auth:", "  value: JWT", "  tier: core", "  visibility: public",
    ]  # fmt: skip
    told = Entry("auth", "JWT", source=Source(("m1",), "tool"), at="2026-11-22T20:15:00Z", space_only="review:main")
    assert written(told, "working.yaml") == [
        "auth:", "  value: JWT", "  space_only: review:main", "  source:", "    messages: [m1]", "    class: tool",
        '  at: "2026-11-22T20:15:00Z"',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "source"),
    [
        ("coder", Source(class_="agent", by="coder")),
        ("web", Source(class_="web")),
        ("{messages: [m7]}", Source(("m7",), "agent")),
        ("~", Source()),
    ],
)
def test_people_may_say_a_source_in_a_word(said: str, source: Source) -> None:
    (one,) = parse(f"k: {{value: v, source: {said}}}", "working.yaml").entries
    assert one.entry.source == source


@pytest.mark.promise("SF17")
def test_what_is_wrong_in_a_memory_is_left_out_and_told() -> None:
    bad = """a: {value: 1, tire: core}
b: {value: 2, tier: x}
c: [d]
e: {value: 1, space_only: /tmp}
f: {value: 1, source: {messages: [17]}}
g: {value: 1, source: {class: god}}
h: {value: 1, at: today}
"""
    read = parse(bad, "x.yaml")
    assert [one.entry for one in read.entries] == [Entry("c", '["d"]')]
    assert [(one.line, one.why.split(":")[0]) for one in read.skipped] == [
        (1, "a"), (2, "b"), (4, "e"), (5, "f"), (6, "g"), (7, "h"),
    ]  # fmt: skip
    assert parse("[a]", "x.yaml").skipped == (Skipped("x.yaml", 1, "is not a mapping of keys to values"),)
    assert parse("", "x.yaml") == ((), ())
    assert parse("a: 1\nb: 'torn", "x.yaml").skipped[0].line >= 2


@pytest.mark.parametrize(("key", "value"), [("", "v"), (" a", "v"), ("a\nb", "v"), ("k" * 129, "v"), ("k", " ")])
def test_an_invalid_entry_is_refused(key: str, value: str) -> None:
    with pytest.raises(EntryRejected):
        check_entry(Entry(key, value))


def test_a_search_is_for_words() -> None:
    entry = Entry("auth-pattern", "JWT with refresh tokens")
    assert [matches(entry, query) for query in ("jwt AUTH", "refresh", "", "jwt basic")] == [True, True, True, False]


@given(st.lists(ANY, max_size=5), st.data())
def test_a_todo_list_is_what_was_added_done_and_removed(texts: list[str], data: st.DataObject) -> None:
    lines = "# Things\n\n"
    wanted: list[Item] = []
    for text in texts:
        if text.split():
            lines = with_item(lines, text)
            wanted.append(Item(" ".join(text.split())))
    if wanted:
        number = data.draw(st.integers(1, len(wanted)))
        lines = with_done(lines, number)
        wanted[number - 1] = Item(wanted[number - 1].text, True)
        assert items_of(lines) == (wanted, [])
        gone = data.draw(st.integers(1, len(wanted)))
        lines, _ = without(lines, gone), wanted.pop(gone - 1)
    assert items_of(lines) == (wanted, [])
    assert lines.startswith("# Things\n")


@pytest.mark.promise("SF17")
def test_people_may_write_between_the_items() -> None:
    text = "intro\n* [X] a\n  - [ ] b\n\ntext\n- [x\n- [ ]\nend"
    torn = [f"line {line} is not a valid item: {item}" for line, item in ((6, "- [x"), (7, "- [ ]"))]
    assert items_of(text) == ([Item("a", True), Item("b")], torn)
    assert with_item(text, "c\nd") == "intro\n* [X] a\n  - [ ] b\n- [ ] c d\n\ntext\n- [x\n- [ ]\nend\n"
    assert with_done(text, 2) == text.replace("- [ ] b", "- [x] b")


@pytest.mark.parametrize("number", [0, 3, -1])
def test_an_item_that_is_not_there_is_refused(number: int) -> None:
    with pytest.raises(TodoRejected, match="the list has 2"):
        with_done("- [ ] a\n- [ ] b\n", number)


@given(ANY, st.none() | ANY)
def test_a_note_keeps_its_words(text: str, title: str | None) -> None:
    if not text.strip("\n").strip():
        with pytest.raises(NoteRejected):
            content(text, title)
        return
    body = content(text, title)
    name = file_name("2026-11-21-143805", body)
    assert re.fullmatch(r"2026-11-21-143805(-[a-z0-9-]{1,40})?\.md", name)
    read = note(name, body)
    assert text.strip("\n") in read.text
    assert read.date == "2026-11-21"
    if title and title.strip():
        assert read.title == title_of(f"# {' '.join(title.split())}")


NOTE_SOURCES = st.builds(
    Source,
    st.lists(st.integers(1, 10**17).map("m{}".format), max_size=3).map(tuple),
    st.sampled_from(CLASSES),
    st.sampled_from(["", "bob"]),
)


@given(ANY, NOTE_SOURCES)
def test_a_note_of_an_agent_keeps_its_source_and_is_trusted_no_more_than_an_agent(text: str, source: Source) -> None:
    for words in (text, with_source(text or "x", Source())):
        if words.strip("\n").strip():
            body = content(words)
            read = note("n.md", with_source(body, source))
            assert (read.text, read.source) == (body, source)
            assert read.trust == least(("agent", source.class_))


@pytest.mark.parametrize("head", ["title: x", "source: https://x.org", "source: {class: nobody}", "source: web"])
def test_front_matter_of_people_is_their_own_text(head: str) -> None:
    text = f"---\n{head}\n---\nwords\n"
    assert note("n.md", text)[3:] == (text, None)


def test_notes_are_in_the_order_of_their_names() -> None:
    files = ["2026-11-21-143805-b.md", "2026-11-21-143805-b-2.md", "2026-11-21-x.md", "ideas.md", "2026-02-24-a.md"]
    assert sorted(files, key=order) == [
        "ideas.md", "2026-02-24-a.md", "2026-11-21-x.md", "2026-11-21-143805-b.md", "2026-11-21-143805-b-2.md",
    ]  # fmt: skip


@pytest.mark.promise("CF12")
@pytest.mark.parametrize(
    "path",
    ["~", "/", "/tmp", ".", "", "..", "a/../..", ".git", ".git/x", ".agents", ".agents/bob", ".agents/.trash", "a\0"],
)
def test_a_context_is_a_directory_of_the_agents_own(path: str) -> None:
    assert dir_fault(path, "alice") is not None


def test_a_context_may_lie_elsewhere_in_the_project() -> None:
    assert [dir_fault(path, "alice") for path in (".agents/alice", ".agents/alice/x/", "team/alice")] == [None] * 3
