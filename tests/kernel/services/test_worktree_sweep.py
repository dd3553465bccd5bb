"""Trees of runs that ended, and of those that go on again, over a real repository and a real store."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio
import trio.testing

from kernel.agents.providers import CauseError
from kernel.git.repository import Repository
from kernel.services.worktrees import Worktrees, WorktreeSweep
from kernel.store.transitions import worktrees
from kernel.store.transitions.landings import Landing, Return, landing_refused
from kernel.store.transitions.lease import Leased
from kernel.store.transitions.runs import end_run, stop_workflow
from kernel.store.transitions.worktrees import Worktree
from protocol.api.runs import MergeOutcome, MergeRequest
from tests.kernel.git.git_project import at, ground_in, launched
from tests.kernel.services.landing_project import Interference, LandingProject, attempt_of, landing_ground
from tests.shorthand import present


@dataclass
class Swept:
    """A run of alice that has ended, with her tree, and the task that removes it."""

    place: LandingProject
    repository: Repository
    trees: Worktrees
    sweep: WorktreeSweep
    landing: Landing
    alice: Leased

    def tree(self) -> Worktree:
        return present(self.place.reader.now(worktrees.of, self.alice.run, self.alice.agent))

    async def give_back(self) -> None:
        """A merge was refused, and its author is to mend what is in the way: the run goes on."""
        back = (Return("alice", "mend it"),)
        made = await self.place.writer.commit(landing_refused, self.landing, MergeOutcome(why="conflict"), back)
        assert len(made) == 1


@asynccontextmanager
async def swept(tmp_path: Path) -> AsyncGenerator[Swept]:
    git_project = ground_in(tmp_path)
    async with launched(tmp_path) as launcher, landing_ground(git_project, launcher, Interference()) as place:
        repository = git_project.repository(launcher)

        def confine(_tree: Worktree) -> None:
            raise AssertionError("nobody is confined here")

        trees = Worktrees(
            root=git_project.root,
            repository=repository,
            log=place.log,
            feed=place.feed,
            launcher=launcher,
            confine=confine,  # type: ignore[arg-type]
        )
        sweep = WorktreeSweep(
            repository=repository,
            trees=trees,
            log=place.log,
            wake=place.feed.new_wake(frozenset()),
            works_in=lambda _run: False,
        )
        run = await place.run_of("alice", planned=True)
        [tree] = place.reader.now(worktrees.of_run, run)
        alice = attempt_of(tree)
        assert await trees.ready(alice, confined=False)
        landing = await place.ask(run, MergeRequest(give_back=True))
        assert await place.writer.commit(end_run, run)
        yield Swept(place, repository, trees, sweep, landing, alice)


async def test_who_is_woken_while_the_tree_is_removed_gets_it_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with swept(tmp_path) as it, trio.open_nursery() as nursery:
        removing, go_on = trio.Event(), trio.Event()
        remove = it.repository.remove

        async def slowly(tree: Worktree, **named: object) -> None:
            removing.set()
            await go_on.wait()
            await remove(tree, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(it.repository, "remove", slowly)
        nursery.start_soon(it.sweep.run_once)
        await removing.wait()
        with pytest.raises(CauseError, match="was removed when the run ended"):
            it.trees.working_directory(it.alice)
        await it.give_back()
        assert it.trees.working_directory(it.alice).cwd == it.tree().cwd
        begun = trio.Event()

        async def begin() -> None:
            assert await it.trees.ready(it.alice, confined=False)
            begun.set()

        nursery.start_soon(begin)
        await trio.testing.wait_all_tasks_blocked()
        assert not begun.is_set()
        go_on.set()
        await begun.wait()
        assert (it.tree().state, at(it.tree(), "a.txt").read_text()) == ("made", "one\n")


async def test_no_tree_is_removed_or_kept_whose_run_goes_on_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with swept(tmp_path) as it:
        losses = it.repository.losses

        async def then_it_goes_on(tree: Worktree, **named: object) -> str | None:
            found = await losses(tree, **named)  # type: ignore[arg-type]
            await it.give_back()
            return found

        monkeypatch.setattr(it.repository, "losses", then_it_goes_on)
        await it.sweep.run_once()
        assert (it.tree().state, at(it.tree()).exists()) == ("made", True)
        await it.sweep.run_once()  # there is nothing more to decide
        assert it.tree().state == "made"


async def test_a_tree_that_was_kept_is_worked_in_again_and_looked_at_again(tmp_path: Path) -> None:
    async with swept(tmp_path) as it:
        it.place.git_project.write("new.txt", "new\n", it.tree())
        await it.sweep.run_once()
        assert it.tree().state == "kept"
        await it.give_back()
        assert (it.tree().state, it.tree().why) == ("made", "")
        assert not await it.trees.ready(it.alice, confined=False)
        at(it.tree(), "new.txt").unlink()
        await it.place.writer.commit(stop_workflow, it.tree().space, "cancelled", 130)
        await it.sweep.run_once()
        assert it.tree().state == "gone"
