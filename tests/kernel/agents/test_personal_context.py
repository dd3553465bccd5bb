"""The files of an agent's memory, notes and todo list as the kernel reads and writes them."""

import errno
import fcntl
import os
import resource
import signal
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from kernel.agents import context_files
from kernel.agents.catalog import Catalog
from kernel.agents.context_files import NotesAsked, make_agent_folder, newest_notes
from kernel.agents.personal_context import ContextPlace, PersonalContexts
from kernel.source import safe_paths
from kernel.source.diagnostics import BadDefinition
from kernel.source.safe_paths import read_here
from kernel.store.agents import AgentRecord
from protocol.agent_layout import GIT_IGNORE, IGNORED, MARK, mark_text
from protocol.agent_memory import Entry, Source, with_done, with_item
from protocol.errors import Refused
from protocol.memory_files import Memory, StoredEntry
from protocol.names import AgentName
from tests.kernel.inspect.files import MOCK, write

pytestmark = pytest.mark.promise("P45")


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def contexts(tmp_path: Path, clock: Clock) -> PersonalContexts:
    write(tmp_path / "p", {".agents/alice.yaml": MOCK})
    return PersonalContexts(Catalog(tmp_path / "p"), tmp_path / "state", clock)


@pytest.fixture
def alice(contexts: PersonalContexts) -> ContextPlace:
    return contexts.place("alice", None)


def _put(contexts: PersonalContexts, place: ContextPlace, *entries: Entry) -> tuple[StoredEntry, ...]:
    return contexts.change_memory(place, lambda memory: [(memory.find(one.key), one) for one in entries])


def _made(key: str) -> AgentRecord:
    name = AgentName(key.partition("@")[0])
    told = {"key": key, "origin": "ephemeral", "name": name, "backend": "mock", "model": "", "state": "active"}
    return msgspec.convert(told | {"definition": b"{}", "reason": None}, AgentRecord)


def test_what_is_written_is_read_and_people_read_it_too(
    contexts: PersonalContexts, alice: ContextPlace, tmp_path: Path
) -> None:
    """Promise P45: memory, notes and todo list are files of the project; git does not see the rest of the folder."""
    told = Entry("auth", "JWT", source=Source(("m3",), "agent"), at="2026-11-22T20:15:00Z", space_only="review:main")
    _put(contexts, alice, told, Entry("style", "terse", "core"))
    contexts.add_note(alice, "Tokens expire.", "Learned about auth", 0.0)
    contexts.change_todos(alice, lambda text: with_item(text, "Review PR #1"))
    found = contexts.read(alice)
    assert [one.entry.key for one in found.memory] == ["style", "auth"]
    assert found.memory[1].entry == told
    assert found.memory[1].written_ms == 1_795_378_500_000
    assert [(one.file, one.title) for one in found.notes] == [
        ("1970-01-01-000000-learned-about-auth.md", "Learned about auth")
    ]
    assert ([one.text for one in found.todos], found.skipped) == (["Review PR #1"], ())
    folder = tmp_path / "p/.agents/alice"
    assert (folder / "memory/core.yaml").read_text() == "style: terse\n"
    assert sorted(path.name for path in folder.iterdir()) == [".context", ".gitignore", "memory", "notes", "todo"]


@pytest.mark.promise("SF17")
def test_an_edit_by_hand_counts_at_the_next_look_and_a_broken_file_is_told_with_its_line(
    contexts: PersonalContexts, alice: ContextPlace, tmp_path: Path, clock: Clock
) -> None:
    _put(contexts, alice, Entry("a", "one"), Entry("b", "two", "core"))
    file = tmp_path / "p/.agents/alice/memory/working.yaml"
    assert contexts.memory(alice).find("a") is not None
    looks = file.stat()
    file.write_text("a: won\n")
    os.utime(file, ns=(looks.st_atime_ns, looks.st_mtime_ns))
    assert [one.entry.value for one in contexts.memory(alice).kept] == ["two", "won"]
    clock.now += 10
    file.write_text("x: 1\na: 'torn")
    found = contexts.read(alice)
    assert [one.entry.value for one in found.memory] == ["two"]
    assert found.skipped[0].startswith(".agents/alice/memory/working.yaml:2: ")
    with pytest.raises(Refused, match=r"working.yaml cannot be changed.*in an editor|working.yaml cannot be changed"):
        _put(contexts, alice, Entry("c", "three"))
    assert file.read_text() == "x: 1\na: 'torn"
    file.unlink()
    assert contexts.read(alice).skipped == ()


def test_what_did_not_change_is_not_read_again(
    contexts: PersonalContexts, alice: ContextPlace, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    _put(contexts, alice, Entry("a", "one"), Entry("b", "two", "core"))
    contexts.read(alice)
    clock.now += 10
    kept = contexts.read(alice).memory

    def read_again(_folder: int, name: str) -> None:
        pytest.fail(f"{name} was read again")

    monkeypatch.setattr(context_files, "read_here", read_again)
    clock.now += 10
    assert contexts.read(alice).memory is kept


@pytest.mark.promise("SF19")
@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_everything_as_it_was(
    step: str, contexts: PersonalContexts, alice: ContextPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _put(contexts, alice, Entry("a", "one"))
    before = {path.name: path.read_bytes() for path in (tmp_path / "p/.agents/alice/memory").iterdir()}

    def full(*_args: object, **_more: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        if step == "write":
            old = resource.getrlimit(resource.RLIMIT_FSIZE)
            handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (10, old[1]))  # a disk takes some of it, and then no more
            try:
                with pytest.raises(Refused, match="cannot be written and is unchanged"):
                    _put(contexts, alice, Entry("b", "x" * 1000))
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, old)
                signal.signal(signal.SIGXFSZ, handler)
        else:
            broken.setattr(os, step, full)
            with pytest.raises(Refused, match="cannot be written and is unchanged: No space left"):
                _put(contexts, alice, Entry("b", "two"))
    assert {path.name: path.read_bytes() for path in (tmp_path / "p/.agents/alice/memory").iterdir()} == before
    _put(contexts, alice, Entry("b", "two"))
    assert [one.entry.key for one in contexts.memory(alice).kept] == ["a", "b"]


@pytest.mark.promise("SF19")
def test_a_write_that_was_done_in_part_is_told_as_such(
    contexts: PersonalContexts, alice: ContextPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _put(contexts, alice, Entry("a", "one"))
    real = os.fsync

    def full(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        with pytest.raises(Refused, match="was written, but may not be on disk yet: No space left"):
            _put(contexts, alice, Entry("a", "two"))
        with pytest.raises(Refused, match="written partially, and an entry may exist in two files"):
            _put(contexts, alice, Entry("a", "three", "core"))
    found = contexts.memory(alice)
    assert ([one.entry.value for one in found.kept], len(found.skipped)) == (["three"], 1)
    _put(contexts, alice, Entry("a", "three", "core"))
    assert contexts.read(alice).skipped == ()


def test_writers_of_several_processes_lose_nothing_of_each_other(contexts: PersonalContexts, tmp_path: Path) -> None:
    others = [PersonalContexts(Catalog(tmp_path / "p"), tmp_path / "state") for _ in range(4)]

    def work(number: int) -> None:
        place = others[number].place("alice", None)
        for turn in range(5):
            _put(others[number], place, Entry(f"{number}.{turn}", "mine"), Entry("shared", f"{number}.{turn}"))
            others[number].add_todo(place, f"todo {number}.{turn}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    alice = contexts.place("alice", None)
    every = {f"{number}.{turn}" for number in range(4) for turn in range(5)}
    found = contexts.memory(alice)
    assert {one.entry.key for one in found.kept} == every | {"shared"} and not found.skipped
    assert {one.text for one in contexts.todos(alice).todos} == {f"todo {one}" for one in every}


def test_who_keeps_the_lock_for_long_keeps_nobody_waiting_for_good(
    contexts: PersonalContexts, alice: ContextPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _put(contexts, alice, Entry("a", "one"))
    monkeypatch.setattr(safe_paths, "PATIENCE_SECONDS", 0.05)
    folder = os.open(tmp_path / "p/.agents/alice/memory", os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with pytest.raises(Refused, match="is unchanged: another program has kept it locked"):
            _put(contexts, alice, Entry("b", "two"))
    finally:
        os.close(folder)
    _put(contexts, alice, Entry("b", "two"))
    assert [one.entry.key for one in contexts.memory(alice).kept] == ["a", "b"]


def test_what_a_writer_left_half_written_when_it_died_goes_with_the_next_change(
    contexts: PersonalContexts, alice: ContextPlace, tmp_path: Path
) -> None:
    _put(contexts, alice, Entry("a", "one"))
    left = tmp_path / "p/.agents/alice/memory/.working.yaml.tmp-0123456789ab"
    left.write_text("a: half")
    _put(contexts, alice, Entry("a", "two"))
    assert [path.name for path in left.parent.iterdir()] == ["working.yaml"]


@pytest.mark.promise("XF12", "CF12")
def test_no_link_leads_out_of_the_project(contexts: PersonalContexts, alice: ContextPlace, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "core.yaml").write_text("secret: hunter2\n")
    home = tmp_path / "p/.agents/alice"
    home.mkdir()
    (home / "memory").symlink_to(outside)
    with pytest.raises(Refused, match="cannot be written"):
        _put(contexts, alice, Entry("a", "one"))
    with pytest.raises(Refused, match="cannot be read"):
        contexts.read(alice)
    (home / "memory").unlink()
    (home / "memory").mkdir()
    (home / "memory/core.yaml").symlink_to(outside / "core.yaml")
    found = contexts.read(alice)
    assert (found.memory, len(found.skipped)) == ((), 1)
    assert sorted(path.name for path in outside.iterdir()) == ["core.yaml"]
    (tmp_path / "p/.agents/bob.yaml").write_text("backend: mock\nmock: [{text: hi}]\ncontext: {dir: team/bob}\n")
    (tmp_path / "p/team").symlink_to(outside)
    with pytest.raises(BadDefinition, match="leads outside the project"):
        contexts.place("bob", None)


@pytest.mark.promise("CF12")
def test_a_folder_of_another_agent_is_refused(contexts: PersonalContexts, tmp_path: Path) -> None:
    for name in ("alice", "bob"):
        text = "backend: mock\nmock: [{text: hi}]\ncontext: {dir: team/one}\n"
        (tmp_path / f"p/.agents/{name}.yaml").write_text(text)
    _put(contexts, contexts.place("bob", None), Entry("a", "one"))
    with pytest.raises(Refused, match="'team/one' belongs to agent bob"):
        _put(contexts, contexts.place("alice", None), Entry("a", "one"))
    (tmp_path / "p/.agents/bob.yaml").unlink()
    _put(contexts, contexts.place("alice", None), Entry("a", "two"))


def test_an_agent_without_a_file_keeps_its_memory_until_it_gets_one(contexts: PersonalContexts, tmp_path: Path) -> None:
    """Promise P45: ephemeral agents keep theirs when they are promoted; what the file's agent knew is not replaced."""
    bob = contexts.place("bob", _made("bob"))
    _put(contexts, bob, Entry("a", "one"), Entry("b", "two", "core", source=Source(("m1",), "tool")))
    contexts.add_note(bob, "n", None, 5.0)
    contexts.change_todos(bob, lambda text: with_done(with_item(with_item(text, "x"), "y"), 1))
    assert contexts.kept_for() == ("bob",)
    assert not (tmp_path / "p/.agents/bob").exists()
    (tmp_path / "p/.agents/bob.yaml").write_text(MOCK)
    own = contexts.place("bob", None)
    _put(contexts, own, Entry("a", "mine"))
    before = contexts.read(bob)
    contexts.move(bob, own)
    found = contexts.read(own)
    assert {one.entry.key: one.entry.value for one in found.memory} == {"a": "mine", "b": "two"}
    assert found.memory[0].entry.source == Source(("m1",), "tool")
    assert ([one.text for one in found.notes], found.todos) == (["n\n"], before.todos)
    assert contexts.kept_for() == ()
    assert contexts.read(bob).memory == ()


def test_the_key_of_an_agent_inside_a_workflow_is_a_folder_of_its_own(contexts: PersonalContexts) -> None:
    key = "bob@review:pr-1#12"
    place = contexts.place(key, _made(key))
    _put(contexts, place, Entry("a", "one"))
    assert (contexts.kept_for(), contexts.memory(place).kept[0].entry.value) == ((key,), "one")
    contexts.forget(key)
    assert (contexts.kept_for(), contexts.memory(place)) == ((), Memory((), ()))


def test_a_note_that_is_asked_for_again_is_there_once(contexts: PersonalContexts, alice: ContextPlace) -> None:
    first = contexts.add_note(alice, "same", None, 7.0, again=True)
    assert contexts.add_note(alice, "same", None, 7.0, again=True) == first
    assert contexts.add_note(alice, "same", "other", 7.0, again=True) != first
    contexts.add_note(alice, "same", None, 7.0)
    assert len(contexts.notes(alice).notes) == 3


def test_no_note_is_read_that_is_not_given(contexts: PersonalContexts, alice: ContextPlace, tmp_path: Path) -> None:
    for number in range(9):
        contexts.add_note(alice, f"{number}" * 10, None, float(number))
    files = sorted(path.name for path in (tmp_path / "p/.agents/alice/notes").iterdir())
    (tmp_path / "p/.agents/alice/notes" / files[6]).write_text("")
    folder = os.open(tmp_path / "p/.agents/alice/notes", os.O_RDONLY)
    read: list[str] = []

    def of(file: str) -> str:
        read.append(file)
        return read_here(folder, file)[0]

    try:
        for asked, given, looked in (
            (NotesAsked(limit=2), files[7:], files[7:]),
            (NotesAsked(limit=2, before=files[7]), files[4:6], files[4:7]),
            (NotesAsked(limit=9, before=files[5], characters=25), files[3:5], files[2:5]),
            (NotesAsked(before=files[2]), files[:2], files[:2]),
        ):
            read.clear()
            page = newest_notes(folder, "notes", of, asked)
            assert ([one.file for one in page.notes], sorted(read)) == (given, looked)
            assert (page.total, page.more) == (9, given[0] != files[0])
            assert files[page.first - 1] in (given[0], files[6])
    finally:
        os.close(folder)


def test_much_is_kept_in_several_files(contexts: PersonalContexts, alice: ContextPlace, tmp_path: Path) -> None:
    for number in range(3):
        _put(contexts, alice, *(Entry(f"k{number}-{n}", "v" * 60_000) for n in range(3)))
    names = sorted(path.name for path in (tmp_path / "p/.agents/alice/memory").iterdir())
    assert names == ["working-2.yaml", "working-3.yaml", "working.yaml"]
    assert len(contexts.memory(alice).kept) == 9
    _put(contexts, alice, Entry("k1-0", "small", "core"))
    assert contexts.memory(alice).kept[0].entry == Entry("k1-0", "small", "core")


@pytest.mark.parametrize(
    ("left", "ours"),
    [
        ({}, True),
        ({"..gitignore.tmp-0a1b2c3d4e5f": ""}, True),
        ({GIT_IGNORE: IGNORED}, True),
        ({GIT_IGNORE: IGNORED, f".{MARK}.tmp-0a1b2c3d4e5f": "ali"}, True),
        ({GIT_IGNORE: "*.log\n"}, False),
        ({"notes.txt": "mine"}, False),
    ],
)
def test_a_folder_whose_maker_died_over_it_is_made_whole_and_a_users_own_is_left(
    tmp_path: Path, left: dict[str, str], ours: bool
) -> None:
    home = tmp_path / ".agents" / "alice"
    home.mkdir(parents=True)
    for name, text in left.items():
        (home / name).write_text(text)
    for _ in range(2):
        make_agent_folder(str(tmp_path), ".agents/alice", "alice")
    found = {path.name: path.read_text() for path in home.iterdir()}
    assert found == ({GIT_IGNORE: IGNORED, MARK: mark_text("alice")} if ours else left)
