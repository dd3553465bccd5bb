"""What an agent knows for its work: read from its files, searched with the words of its instruction."""

import os
from pathlib import Path

import pytest

from kernel.agents import context_files
from kernel.agents.catalog import Catalog
from kernel.agents.memory_prompt import ITEMS, MOST_FOUND, NOTES, Known, Memories
from kernel.agents.personal_context import PersonalContexts
from kernel.source import safe_paths
from protocol.agent import Memory
from tests.kernel.agents.test_catalog import MINIMAL
from tests.kernel.inspect import files

HOUR = 3_600_000


class House:
    """A project with alice, whose memory is written as files."""

    def __init__(self, root: Path) -> None:
        files.write(root, {".agents/alice.yaml": MINIMAL})
        self.folder = root / ".agents/alice"
        self.now_ms = 100 * 24 * HOUR
        self.memories = Memories(PersonalContexts(Catalog(root), root / "state"), lambda: self.now_ms)

    def write(self, path: str, text: str) -> None:
        files.write(self.folder, {path: text})

    def known(self, text: str, here: str = "review:main", **settings: tuple[str, ...]) -> Known:
        place = self.memories.place("alice", None)
        assert place is not None
        return self.memories.known(place, Memory(**settings), here, text)  # type: ignore[arg-type]

    def found(self, text: str, here: str = "review:main", **settings: tuple[str, ...]) -> list[str]:
        return [one.entry.key for one in self.known(text, here, **settings).found]


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_who_keeps_nothing_is_not_asked(house: House) -> None:
    assert house.memories.place("alice", None) is None


@pytest.mark.promise("P49")
def test_tiers_are_loaded_searched_or_left_alone(house: House) -> None:
    """auto_load, search, and what is only found on demand."""
    house.write("memory/core.yaml", "style: explicit errors\n")
    house.write("memory/working.yaml", "hosts: the blue host\ntests: run them twice\n")
    house.write("memory/archive.yaml", "old: the blue host was green\n")
    known = house.known("deploy to the blue host")
    assert [one.entry.key for one in known.always] == ["style"]
    assert [one.entry.key for one in known.found] == ["hosts"]
    assert house.found("blue", search=("working", "archive")) == ["hosts", "old"]
    assert [one.entry.key for one in house.known("x", auto_load=("core", "archive")).always] == ["style", "old"]
    assert house.found("nothing of the kind") == []
    assert house.found("") == []


@pytest.mark.promise("P50")
def test_what_is_for_one_space_only_is_nowhere_else(house: House) -> None:
    for tier in ("core", "working"):
        house.write(f"memory/{tier}.yaml", f"{tier}: {{ value: the blue host, space_only: review:main }}\n")
    here, there = house.known("blue host"), house.known("blue host", "deploy:main")
    assert ([one.entry.key for one in here.always], [one.entry.key for one in here.found]) == (["core"], ["working"])
    assert (list(there.always), list(there.found)) == ([], [])


def test_what_was_changed_is_found_as_it_is_now(house: House) -> None:
    house.write("memory/working.yaml", "hosts: the blue host\n")
    house.write("memory/topic.yaml", "door: the blue door\n")
    assert sorted(house.found("blue")) == ["door", "hosts"]
    house.write("memory/working.yaml", "hosts: the red host\nmore: a blue moon, seldom\n")
    assert sorted(house.found("blue")) == ["door", "more"]
    assert house.found("red") == ["hosts"]
    (house.folder / "memory/topic.yaml").unlink()
    assert house.found("blue") == ["more"]


def test_what_is_new_comes_before_what_is_old(house: House) -> None:
    """Alike otherwise; two languages."""
    entries = "".join(
        f"k{month}: {{ value: 部署 the blue host in month {month}, at: '1970-0{month}-01T00:00:00Z' }}\n"
        for month in (2, 4, 3)
    )
    house.write("memory/working.yaml", entries)
    assert house.found("blue")[0] == "k4"
    assert house.found("部署")[0] == "k4"


def test_a_search_looks_at_so_many_items_however_many_there_are(house: House) -> None:
    lines = [f"k{number}: deploy number {number} of the host\n" for number in range(2 * ITEMS)]
    house.write("memory/working.yaml", "".join([*lines, "rare: a host with a zebra\n"]))
    assert len(house.found("deploy")) <= MOST_FOUND
    assert house.found("deploy the zebra")[0] == "rare"


def test_todos_notes_and_what_cannot_be_read_come_along(house: House) -> None:
    house.write("todo/index.md", "- [ ] one\n- [x] two\n")
    house.write("notes/2026-11-21-learned.md", "# Learned\n\nmuch\n")
    house.write("memory/core.yaml", "style: [\n")
    known = house.known("x")
    assert [item.text for item in known.todos] == ["one", "two"]
    assert [note.title for note in known.notes] == ["Learned"]
    (fault,) = known.skipped
    assert fault.startswith(".agents/alice/memory/core.yaml:")


def test_a_prompt_opens_no_more_notes_than_it_shows(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    for day in range(10, 30):
        house.write(f"notes/2026-11-{day}-x.md", f"# note {day}\n")
    house.write("notes/2026-11-29-x.md", "")
    opened: list[str] = []
    read = safe_paths.read_here

    def counted(folder: int, name: str) -> tuple[str, os.stat_result]:
        opened.append(name)
        return read(folder, name)

    monkeypatch.setattr(context_files, "read_here", counted)
    known = house.known("anything")
    assert [note.title for note in known.notes] == [f"note {day}" for day in range(29 - NOTES, 29)]
    assert known.skipped == (".agents/alice/notes/2026-11-29-x.md: is empty",)
    assert len(opened) == NOTES + 1
