"""Working trees of agents in running runs: creation, measurement of changes, and removal.

A tree is used only after its row is ``made``; until then only the kernel changes it, and after a crash the next kernel
repeats the creation.
"""

import logging
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import trio

from kernel.agents.providers import CauseError
from kernel.git.clone import clone_of, has_clone
from kernel.git.repository import Repository, TreeChanges, unlock
from kernel.procs.launcher import Launcher
from kernel.procs.spec import SpawnTransient
from kernel.services.timers import reconcile
from kernel.services.working_directory import WorkingDirectory
from kernel.store import workflows
from kernel.store.database import has_room
from kernel.store.feed import Feed, Wake
from kernel.store.transitions import worktrees
from kernel.store.transitions.landings import merge_id, newest
from kernel.store.transitions.lease import Leased
from kernel.store.transitions.worktrees import (
    SHARED,
    State,
    Worktree,
    worktree_confined,
    worktree_going,
    worktree_gone,
    worktree_kept,
    worktree_made,
)
from kernel.store.writer import StoreLog
from kernel.workflows.setup import WorktreeSetup, copy_included, run_steps
from protocol.api.runs import DiffCommit, DiffFile, DiffStat, WorktreeDiff
from protocol.errors import Refused
from protocol.ipc import Sandbox
from protocol.message import Event
from protocol.names import place_of
from protocol.workflow import WorkflowDefinition, Workspace, WorktreeStep

logger = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 1.0
"""Interval of measurements; steps in between are measured together."""
MEASURED_AT_ONCE: Final = 4
BARE: Final = "awk-bare"
"""File in the git directory of a tree without setup, because its agent works on a node."""
_workflow: Final = msgspec.json.Decoder(WorkflowDefinition)
_THERE: Final = frozenset({"made", "kept"})
_SHOWN: Mapping[State, Literal["planned", "made", "kept"]] = {"planned": "planned", "made": "made", "kept": "kept"}


class Worktrees(msgspec.Struct, eq=False, kw_only=True):
    """Working trees of one project; ``ready`` may be called for several agents concurrently."""

    root: Path
    repository: Repository
    log: StoreLog
    feed: Feed
    launcher: Launcher
    confine: Callable[[Worktree], Sandbox]
    """Creates the sandbox for commands in a confined agent's tree. Raises CauseError."""
    _turn: trio.Lock = msgspec.field(default_factory=trio.Lock)
    _making: defaultdict[str, trio.Lock] = msgspec.field(default_factory=lambda: defaultdict(trio.Lock))
    """Locks by path."""
    _unlocked: set[str] = set()
    """Paths of trees that this kernel already uses."""
    _stats: dict[tuple[str, str], DiffStat] = {}
    """Changes by space and name, as last measured."""
    _due: dict[tuple[str, str], bool] = {}
    """Running measurements, and whether each has to be repeated."""
    _measuring: trio.CapacityLimiter = msgspec.field(default_factory=lambda: trio.CapacityLimiter(MEASURED_AT_ONCE))

    def working_directory(self, leased: Leased) -> WorkingDirectory:
        """Return where the agent works. Raises CauseError if its tree was removed or replaced by a link."""
        tree = None if leased.run is None else self.log.reader.now(worktrees.of, leased.run, leased.agent)
        if tree is None:
            return WorkingDirectory(str(self.root), str(self.root))
        if tree.state == "gone" or (tree.state == "removing" and not self.goes_on(tree)):
            text = f"working tree of {tree.name} was removed when the run ended: start the workflow again"
            raise CauseError("definition_missing", text)
        if os.path.realpath(tree.cwd) != tree.cwd:  # the agent can write the parent folders inside the tree
            text = f"working directory of {tree.name} was replaced by a link: {tree.cwd}"
            raise CauseError("spawn_permanent", f"{text} (inspect the link, then start the workflow again)")
        return WorkingDirectory(tree.cwd, tree.path, tree)

    async def ready(self, leased: Leased, *, confined: bool, here: bool = True) -> bool:
        """Create the agent's tree if it is missing; return whether it was created. Raises CauseError, SpawnTransient.

        Its setup runs where its agent works: ``here``, or on a node. After a cancellation, the next call removes the
        remains.
        """
        tree = None if leased.run is None else self.log.reader.now(worktrees.of, leased.run, leased.agent)
        if tree is None:
            return False
        try:
            # The first user of a shared tree creates it; a tree that is being removed is created again afterwards.
            async with self.only_user(tree):
                tree = self.log.reader.now(worktrees.of, leased.run, leased.agent) or tree
                if confined and not tree.confined:
                    await self.log.writer.commit(worktree_confined, tree)
                if tree.state not in _THERE or not await trio.Path(tree.path, ".git").exists():
                    self._unlocked.add(tree.path)
                    await self._make(tree, confined, here=here)
                    return True
                await self.unlock(tree)
                if here and await trio.Path(tree.git_dir, BARE).exists():
                    await self._furnish(tree)
                    await trio.Path(tree.git_dir, BARE).unlink()
                self._stats.setdefault((place_of(tree.space), tree.name), DiffStat())  # of a restarted run
            if confined != has_clone(tree):
                # The agent's file changed its sandbox setting after the tree was created.
                if not confined:
                    text = f"working tree of {tree.name} was created for sandbox: on and must stay confined"
                    raise Refused("setup_failed", text, "set sandbox: on again, or start the workflow again")
                await self.repository.confine(tree)
        except (Refused, OSError) as refused:
            full = [place for place in (tree.repository, str(self.repository.place)) if not has_room(place)]
            if full:
                text = f"no space left on the disk of {full[0]}: the working tree of {tree.name} waits ({refused})"
                raise SpawnTransient(text) from refused
            if isinstance(refused, OSError):
                raise
            if refused.code == "busy":
                raise SpawnTransient(refused.text) from refused
            hint = f" ({refused.hint})" if refused.hint else ""
            raise CauseError("spawn_permanent", f"{refused.text}{hint}") from refused
        return False

    async def unlock(self, tree: Worktree) -> None:
        """Remove locks left by an earlier kernel in ``tree`` before its first use. Raises nothing."""
        if tree.path not in self._unlocked:
            self._unlocked.add(tree.path)
            await trio.to_thread.run_sync(unlock, tree)

    async def _make(self, tree: Worktree, confined: bool, *, here: bool) -> None:
        async with self._turn:
            git_dir = await self.repository.add(tree, confined=confined)
        if here:
            await self._furnish(tree)
        else:
            await trio.Path(git_dir, BARE).touch()
        await self.log.writer.commit(worktree_made, tree, git_dir)
        self._stats[place_of(tree.space), tree.name] = DiffStat()

    async def _furnish(self, tree: Worktree) -> None:
        names = await self.repository.included()
        await trio.to_thread.run_sync(copy_included, names, self.root, tree)
        setup, steps = self.setup_of(tree, "setup")
        await self._run_steps("setup", steps, setup)

    def goes_on(self, tree: Worktree) -> bool:
        """Return whether the run of ``tree`` is running (again)."""
        record = self.log.reader.now(workflows.by_id, tree.run)
        return record is not None and record.state == "running"

    def only_user(self, tree: Worktree) -> trio.Lock:
        """Return the lock for creating or removing ``tree``."""
        return self._making[tree.path]

    def box(self, tree: Worktree, *, gone: bool = False) -> Sandbox | None:
        """Return the sandbox for commands in ``tree``; None if its agent is not confined.

        ``gone``: also if the tree was removed and only its branch remains. Raises Refused.
        """
        try:
            return self.confine(tree) if has_clone(tree) or (gone and tree.confined) else None
        except CauseError as error:
            raise Refused("setup_failed", error.text) from error

    async def teardown(self, tree: Worktree) -> None:
        """Run the workflow's teardown in ``tree``. Raises Refused (setup_failed), SpawnTransient."""
        if await trio.Path(tree.git_dir, BARE).exists():
            return  # its agent worked on a node
        setup, steps = self.setup_of(tree, "teardown")
        await self._run_steps("teardown", steps, setup)

    def forget(self, tree: Worktree) -> None:
        """Forget the measured changes of a tree that is no longer used."""
        self._stats.pop((place_of(tree.space), tree.name), None)

    def stat(self, space: str | None, name: str) -> DiffStat | None:
        """Return the last measured changes in the agent's tree, without waiting."""
        return None if space is None else self._stats.get((space, name)) or self._stats.get((space, SHARED))

    async def report(self, run: int, name: str | None, *, patch: bool) -> tuple[WorktreeDiff, ...]:
        """Return the changes in the trees of ``run`` and of its newest merge, or in the tree of its agent ``name``.

        Raises Refused if the changes of a single tree are not available; among several, the result contains the error.
        """
        trees = (
            tree for tree in self.log.reader.now(worktrees.of_run, run) if tree.shared or name in (None, tree.name)
        )
        found = [await self._reported(tree, patch, name is not None) for tree in trees if tree.state in _SHOWN]
        landing = self.log.reader.now(newest, run) if name is None else None
        if landing is not None and landing.state == "merged" and landing.result:
            with suppress(Refused):  # its commits are no longer in the repository
                place, since = landing.repository, landing.expected
                changes = await self.repository.between(place, since, landing.result, patch=patch)
                merge = {"agent": merge_id(landing.id), "branch": landing.branch, "base": since, "path": place}
                found.insert(0, _diff_of(changes, state="merged", **merge))
        return tuple(found)

    async def _reported(self, tree: Worktree, patch: bool, alone: bool) -> WorktreeDiff:
        why, changes = tree.why, TreeChanges((), ())
        if tree.state != "planned" and await trio.Path(tree.path).exists():
            try:
                changes = await self.repository.changes(tree, box=self.box(tree), patch=patch)
            except Refused as refused:
                if alone:
                    raise
                why = f"its changes are not available: {refused.text}"
        where = {"agent": tree.name, "branch": tree.branch, "base": tree.base, "path": tree.path}
        return _diff_of(changes, state=_SHOWN[tree.state], kept_because=why or None, **where)

    async def run(self) -> None:
        """Measure trees after their agents' steps, until cancelled."""
        async with trio.open_nursery() as nursery:
            # runs started by an earlier kernel
            running = self.log.reader.now(workflows.running)
            trees = (tree for record in running for tree in self.log.reader.now(worktrees.of_run, record.id))
            self._measure_soon(
                tuple((place_of(tree.space), tree.name) for tree in trees if tree.state == "made"), nursery
            )
            steps = self.feed.subscribe(types=("instruction.step",), wanted=lambda event: bool(self._touched(event)))
            with steps as events:
                while True:
                    touched = self._touched(await anext(events))
                    with trio.move_on_after(PAUSE_SECONDS):
                        while True:
                            touched |= self._touched(await anext(events))
                    self._measure_soon(touched, nursery)

    def _measure_soon(self, touched: Iterable[tuple[str, str]], nursery: trio.Nursery) -> None:
        for one in touched:
            under_way = one in self._due
            self._due[one] = True
            if not under_way:
                nursery.start_soon(self._measure, *one)

    async def _measure(self, place: str, name: str) -> None:
        one = place, name
        while self._due[one]:
            self._due[one] = False
            async with self._measuring:
                run = self.log.reader.now(workflows.running_at, place)
                trees = () if run is None else self.log.reader.now(worktrees.of_run, run.id)
                tree = next((tree for tree in trees if tree.name == name and tree.state == "made"), None)
                if tree is None:
                    continue
                try:
                    self._stats[one] = stat_of(await self.repository.changes(tree, box=self.box(tree)))
                except (Refused, SpawnTransient, OSError) as error:
                    logger.warning("worktree.unmeasured %s of %s: %s", name, place, error)
        del self._due[one]

    def _touched(self, event: Event) -> frozenset[tuple[str, str]]:
        if event.space is None or event.agent is None:
            return frozenset(self._stats)
        return frozenset({(event.space, event.agent), (event.space, SHARED)} & self._stats.keys())

    async def _run_steps(self, what: str, steps: tuple[WorktreeStep, ...], setup: WorktreeSetup) -> None:
        box = self.box(setup.tree) if steps else None
        await run_steps(what, steps, setup, launcher=self.launcher, env=self.repository.git.environment, sandbox=box)

    def setup_of(self, tree: Worktree, what: str) -> tuple[WorktreeSetup, tuple[WorktreeStep, ...]]:
        """Return the steps ``what`` (setup, teardown) with their context, as of the run's start."""
        source, record = self.log.reader.now(workflows.source, tree.run), self.log.reader.now(workflows.by_id, tree.run)
        assert source is not None, tree
        assert record is not None, tree
        definition = _workflow.decode(source.definition)
        steps: tuple[WorktreeStep, ...] = ()
        if isinstance(definition.workspace, Workspace):
            steps = definition.workspace.setup if what == "setup" else definition.workspace.teardown
        return WorktreeSetup(tree, definition, record.tag, self.root), steps


def _diff_of(changes: TreeChanges, **where: Any) -> WorktreeDiff:
    return WorktreeDiff(
        stat=stat_of(changes),
        files=tuple(DiffFile(path=one.path, added=one.added, deleted=one.deleted) for one in changes.files),
        commits=tuple(DiffCommit(id=commit, subject=subject) for commit, subject in changes.commits),
        patch=changes.patch,
        truncated=changes.truncated,
        **where,
    )


def stat_of(changes: TreeChanges) -> DiffStat:
    """Return the numbers of files, lines and commits in ``changes``."""
    return DiffStat(
        files=len(changes.files),
        added=sum(file.added for file in changes.files),
        deleted=sum(file.deleted for file in changes.files),
        commits=len(changes.commits),
    )


WAKING: Final = frozenset({"workflow.stopped"})
LEAVING_SECONDS: Final = 0.5
"""Interval of checks whether the last worker of a run has exited."""
RETRY_SECONDS: Final = 30.0


class WorktreeSweep(msgspec.Struct, eq=False, kw_only=True):
    """Removes the working trees of ended runs without unsaved work, and keeps the others; one task.

    Nothing is forced, and trees in use are skipped. A kept tree is checked again by the next kernel, because its work
    may have been merged, pushed or discarded. ``works_in`` returns whether an attempt of a run is still running.
    """

    repository: Repository
    trees: Worktrees
    log: StoreLog
    wake: Wake
    works_in: Callable[[int], bool]
    _looked_at: set[tuple[int, str]] = set()
    """Trees that this kernel has decided to keep."""
    _turn: trio.Lock = msgspec.field(default_factory=trio.Lock)

    async def run(self) -> None:
        """Sweep until cancelled. Raises StorageFailed."""
        await reconcile(self.wake, self.run_once)

    async def run_once(self) -> float:
        """Decide about all trees of ended runs, and return the seconds until the next round."""
        nap = float("inf")
        for tree in self.log.reader.now(worktrees.of_ended):
            if tree.state == "kept" and (tree.run, tree.agent) in self._looked_at:
                continue
            if self.works_in(tree.run):
                nap = min(nap, LEAVING_SECONDS)
                continue
            try:
                await self._decide(tree)
            except (Refused, SpawnTransient) as error:
                logger.warning("worktree.later %s: %s", tree.path, error)
                nap = min(nap, RETRY_SECONDS)
        return nap

    async def remove(
        self, trees: Iterable[Worktree], *, force: bool
    ) -> tuple[tuple[Worktree, ...], tuple[Worktree, ...]]:
        """Remove the ``trees`` without unsaved work, or all with ``force``.

        Returns the removed trees, and the kept ones with the reason, such as a running agent. Raises StorageFailed.
        """
        gone: list[Worktree] = []
        kept: list[Worktree] = []
        for tree in trees:
            why: str | None = "an agent still works there"
            if not self.works_in(tree.run):
                try:
                    why = await self._decide(tree, force=force)
                except (Refused, SpawnTransient) as error:
                    why = str(error)
            if why is None:
                gone.append(tree)
            else:
                kept.append(msgspec.structs.replace(tree, why=why))
        return tuple(gone), tuple(kept)

    async def kept_because(self, tree: Worktree) -> str:
        """Return why ``tree`` of an ended run would be kept, or "". Has no side effects."""
        if self.works_in(tree.run):
            return "an agent still works there"
        if self.trees.goes_on(tree):
            return "its run is still running"
        try:
            box = self.trees.box(tree)
            if not await trio.Path(tree.path).exists() or tree.state == "planned":
                return self._left_in_clone(tree, box)
            return await self.repository.losses(tree, box=box) or ""
        except (Refused, SpawnTransient) as error:
            return str(error)

    @staticmethod
    def _left_in_clone(tree: Worktree, box: Sandbox | None) -> str:
        if box is not None and tree.state in ("made", "kept"):
            return f"its folder is missing, and its last commits may be in {clone_of(tree)}"
        return ""

    async def _decide(self, tree: Worktree, *, force: bool = False) -> str | None:
        """Remove or keep ``tree``, store the decision, and return why it is kept. Raises Refused, SpawnTransient."""
        async with self._turn, self.trees.only_user(tree):
            now = self.log.reader.now(worktrees.of, tree.run, tree.agent)
            if now is None or now.state == "gone":
                return None  # removed concurrently
            if self.trees.goes_on(now):
                return "its run is still running"
            self.trees.forget(now)
            why = await self._remove(now, force=force)
            if why is None:
                await self.log.writer.commit(worktree_gone, now)
            else:
                await self.log.writer.commit(worktree_kept, now, why)
                self._looked_at.add((now.run, now.agent))
            return why

    async def _remove(self, tree: Worktree, *, force: bool) -> str | None:
        """Remove ``tree``, or return why it is kept. Raises Refused (busy, or of the store), SpawnTransient."""
        try:
            box = None if force else self.trees.box(tree)
            if await trio.Path(tree.path).exists() and tree.state != "planned":
                if tree.state == "made":
                    await self.trees.teardown(tree)
                why = None if force else await self.repository.losses(tree, box=box)
                if why is not None:
                    return why
            elif lost := self._left_in_clone(tree, box):
                return lost
            if not await self.log.writer.commit(worktree_going, tree):
                return "its run is still running"
            await self.repository.remove(tree, box=box, force=force)
        except Refused as refused:
            if refused.code != "setup_failed":
                raise
            return refused.text
        return None
