"""Clones of runs that have ended go from a node; what is only there comes here first, or stays."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
import trio
import trio.testing

from kernel.git.node_sync import LOST
from kernel.services.node_cleanup import Listed, NodeCleanup, read_list
from kernel.services.nodes import Nodes
from kernel.store.feed import Wake
from kernel.store.transitions.runs import end_run
from tests.kernel.services.test_node_trees import Ground, ground


@dataclass
class Far:
    """The node of a ground by its name."""

    state: str
    name: str = "far"


class Standing:
    """The node of a ground, as those who clean see it."""

    def __init__(self, ground: Ground) -> None:
        self.launcher = ground.nodes.launcher
        self.facts = ground.nodes.facts
        self.state = "up"
        self.changed = trio.Event()

    def states(self) -> list[Far]:
        return [Far(self.state)]

    async def until_changed(self) -> None:
        await self.changed.wait()
        self.changed = trio.Event()


def cleanup(g: Ground, *, works: bool = False, nodes: Standing | None = None) -> NodeCleanup:
    return NodeCleanup(g.parts, cast("Nodes", nodes or Standing(g)), Wake(), lambda _run: works)


@pytest.mark.promise("P89")
async def test_a_clone_goes_once_its_run_has_ended_and_nobody_works_there(g: Ground) -> None:
    await g.work(g.start(), "echo one >b.txt")
    await g.there.finish(g.alice)
    clone = g.far(f"trees/r{g.alice.run}/alice/tree")
    await cleanup(g).run_once()
    assert clone.exists()
    assert await g.place.writer.commit(end_run, g.run)
    await cleanup(g, works=True).run_once()
    assert clone.exists()
    assert await cleanup(g).run_once() == float("inf")
    assert not clone.parent.parent.exists()
    assert LOST not in g.place.git_project.git("for-each-ref")


@pytest.mark.promise("P89")
async def test_what_never_came_back_is_kept_under_a_ref_before_its_clone_goes(g: Ground) -> None:
    await g.work(g.start(), "echo late >b.txt; chmod a-w .")
    g.there.release(g.alice)
    assert await g.place.writer.commit(end_run, g.run)
    await cleanup(g).run_once()
    project = g.place.git_project
    [ref] = [name for name in project.git("for-each-ref", "--format=%(refname)").splitlines() if LOST in name]
    assert project.git("show", f"{ref}:b.txt") == "late"
    assert not g.far(f"trees/r{g.alice.run}/alice/tree").exists()


@pytest.mark.long("the other tests of this file")
@pytest.mark.promise("P89")
async def test_a_node_that_was_away_when_the_run_ended_is_cleaned_once_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ground(tmp_path) as g, trio.open_nursery() as nursery:
        await g.work(g.start(), "true")
        await g.there.finish(g.alice)
        assert await g.place.writer.commit(end_run, g.run)
        nodes, clone = Standing(g), g.far(f"trees/r{g.run}/alice/tree")
        nodes.state = "lost"
        cleaning, gone = cleanup(g, nodes=nodes), trio.Event()
        look = NodeCleanup.run_once

        async def look_and_tell(of: NodeCleanup) -> float:
            nap = await look(of)
            if not clone.exists():
                gone.set()
            return nap

        monkeypatch.setattr(NodeCleanup, "run_once", look_and_tell)
        nursery.start_soon(cleaning.run)
        await trio.testing.wait_all_tasks_blocked()
        assert clone.exists()
        nodes.state = "up"
        nodes.changed.set()
        with trio.fail_after(30):
            await gone.wait()
        nursery.cancel_scope.cancel()


@pytest.mark.promise("P89")
async def test_what_cannot_come_stays_and_is_told_once(g: Ground, caplog: pytest.LogCaptureFixture) -> None:
    await g.work(g.start(), "ln -s /etc/passwd stolen")
    g.there.release(g.alice)
    assert await g.place.writer.commit(end_run, g.run)
    cleaning = cleanup(g)
    for _ in range(2):
        await cleaning.run_once()
    assert len([record for record in caplog.records if "retained on node far" in record.message]) == 1
    assert g.far(f"trees/r{g.alice.run}/alice/tree/stolen").is_symlink()


@pytest.mark.promise("P89")
async def test_a_node_makes_up_no_agents_and_no_second_clone(
    g: Ground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It could fill the project with refs, of work that was never given to it."""
    await g.work(g.start(), "echo late >b.txt")
    g.there.release(g.alice)
    assert await g.place.writer.commit(end_run, g.run)
    folder = g.far(f"trees/r{g.run}")
    shutil.copytree(folder / "alice", folder / "mallory")
    shutil.copytree(folder / "alice", tmp_path / "again")
    cleaning = cleanup(g)
    await cleaning.run_once()
    shutil.copytree(tmp_path / "again", folder / "alice", dirs_exist_ok=True)
    await cleaning.run_once()
    refs = g.place.git_project.git("for-each-ref", "--format=%(refname)").splitlines()
    assert len([name for name in refs if LOST in name]) == 1
    assert not any("mallory" in name for name in refs)
    assert "mallory did not work in" in caplog.text
    assert (folder / "alice/tree").exists()


def test_of_what_a_node_lists_only_clones_are_read() -> None:
    said = b"r1/alice/\nr2/bob/ confined\n../r3/x/\nr0/a/\nr4/a b/\nr5/../\nr99999999999999999/a/\n\xff\nr6/x"
    assert list(read_list(said)) == [Listed(1, "alice", confined=False), Listed(2, "bob", confined=True)]
