"""Clones of runs that have ended go from a node; what is only there comes here first, or stays."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from kernel.services.node_cleanup import Listed, NodeCleanup, read_list
from kernel.store.feed import Wake
from kernel.store.transitions.runs import end_run
from kernel.workflows.node_sync import LOST
from tests.kernel.services.test_node_trees import Ground, ground


class Standing:
    """The node of a ground, as those who clean see it."""

    def __init__(self, ground: Ground) -> None:
        self.launcher = ground.nodes.launcher
        self.facts = ground.nodes.facts
        self.state = "up"

    def states(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(name="far", state=self.state)]


def cleanup(g: Ground, *, works: bool = False) -> NodeCleanup:
    return NodeCleanup(g.parts, Standing(g), Wake(), lambda _run: works)


@pytest.mark.promise("P89")
async def test_a_clone_goes_once_its_run_has_ended_and_nobody_works_there(tmp_path: Path) -> None:
    """All of it had come back: no ref is made for it."""
    async with ground(tmp_path) as g:
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
async def test_what_never_came_back_is_kept_under_a_ref_before_its_clone_goes(tmp_path: Path) -> None:
    """Its node was lost while it worked, and comes back when the run is over."""
    async with ground(tmp_path) as g:
        await g.work(g.start(), "echo late >b.txt; chmod a-w .")
        g.there.release(g.alice)
        assert await g.place.writer.commit(end_run, g.run)
        await cleanup(g).run_once()
        project = g.place.git_project
        [ref] = [name for name in project.git("for-each-ref", "--format=%(refname)").splitlines() if LOST in name]
        assert project.git("show", f"{ref}:b.txt") == "late"
        assert not g.far(f"trees/r{g.alice.run}/alice/tree").exists()


@pytest.mark.promise("P89")
async def test_what_cannot_come_stays_and_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is hostile; a person looks at it there."""
    async with ground(tmp_path) as g:
        await g.work(g.start(), "ln -s /etc/passwd stolen")
        g.there.release(g.alice)
        assert await g.place.writer.commit(end_run, g.run)
        cleaning = cleanup(g)
        for _ in range(2):
            await cleaning.run_once()
        assert len([record for record in caplog.records if "stays on far" in record.message]) == 1
        assert g.far(f"trees/r{g.alice.run}/alice/tree/stolen").is_symlink()


def test_of_what_a_node_lists_only_clones_are_read() -> None:
    """A node may say anything."""
    said = b"r1/alice/\nr2/bob/ confined\n../r3/x/\nr0/a/\nr4/a b/\nr5/../\nr99999999999999999/a/\n\xff\nr6/x"
    assert list(read_list(said)) == [Listed(1, "alice", confined=False), Listed(2, "bob", confined=True)]
