"""Edited files beside a kernel that runs: they count at once, and what is wrong is told."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from kernel.agents.catalog import Catalog, LoadedAgent
from kernel.agents.registration import file_spec, register
from kernel.services import reload
from kernel.services.reload import CannotWatch, DirectoryWatch, Reload, watch_directories
from kernel.store import agents
from kernel.store.agents import AgentSpec, put_agents
from kernel.workflows.instruction_prompt import definition_for
from kernel.workflows.load import definitions
from protocol.agent import AgentDefinition
from protocol.errors import Refused
from protocol.message import Event
from protocol.names import AgentKey
from protocol.project import ProjectDefinition
from tests.kernel.store.running_store import Store, open_store
from tests.shorthand import present, running

SOUND = "backend: mock\nmock: [{{text: {0}}}]\n"
BROKEN = "backend: mock\nmok: []\n"


@dataclass
class Scene:
    """A project and a store that follows it."""

    root: Path
    catalog: Catalog
    store: Store
    following: Reload

    def write(self, name: str, text: str) -> None:
        draft = self.root.parent / "draft"
        draft.write_text(text)
        draft.replace(self.root / name)  # as editors do

    def says(self, name: str) -> str | None:
        """What the mock would say that the next attempt runs."""
        definition: AgentDefinition = definition_for(name, f"dm:{name}", self.catalog, self.store.reader)
        return definition.mock[0].do[0].text


@asynccontextmanager
async def scene(folder: Path, *files: str, followed: bool = True) -> AsyncGenerator[Scene]:
    """A project, followed; ``files`` are agents that are there from the start. Else nobody has looked at it yet."""
    root = folder / "project"
    root.mkdir()
    catalog = Catalog(root)
    async with open_store(str(folder / "store.db")) as store:
        following = Reload(catalog=catalog, log=store.log, sleep=_at_once)
        it = Scene(root, catalog, store, following)
        if files:
            (root / ".agents").mkdir()
        for name in files:
            it.write(f".agents/{name}.yaml", SOUND.format("old"))
        if not followed:
            yield it
            return
        await following.start()
        store.told.clear()
        async with running(following.run):
            await until_idle()
            yield it


async def _at_once(_seconds: float) -> None:
    await trio.lowlevel.checkpoint()


async def until_idle() -> None:
    """Until the first look is over: it is in threads, which no task can be seen to wait for."""
    await wait_all_tasks_blocked(0.05)


async def told(store: Store, kind: str, agent: str | None = None) -> Event:
    """The first event of a kind about ``agent`` since this was last asked."""
    with store.feed.subscribe() as events:
        found = store.told.copy()
        while True:
            hit = next((one for one in found if one.type == kind and one.agent == agent), None)
            if hit is not None:
                store.told.clear()
                return hit
            found = [await anext(events)]


async def test_an_edit_is_told_and_counts_at_once(tmp_path: Path) -> None:
    async with scene(tmp_path, "alice") as it:
        it.write(".agents/alice.yaml", SOUND.format("new"))
        await told(it.store, "agent.changed", "alice")
        assert b'"new"' in (present(it.store.reader.now(agents.row, "alice")).definition or b"")


async def test_a_broken_file_is_told_once_and_what_it_said_stays(tmp_path: Path) -> None:
    async with scene(tmp_path, "alice") as it:
        it.write(".agents/alice.yaml", BROKEN)
        event = await told(it.store, "definition.broken")
        assert (event.data["path"], event.data["line"]) == (".agents/alice.yaml", 2)
        assert it.says("alice") == "old"
        it.write(".agents/bob.yaml", SOUND.format("hi"))
        await told(it.store, "agent.changed", "bob")
        assert [one.type for one in it.store.told if one.type == "definition.broken"] == []
        it.write(".agents/alice.yaml", SOUND.format("mended"))
        await told(it.store, "agent.changed", "alice")
        assert it.says("alice") == "mended"


async def test_folders_may_come_later_and_go(tmp_path: Path) -> None:
    async with scene(tmp_path) as it:
        (it.root / ".agents").mkdir()
        it.write(".agents/alice.yaml", SOUND.format("hi"))
        await told(it.store, "agent.changed", "alice")
        (it.root / ".agents/alice.yaml").unlink()
        (it.root / ".agents").rmdir()
        assert (await told(it.store, "agent.changed", "alice")).data["state"] == "deleted"
        (it.root / ".agents").mkdir()
        it.write(".agents/alice.yaml", SOUND.format("again"))
        await told(it.store, "agent.changed", "alice")
        assert it.says("alice") == "again"


async def test_the_project_file_and_workflows_are_followed_too(tmp_path: Path) -> None:
    async with scene(tmp_path) as it:
        it.write("moniro.yaml", "agents:\n  helper: {backend: mock, mock: [{text: one}]}\n")
        await told(it.store, "agent.changed", "helper")
        it.write("moniro.yaml", "agents:\n  helper: {backend: mock, mock: 5}\n")
        assert (await told(it.store, "definition.broken")).data["path"] == "moniro.yaml"
        assert it.says("helper") == "one"
        assert it.catalog.names() == ("helper",)
        it.write("moniro.yaml", "agents:\n  helper: {backend: mock, mock: [{text: two}]}\n")
        await told(it.store, "agent.changed", "helper")
        (it.root / ".workflows").mkdir()
        it.write(".workflows/review.yaml", "agents: {}\n")
        assert (await told(it.store, "definition.broken")).data["path"] == ".workflows/review.yaml"


async def test_a_system_that_cannot_tell_of_edits_is_no_reason_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def cannot() -> None:
        raise CannotWatch("No space left on device")

    monkeypatch.setattr(reload, "watch_directories", cannot)
    async with scene(tmp_path, "alice") as it:
        it.write(".agents/alice.yaml", SOUND.format("new"))
        assert it.says("alice") == "new"
    assert [record.message for record in caplog.records].count(
        "reload.off No space left on device: edited files are read when their agent works next"
    ) == 1


async def test_watches_that_run_out_later_are_said_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(tmp_path) as it:

        def cannot(self: DirectoryWatch, folders: object) -> None:
            raise CannotWatch("No space left on device")

        monkeypatch.setattr(DirectoryWatch, "cover", cannot)
        (it.root / ".agents").mkdir()
        it.write(".agents/alice.yaml", SOUND.format("new"))
        await until_idle()
        await register(it.catalog, it.store.writer, it.store.reader)
        assert it.says("alice") == "new"


@pytest.mark.promise("CF18")
async def test_whoever_asks_what_is_wrong_is_told_as_it_is_now_and_no_file_is_looked_at_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(tmp_path, "alice") as it:
        with monkeypatch.context() as patched:
            patched.setattr(reload, "definitions", None)
            sound = await it.following.current()
        assert sound is not None
        assert sound.errors == ()
        it.write(".agents/alice.yaml", BROKEN)
        wrong = await it.following.current()  # before the watch was told
        assert wrong is not None
        assert [error.path for error in wrong.errors] == [".agents/alice.yaml"]
        await told(it.store, "definition.broken")
        with monkeypatch.context() as patched:
            patched.setattr(reload, "definitions", None)
            assert await it.following.current() == wrong


async def test_a_prompt_outside_the_watched_folders_is_followed_too(tmp_path: Path) -> None:
    async with scene(tmp_path) as it:
        (it.root / "deep/prompts").mkdir(parents=True)
        (it.root / "deep/prompts/a.md").write_text("You are A.")
        (it.root / ".agents").mkdir()
        it.write(".agents/alice.yaml", "model: openai/x\nprompt: {system_file: deep/prompts/a.md}\n")
        await told(it.store, "agent.changed", "alice")
        await until_idle()
        (it.root / "deep/prompts/a.md").unlink()
        event = await told(it.store, "definition.broken")
        assert "deep/prompts/a.md not found" in event.data["message"]


@pytest.mark.parametrize("watched", [True, False])
async def test_a_start_does_not_wait_for_more_files_than_it_has_time_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watched: bool
) -> None:
    def cannot() -> None:
        raise CannotWatch("No space left on device")

    if not watched:
        monkeypatch.setattr(reload, "watch_directories", cannot)
    async with scene(tmp_path, "alice", "bob", followed=False) as it:
        await it.store.agents("old")  # of a file that is gone: who has not looked everywhere cannot know that
        monkeypatch.setattr(reload, "START_SECONDS", -1.0)
        cut = await it.following.start()
        assert (cut.loaded, cut.whole) == ((), False)
        assert [one.key for one in it.store.reader.now(agents.all)] == ["old"]
        async with running(it.following.run):
            assert (await told(it.store, "agent.changed", "bob")).data["state"] == "active"
            assert (await told(it.store, "agent.changed", "old")).data["state"] == "deleted"
            assert present(await it.following.current()).errors == ()


async def test_those_that_are_still_being_read_are_not_waited_for_by_who_asks(tmp_path: Path) -> None:
    async with scene(tmp_path, "alice", followed=False) as it:
        following = it.following
        with pytest.MonkeyPatch.context() as patched, watch_directories() as watch:
            patched.setattr(reload, "START_SECONDS", -1.0)
            await following.start()
            patched.setattr(following, "_watch", watch)
            assert await following.current() is None
            await following.run_once()
            assert (await following.current()) == definitions(it.catalog)


async def test_of_many_agents_only_those_are_written_that_differ(tmp_path: Path) -> None:
    """And one that was made at run time stays what it is, unless its file came first."""
    async with scene(tmp_path, "alice", "bob") as it:
        made = AgentSpec(key=AgentKey("carl"), origin="ephemeral", definition=b'{"name":"carl"}')
        await it.store.writer.commit(put_agents, [made])
        for name in ("bob", "carl"):
            (it.root / f".agents/{name}.yaml").write_text(SOUND.format("other"))
        loaded = it.catalog.survey().loaded

        async def differing(*over: str) -> list[str]:
            found = await it.store.reader.read(agents.not_stored, map(file_spec, loaded), over=over)
            return [one.key for one in found]

        assert (await differing(), await differing("carl")) in (
            (["bob"], ["bob", "carl"]),
            (["bob"], ["carl"]),  # the watch wrote between the two,
            ([], ["carl"]),  # or before both
        )


async def test_who_was_made_at_run_time_and_has_a_file_after_a_crash_is_of_that_file_however_late_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(tmp_path, "alice", "carl", followed=False) as it:
        made = [AgentSpec(key=AgentKey(name), origin="ephemeral", definition=b"{}") for name in ("carl", "dora")]
        await it.store.writer.commit(put_agents, made[:1])
        monkeypatch.setattr(reload, "START_SECONDS", -1.0)
        assert (await it.following.start()).whole is False
        await it.store.writer.commit(put_agents, made[1:])
        (it.root / ".agents/dora.yaml").write_text(SOUND.format("other"))
        await it.following.run_once()
        origins = {one.key: one.origin for one in it.store.reader.now(agents.all)}
        assert origins == {"alice": "file", "carl": "file", "dora": "ephemeral"}


async def test_of_many_files_only_the_edited_one_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And an agent is read again whose prompt file was edited."""
    async with scene(tmp_path, "alice", "bob", "carl") as it:
        (it.root / "prompts").mkdir()
        (it.root / "prompts/dora.md").write_text("You are Dora.")
        it.write(".agents/dora.yaml", "model: openai/x\nprompt: {system_file: prompts/dora.md}\n")
        await told(it.store, "agent.changed", "dora")
        await until_idle()
        read: list[str] = []
        one = it.catalog.agent

        def noted(name: str, *more: ProjectDefinition) -> LoadedAgent:
            read.append(name)
            return one(name, *more)

        monkeypatch.setattr(it.catalog, "agent", noted)
        it.write(".agents/draft.tmp", "an editor's")
        it.write(".agents/bob.yaml", SOUND.format("new"))
        await told(it.store, "agent.changed", "bob")
        await until_idle()
        assert set(read) == {"bob"}
        (it.root / "prompts/dora.md").unlink()
        event = await told(it.store, "definition.broken")
        assert (event.data["path"], set(read)) == (".agents/dora.yaml", {"bob", "dora"})
        (it.root / ".agents/carl.yaml").unlink()
        assert (await told(it.store, "agent.changed", "carl")).data["state"] == "deleted"


async def test_a_refused_edit_is_applied_with_the_next_change_of_any_file(tmp_path: Path) -> None:
    async with scene(tmp_path, "alice", "bob") as it:
        with pytest.MonkeyPatch.context() as full:
            refused = trio.Event()

            async def refuse(*_values: object, **_named: object) -> None:
                refused.set()
                raise Refused("storage_full", "the disk is full")

            full.setattr(reload, "take_over", refuse)
            it.write(".agents/alice.yaml", SOUND.format("new"))
            await refused.wait()
        it.write(".agents/bob.yaml", SOUND.format("new"))
        await told(it.store, "agent.changed", "alice")


async def test_an_error_remains_until_it_is_mended_whatever_else_is_edited(tmp_path: Path) -> None:
    async with scene(tmp_path, "alice", "bob") as it:
        it.write(".agents/alice.yaml", BROKEN)
        it.write(".agents/carl.yaml", "model: openai/x\nprompt: {system_file: lost/carl.md}\n")
        await told(it.store, "definition.broken")
        it.write(".agents/bob.yaml", SOUND.format("new"))
        await told(it.store, "agent.changed", "bob")
        await until_idle()
        wrong = present(await it.following.current()).errors
        assert [one.path for one in wrong] == [".agents/alice.yaml", ".agents/carl.yaml"]
        (it.root / "lost").mkdir()
        (it.root / "lost/carl.md").write_text("You are Carl.")  # in a folder that is not watched
        it.write(".agents/bob.yaml", SOUND.format("newer"))
        await told(it.store, "agent.changed", "carl")


async def test_linked_files_and_winding_paths_are_followed(tmp_path: Path) -> None:
    async with scene(tmp_path, "alice") as it:
        for folder in ("a", "b"):
            (it.root / folder).mkdir()
        it.write("shared.yaml", SOUND.format("old"))
        it.write("b/carl.md", "You are Carl.")
        os.symlink("../shared.yaml", it.root / ".agents/bob.yaml")
        it.write(".agents/carl.yaml", "model: openai/x\nprompt: {system_file: a/../b/carl.md}\n")
        await told(it.store, "agent.changed", "carl")
        await until_idle()
        it.store.told.clear()
        it.write("shared.yaml", SOUND.format("new"))
        await told(it.store, "agent.changed", "bob")
        (it.root / "b/carl.md").unlink()
        assert (await told(it.store, "definition.broken")).data["path"] == ".agents/carl.yaml"


async def test_an_edit_while_the_project_is_away_is_applied_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(tmp_path, "alice", "bob") as it:
        seen = trio.Event()
        with monkeypatch.context() as away:

            def fault(_root: str) -> str:
                seen.set()
                return "moved"

            away.setattr(reload, "root_fault", fault)
            it.write(".agents/alice.yaml", SOUND.format("new"))
            await seen.wait()
        it.write(".agents/bob.yaml", SOUND.format("new"))
        await told(it.store, "agent.changed", "alice")


async def test_an_agent_whose_file_was_deleted_during_its_work_is_forgotten_later(tmp_path: Path) -> None:
    async with scene(tmp_path, "alice", "bob") as it:
        (sent,) = (await it.store.said("dm:alice", "work")).instruction_ids
        leased = await it.store.take(sent)
        (it.root / ".agents/alice.yaml").unlink()
        await until_idle()
        await it.store.close(sent, leased.epoch, status="done", text="")
        it.store.told.clear()
        it.write(".agents/bob.yaml", SOUND.format("new"))
        assert (await told(it.store, "agent.changed", "alice")).data["state"] == "deleted"
