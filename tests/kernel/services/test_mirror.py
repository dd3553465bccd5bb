"""The mirror: files written from the log, which nothing reads back; on a real store and a real disk."""

import json
import logging
import os
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio

from kernel.services import mirror
from kernel.services.mirror import WAKING, Mirror
from kernel.services.mirror_files import DocumentFiles, MirrorFiles, MirrorTarget
from kernel.store import mirrors
from kernel.store.transitions.append import append
from kernel.store.transitions.clear import clear
from kernel.store.transitions.runs import stop_workflow
from protocol.message import Message
from tests.kernel.store.running_store import Store, open_store, started
from tests.shorthand import running

FOLDER = ".workspace/review/main"


@dataclass
class MirroredProject:
    """A store, a project, and mirrors of one life after the other."""

    store: Store
    root: Path
    conversations: bool = True
    mirror: Mirror = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """A mirror that remembers only what was stored, as that of the next kernel."""
        self.mirror = Mirror(
            log=self.store.log,
            wake=self.store.feed.new_wake(WAKING),
            files=MirrorFiles(str(self.root)),
            conversations=lambda: self.conversations,
            document_files=DocumentFiles(str(self.root), settle_seconds=0.0),
        )

    async def workflow(self, tag: str = "main", mirror: str | None = FOLDER) -> str:
        draft = started("alice", "bob", tag=tag, mode="start", mirror=mirror, kickoff="@alice go")
        await self.store.writer.commit(append, draft)
        return draft.space

    def lines(self, path: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.root / path).read_text().splitlines()]

    def texts(self, path: str = f"{FOLDER}/channel.jsonl") -> list[str]:
        return [line["text"] for line in self.lines(path)]

    def files(self) -> list[str]:
        return sorted(
            str(path.relative_to(self.root))
            for path in self.root.rglob("*")
            if path.is_file() and path.name != ".gitignore"
        )

    def day(self) -> Path:
        (found,) = (self.root / ".agents/alice/conversations").glob("*.jsonl")
        return found


@asynccontextmanager
async def mirrored_project(tmp_path: Path) -> AsyncGenerator[MirroredProject]:
    root = tmp_path / "project"
    root.mkdir()
    async with open_store(str(tmp_path / "kernel.db")) as store:
        await store.agents("alice")
        yield MirroredProject(store, root)


async def test_a_workspace_is_written_as_its_channel_and_a_history_for_each_agent(on: MirroredProject) -> None:
    """contracts 3: channel.jsonl, history/<agent>.jsonl: what it said and what was for it."""
    space = await on.workflow()
    leased = await on.store.take("i1")
    await on.store.close(leased.instruction, 1, status="done", text="@bob look")
    await on.store.said(space, "by the way")
    await on.mirror.write()
    assert on.texts() == ["started", "@alice go", "@bob look", "by the way"]
    assert on.texts(f"{FOLDER}/history/alice.jsonl") == ["@alice go", "@bob look"]
    assert on.texts(f"{FOLDER}/history/bob.jsonl") == ["@bob look"]
    assert [line["from"] for line in on.lines(f"{FOLDER}/channel.jsonl")] == ["system", "system", "alice", "user"]
    assert (on.root / FOLDER / "channel.jsonl").stat().st_mode & 0o077 == 0


@pytest.mark.promise("P15", "CF12")
@pytest.mark.parametrize("name", ["../../../escaped", "{}/absolute", "a/b"])
def test_a_name_from_a_strange_database_is_the_name_of_no_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "project").mkdir()
    for path in (tmp_path / "escaped.jsonl", tmp_path / "kept.jsonl"):
        path.write_text("theirs")
    name, files, target = name.format(tmp_path), MirrorFiles(str(tmp_path / "project")), MirrorTarget("m/x")
    for told in (
        Message(seq=1, kind="said", space="w:main", sender=name, instruction="i1"),
        Message(seq=1, kind="said", space="w:main", sender="user", to=(name,)),
    ):
        with pytest.raises(ValueError, match="is not a name"):
            files.append(target, [told])
    with pytest.raises(ValueError, match="is not a name"):
        files.remove(target, [name])
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == ["escaped.jsonl", "kept.jsonl"]
    assert (tmp_path / "escaped.jsonl").read_text() == "theirs"


@pytest.mark.promise("CF12")
async def test_what_is_said_to_an_agent_directly_is_in_its_own_folder_a_file_for_each_day(on: MirroredProject) -> None:
    """contracts 3: always; the folder is marked, so that it goes with its agent."""
    await on.store.said("dm:alice", "hi")
    on.store.clock.now_ms += 24 * 3600 * 1000
    await on.store.said("dm:alice", "there")
    await on.workflow(mirror=None)
    await on.mirror.write()
    first, mark, *rest = on.files()
    assert (first, rest[:1]) == (".agents/alice/.context", [".agents/alice/conversations/2026-09-22.jsonl"])
    assert on.texts(mark) == ["hi"]
    on.conversations = False
    await on.store.said("dm:alice", "not this")
    await on.mirror.write()
    assert "not this" not in (on.root / rest[0]).read_text()


@pytest.mark.promise("SF17")
@pytest.mark.parametrize("torn", ["", '{"seq":7,"ki', "\0\0\0\0"])
async def test_a_killed_kernel_leaves_no_line_out_and_none_twice(on: MirroredProject, torn: str) -> None:
    await on.store.said("dm:alice", "one")
    await on.mirror.write()
    day = on.day()
    with day.open("a") as file:
        file.write(torn)
    on.restart()
    await on.store.said("dm:alice", "two")
    await on.mirror.write()
    assert [json.loads(line)["text"] for line in day.read_text().splitlines()] == ["one", "two"]


@pytest.mark.promise("P14")
async def test_what_somebody_else_wrote_into_a_file_is_not_cut(on: MirroredProject) -> None:
    (on.root / FOLDER).mkdir(parents=True)
    (on.root / FOLDER / "channel.jsonl").write_text("my notes")
    await on.workflow()
    await on.mirror.write()
    first, *rest = (on.root / FOLDER / "channel.jsonl").read_text().splitlines()
    assert (first, len(rest)) == ("my notes", 2)


@pytest.mark.promise("P15")
async def test_a_folder_that_cannot_be_written_is_told_once_and_made_up_for(
    on: MirroredProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kernel.services")
    monkeypatch.setattr("kernel.services.mirror.RETRY_SECONDS", 0.0)
    outside = tmp_path / "outside"
    outside.mkdir()
    (on.root / ".workspace").symlink_to(outside)
    space = await on.workflow()
    for text in ("one", "two"):
        await on.store.said(space, text)
        await on.store.said("dm:alice", text)
        await on.mirror.write()
    assert [record.msg.split()[0] for record in caplog.records] == ["mirror.failed"]
    assert list(outside.iterdir()) == []
    assert [json.loads(line)["text"] for line in on.day().read_text().splitlines()] == ["one", "two"]
    (on.root / ".workspace").unlink()
    await on.mirror.write()
    assert on.texts() == ["started", "@alice go", "one", "two"]


LOSSES: dict[str, Callable[[Path], object]] = {
    "all of it": shutil.rmtree,
    "one file": lambda folder: (folder / "channel.jsonl").unlink(),
    "a history": lambda folder: (folder / "history/alice.jsonl").unlink(),
    "emptied": lambda folder: (folder / "channel.jsonl").write_text(""),
    "cut": lambda folder: os.truncate(folder / "channel.jsonl", len((folder / "channel.jsonl").read_bytes()) // 2),
}


@pytest.mark.promise("P44")
@pytest.mark.parametrize(("loss", "restart"), [*((loss, False) for loss in LOSSES), ("all of it", True)])
async def test_files_that_are_lost_are_made_anew_from_the_log(
    loss: str, restart: bool, on: MirroredProject, caplog: pytest.LogCaptureFixture
) -> None:
    """contracts 3: files are a view; with the next message nothing is missing, whoever removed what."""
    space = await on.workflow()
    for number in range(3):
        await on.store.said(space, f"@alice {number}")
    await on.mirror.write()
    whole = on.texts()
    assert "mirror.lost" not in caplog.text
    LOSSES[loss](on.root / FOLDER)
    if restart:
        await on.store.writer.commit(mirrors.set_written, 5)
        on.restart()
    await on.store.said(space, "@alice and on")
    async with trio.open_nursery() as nursery:
        await nursery.start(on.mirror.run)
        nursery.cancel_scope.cancel()  # what is not written yet is written then
    assert on.texts() == [*whole, "@alice and on"]
    assert on.texts(f"{FOLDER}/history/alice.jsonl") == [*whole[1:], "@alice and on"]
    assert caplog.text.count("mirror.lost") == 1
    await on.store.said(space, "@bob welcome")  # the first that bob gets: nothing of him was lost
    await on.mirror.write()
    assert on.texts(f"{FOLDER}/history/bob.jsonl") == ["@bob welcome"]
    assert caplog.text.count("mirror.lost") == 1


@pytest.mark.promise("P44")
@pytest.mark.parametrize(
    ("loss", "restart"), [*((loss, False) for loss in LOSSES), ("all of it", True), ("one file", True)]
)
async def test_what_is_lost_while_its_workflow_runs_is_made_anew_though_nobody_says_anything(
    loss: str, restart: bool, on: MirroredProject, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mirror, "SLOW_LOOK_SECONDS", 0.0)
    space = await on.workflow()
    await on.store.said(space, "@alice and on")
    await on.mirror.write()
    whole, history = on.texts(), on.texts(f"{FOLDER}/history/alice.jsonl")
    await on.mirror.write()
    assert "mirror.lost" not in caplog.text
    LOSSES[loss](on.root / FOLDER)
    if restart:
        await on.store.writer.commit(mirrors.set_written, 1000)
        on.restart()
    for _ in range(2):
        async with trio.open_nursery() as nursery:
            await nursery.start(on.mirror.run)
            nursery.cancel_scope.cancel()
        assert on.texts() == whole
        assert on.texts(f"{FOLDER}/history/alice.jsonl") == history
    assert caplog.text.count("mirror.lost") == 1
    await on.store.writer.commit(stop_workflow, space, "cancelled", 130)
    await on.mirror.write()
    shutil.rmtree(on.root / FOLDER)
    await on.mirror.write()
    assert on.files() == []


async def test_several_tags_may_share_one_folder(on: MirroredProject) -> None:
    first = await on.workflow("a", mirror="data")
    second = await on.workflow("b", mirror="data")
    await on.store.said(second, "b1")
    await on.store.said(first, "a1")
    await on.mirror.write()
    assert on.texts("data/channel.jsonl") == ["started", "@alice go", "started", "@alice go", "b1", "a1"]


async def test_what_is_cleared_goes_from_its_files_and_what_others_said_stays(on: MirroredProject) -> None:
    """contracts 9: clear deletes mirrors; also where the kernel died before it had done so."""
    first = await on.workflow("a", mirror="data")
    second = await on.workflow("b", mirror="data")
    await on.store.said(first, "canary")
    await on.store.said(second, "stays")
    await on.store.said("dm:alice", "stays too")
    await on.mirror.write()
    (on.root / "data/mine.txt").write_text("not ours")
    for space in (first, second):
        await on.store.writer.commit(stop_workflow, space, "cancelled", 130)
    await on.store.writer.commit(clear, first)
    on.restart()
    await on.mirror.redo()
    assert "canary" not in "".join((on.root / path).read_text() for path in on.files())
    assert on.texts("data/channel.jsonl") == ["started", "@alice go", "stays", "review:b ended: cancelled"]
    assert (on.root / "data/mine.txt").exists()
    assert on.store.reader.now(mirrors.to_redo) == ()


async def test_it_writes_by_itself_soon_after_the_commit_and_the_rest_at_a_clean_stop(on: MirroredProject) -> None:
    async with running(on.mirror.run):
        await on.store.said("dm:alice", "one")
        with trio.fail_after(5):
            while not (on.root / ".agents/alice/conversations").exists():
                await trio.lowlevel.checkpoint()
        last = await on.store.said("dm:alice", "two")
    assert [json.loads(line)["text"] for line in on.day().read_text().splitlines()] == ["one", "two"]
    assert on.store.reader.now(mirrors.written) >= last.seq


async def test_a_disk_that_hangs_holds_nobody_up(on: MirroredProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow or full disk never holds up the kernel: commits go on, and so does the stop."""
    release = Release()
    monkeypatch.setattr("kernel.services.mirror.LAST_WRITE_SECONDS", 0.05)
    monkeypatch.setattr(MirrorFiles, "append", release.wait_for)
    async with trio.open_nursery() as nursery:
        await nursery.start(on.mirror.run)
        await on.store.said("dm:alice", "one")
        with trio.fail_after(5):
            while not release.waiting:
                await trio.lowlevel.checkpoint()
            await on.store.said("dm:alice", "two")
            nursery.cancel_scope.cancel()
    release.now()
    assert on.store.reader.now(mirrors.written) == 0


class Release:
    """A call that returns when it is let."""

    def __init__(self) -> None:
        self.waiting = False
        self._read, self._write = os.pipe()
        self.wait_for: Callable[..., object] = self._wait

    def _wait(self, *_args: object, **_more: object) -> tuple[str, ...]:
        self.waiting = True
        os.read(self._read, 1)
        return ()

    def now(self) -> None:
        os.write(self._write, b"xxxx")


async def test_git_sees_nothing_of_what_was_said_to_an_agent(tmp_path: Path) -> None:
    async with mirrored_project(tmp_path) as it:
        await it.store.said("dm:alice", "hello")
        await it.mirror.write()
    git = ["git", "-C", str(it.root)]
    await trio.run_process([*git, "init", "-q"])
    (it.root / ".agents/alice/notes.md").write_text("mine\n")
    seen = await trio.run_process([*git, "status", "--porcelain", "-uall", ".agents"], capture_stdout=True)
    assert seen.stdout.split() == [b"??", b".agents/alice/notes.md"]


async def test_files_are_up_to_date_once_somebody_waits_for_them(on: MirroredProject) -> None:
    space = await on.workflow()
    await on.store.said(space, "the last words")
    await on.mirror.redo()
    assert on.texts() == ["started", "@alice go", "the last words"]
