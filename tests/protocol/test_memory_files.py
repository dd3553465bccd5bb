"""Memory files as a whole: any history of changes against a dict, with people's words around the entries."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from protocol.agent_memory import CLASSES, TIERS, VISIBILITIES, Entry, EntryRejected, Source, file_of
from protocol.memory_files import FULL_CHARACTERS, Unchangeable, parse, together, with_entry, without_entries

pytestmark = pytest.mark.promise("P45")

COMMENT = "# a person wrote this"
KEYS = st.sampled_from(["auth", "a: b", "no", "12", "é", "x#y", "[z]"])
VALUES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(str.strip) | st.sampled_from(
    ["two\nlines", "- list", "null", "# no comment", "ends in\n", "'", "{a: b}", "JWT: yes", "a\u2028b"]
)
ENTRIES = st.builds(
    Entry,
    KEYS,
    VALUES,
    st.sampled_from(TIERS),
    st.sampled_from(VISIBILITIES),
    st.sampled_from([None, "review:main"]),
    st.builds(Source, st.sampled_from([(), ("m1", "m2")]), st.sampled_from(CLASSES)),
    st.sampled_from([None, "2026-11-22T20:15:00.000Z"]),
)


class Histories(RuleBasedStateMachine):
    """Entries are set, moved and removed by the code, and files are written around by people."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, str] = {"topic.yaml": f"{COMMENT}\nmine: 1 {COMMENT}\n\n{COMMENT}\n"}
        self.known: dict[str, Entry] = {"mine": Entry("mine", "1")}
        self.comments = 3

    def _apply(self, changes: dict[str, str]) -> None:
        for file, text in changes.items():
            if text:
                self.texts[file] = text
            else:
                del self.texts[file]

    def _memory(self) -> dict[str, Entry]:
        found = together({file: parse(text, file) for file, text in self.texts.items()})
        assert found.skipped == ()
        return {one.entry.key: one.entry for one in found.kept}

    @rule(new=ENTRIES)
    def set_one(self, new: Entry) -> None:
        """Set, change or move an entry."""
        found = together({file: parse(text, file) for file, text in self.texts.items()})
        stored, changes = with_entry(self.texts, found.find(new.key), new)
        assert stored.entry == new
        self._apply(changes)
        self.known[new.key] = new

    @precondition(lambda self: len(self.known) > 1)
    @rule(data=st.data())
    def remove_some(self, data: st.DataObject) -> None:
        keys = data.draw(st.sets(st.sampled_from(sorted(self.known.keys() - {"mine"})), min_size=1))
        found = together({file: parse(text, file) for file, text in self.texts.items()})
        self._apply(without_entries(self.texts, [one for one in found.kept if one.entry.key in keys]))
        for key in keys:
            del self.known[key]

    @precondition(lambda self: self.texts)
    @rule(data=st.data())
    def write_around(self, data: st.DataObject) -> None:
        """A person adds a comment at the beginning or the end of a file that has one already."""
        file = "topic.yaml"
        first = data.draw(st.booleans())
        self.texts[file] = f"{COMMENT}\n{self.texts[file]}" if first else f"{self.texts[file]}{COMMENT}\n"
        self.comments += 1

    @invariant()
    def it_is_what_was_set(self) -> None:
        """And no comment of a person's is gone."""
        assert self._memory() == self.known
        assert sum(text.count(COMMENT) for text in self.texts.values()) == self.comments


Histories.TestCase.settings = settings(max_examples=12, stateful_step_count=10, deadline=None)
TestHistories = Histories.TestCase


@given(ENTRIES, ENTRIES)
def test_an_entry_takes_the_place_of_another_in_whatever_form_it_was(old: Entry, new: Entry) -> None:
    stored, texts = with_entry({}, None, old)
    renamed = replace(new, key=old.key)
    after, changes = with_entry(texts, stored, renamed)
    left = {file: text for file, text in {**texts, **changes}.items() if text}
    found = together({file: parse(text, file) for file, text in left.items()})
    assert ([one.entry for one in found.kept], found.skipped) == ([renamed], ())
    assert after.file in left


def test_what_cannot_be_read_is_never_written_over() -> None:
    new = Entry("k", "v")
    for texts in ({file_of("working"): "a: 'torn"}, {file_of("working"): None}, {file_of("working"): "[list]"}):
        with pytest.raises(Unchangeable, match=r"working.yaml cannot be changed"):
            with_entry(texts, None, new)
    shared = "a: &x {value: one}\nb: *x\n"
    (one, _) = parse(shared, "working.yaml").entries
    with pytest.raises(Unchangeable):
        with_entry({"working.yaml": shared}, one, replace(one.entry, value="two"))
    with pytest.raises(EntryRejected):
        with_entry({}, None, Entry("k", "half \ud83d"))


def test_what_is_too_much_for_a_file_goes_into_the_next() -> None:
    full = {"working.yaml": f"a: {'x' * FULL_CHARACTERS}\n"}
    stored, changes = with_entry(full, None, Entry("b", "v"))
    assert (stored.file, changes) == ("working-2.yaml", {"working-2.yaml": "b: v\n"})
    (first,) = parse(full["working.yaml"], "working.yaml").entries
    assert list(with_entry(full, first, Entry("a", "w"))[1]) == ["working.yaml"]


def test_a_key_in_two_files_is_told_with_its_place_and_the_first_counts() -> None:
    found = together({file: parse(text, file) for file, text in {
        "zoo.yaml": "k: topic\n", "working.yaml": "\nk: own\n", "core-2.yaml": "x: 1\nl: 2\n", "a.yaml": "l: 3\n",
    }.items()})  # fmt: skip
    assert [(one.entry.key, one.entry.value, one.file, one.line) for one in found.kept] == [
        ("x", "1", "core-2.yaml", 1), ("l", "2", "core-2.yaml", 2), ("k", "own", "working.yaml", 2),
    ]  # fmt: skip
    assert [one.shown("m") for one in found.skipped] == [
        "m/a.yaml:1: l is also in core-2.yaml", "m/zoo.yaml:1: k is also in working.yaml",
    ]  # fmt: skip


def test_a_key_that_is_twice_in_a_file_is_told_with_the_line_that_does_not_count() -> None:
    found = parse("a: 1\nb: 2\na: 3\n", "core.yaml")
    assert [(one.entry.key, one.entry.value, one.line) for one in found.entries] == [("a", "3", 3), ("b", "2", 2)]
    assert [one.shown("m") for one in found.skipped] == [
        "m/core.yaml:1: a occurs again below, and the last one counts"
    ]  # fmt: skip
