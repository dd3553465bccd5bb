"""The working trees of agents while their runs live: made before an agent begins, measured as it goes, removed at last.

A tree is handed out once its row says ``made``: until then everything in it is ours, and a kernel that died over it
leaves nothing that the next one would not do again.
"""

import logging
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Literal

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
"""Between two measurements: what is done meanwhile is measured at once."""
MEASURED_AT_ONCE: Final = 4
BARE: Final = "awk-bare"
"""A file in the git directory of a tree whose setup was not run in it, for its agent works on a node."""
_workflow: Final = msgspec.json.Decoder(WorkflowDefinition)
_THERE: Final = frozenset({"made", "kept"})
_SHOWN: Mapping[State, Literal["planned", "made", "kept"]] = {"planned": "planned", "made": "made", "kept": "kept"}


class Worktrees(msgspec.Struct, eq=False, kw_only=True):
    """The working trees of one project. ``ready`` may be called for many agents at once."""

    root: Path
    repository: Repository
    log: StoreLog
    feed: Feed
    launcher: Launcher
    confine: Callable[[Worktree], Sandbox]
    """Makes the sandbox of all that is run over a confined agent's tree. Raises CauseError."""
    _turn: trio.Lock = msgspec.field(default_factory=trio.Lock)
    _making: defaultdict[str, trio.Lock] = msgspec.field(default_factory=lambda: defaultdict(trio.Lock))
    """By path."""
    _unlocked: set[str] = set()
    """Paths of those that this kernel has begun to use."""
    _stats: dict[tuple[str, str], DiffStat] = {}
    """By space and name; as it was after the last step that was measured."""
    _due: dict[tuple[str, str], bool] = {}
    """Those that are being measured, and whether they are to be again."""
    _measuring: trio.CapacityLimiter = msgspec.field(default_factory=lambda: trio.CapacityLimiter(MEASURED_AT_ONCE))

    def working_directory(self, leased: Leased) -> WorkingDirectory:
        """Return where the agent works. Raises CauseError where its tree was removed, or leads elsewhere."""
        tree = None if leased.run is None else self.log.reader.now(worktrees.of, leased.run, leased.agent)
        if tree is None:
            return WorkingDirectory(str(self.root), str(self.root))
        if tree.state == "gone" or (tree.state == "removing" and not self.goes_on(tree)):
            text = (
                f"the run has ended, and the working tree of {tree.name} was removed with it: start the workflow again"
            )
            raise CauseError("definition_missing", text)
        if os.path.realpath(tree.cwd) != tree.cwd:  # its agent can write what is above it in the tree
            text = f"the working directory of {tree.name} is a link now: {tree.cwd}"
            raise CauseError("spawn_permanent", f"{text} (look at it, and start the workflow again)")
        return WorkingDirectory(tree.cwd, tree.path, tree)

    async def ready(self, leased: Leased, *, confined: bool, here: bool = True) -> bool:
        """Make the agent's tree unless it is there. Returns whether it was made now. Raises CauseError, SpawnTransient.

        Its setup is run where its agent works: ``here``, or not.
        Cancellation leaves what the next try does away with.
        """
        tree = None if leased.run is None else self.log.reader.now(worktrees.of, leased.run, leased.agent)
        if tree is None:
            return False
        try:
            # Of one tree that all share, it is the first of them; one that is being removed is made anew after that.
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
                self._stats.setdefault((place_of(tree.space), tree.name), DiffStat())  # of a run that goes on again
            if confined != has_clone(tree):
                # Its agent's file says otherwise than when the tree was made.
                if not confined:
                    text = f"the working tree of {tree.name} was made for sandbox: on, and what is in it stays confined"
                    raise Refused("setup_failed", text, "write sandbox: on again, or start the workflow again")
                await self.repository.confine(tree)
        except (Refused, OSError) as refused:
            full = [place for place in (tree.repository, str(self.repository.place)) if not has_room(place)]
            if full:
                text = f"No space left on the disk of {full[0]}: the working tree of {tree.name} waits ({refused})"
                raise SpawnTransient(text) from refused
            if isinstance(refused, OSError):
                raise
            if refused.code == "busy":
                raise SpawnTransient(refused.text) from refused
            hint = f" ({refused.hint})" if refused.hint else ""
            raise CauseError("spawn_permanent", f"{refused.text}{hint}") from refused
        return False

    async def unlock(self, tree: Worktree) -> None:
        """Remove the locks that an earlier kernel left in ``tree``, before its first use here. Raises nothing."""
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
        """Return whether the run of ``tree`` has not ended, or goes on again."""
        record = self.log.reader.now(workflows.by_id, tree.run)
        return record is not None and record.state == "running"

    def only_user(self, tree: Worktree) -> trio.Lock:
        """The lock of whoever makes or removes ``tree``."""
        return self._making[tree.path]

    def box(self, tree: Worktree, *, gone: bool = False) -> Sandbox | None:
        """Return the sandbox of all that is run over ``tree``, if its agent has one. Raises Refused.

        ``gone``: also where nothing is left of the tree but what was done there.
        """
        try:
            return self.confine(tree) if has_clone(tree) or (gone and tree.confined) else None
        except CauseError as error:
            raise Refused("setup_failed", error.text) from error

    async def teardown(self, tree: Worktree) -> None:
        """Run what the workflow wants done in ``tree`` at its end. Raises Refused (setup_failed), SpawnTransient."""
        if await trio.Path(tree.git_dir, BARE).exists():
            return  # its agent worked elsewhere
        setup, steps = self.setup_of(tree, "teardown")
        await self._run_steps("teardown", steps, setup)

    def forget(self, tree: Worktree) -> None:
        """Forget the changes of a tree that is not worked in any more."""
        self._stats.pop((place_of(tree.space), tree.name), None)

    def stat(self, space: str | None, name: str) -> DiffStat | None:
        """Return the changes in the agent's tree, as far as they have been measured. Never waits."""
        return None if space is None else self._stats.get((space, name)) or self._stats.get((space, SHARED))

    async def report(self, run: int, name: str | None, *, patch: bool) -> tuple[WorktreeDiff, ...]:
        """Return the changes in the trees of ``run``, or in that of its agent ``name``, until now.

        Raises Refused where that of the one cannot be told; among several it is said of that one alone.
        """
        trees = (
            tree for tree in self.log.reader.now(worktrees.of_run, run) if tree.shared or name in (None, tree.name)
        )
        return tuple([await self._reported(tree, patch, name is not None) for tree in trees if tree.state in _SHOWN])

    async def _reported(self, tree: Worktree, patch: bool, alone: bool) -> WorktreeDiff:
        why, changes = tree.why, TreeChanges((), ())
        if tree.state != "planned" and await trio.Path(tree.path).exists():
            try:
                changes = await self.repository.changes(tree, box=self.box(tree), patch=patch)
            except Refused as refused:
                if alone:
                    raise
                why = f"its changes cannot be told: {refused.text}"
        return WorktreeDiff(
            agent=tree.name,
            state=_SHOWN[tree.state],
            branch=tree.branch,
            base=tree.base,
            path=tree.path,
            stat=stat_of(changes),
            files=tuple(DiffFile(path=one.path, added=one.added, deleted=one.deleted) for one in changes.files),
            commits=tuple(DiffCommit(id=commit, subject=subject) for commit, subject in changes.commits),
            patch=changes.patch,
            truncated=changes.truncated,
            kept_because=why or None,
        )

    async def run(self) -> None:
        """Measure trees after their agents' steps, until cancelled."""
        async with trio.open_nursery() as nursery:
            # Those of runs that another kernel began.
            running = self.log.reader.now(workflows.running)
            trees = (tree for record in running for tree in self.log.reader.now(worktrees.of_run, record.id))
            self._measure_soon(
                tuple((place_of(tree.space), tree.name) for tree in trees if tree.state == "made"), nursery
            )
            with self.feed.subscribe(wanted=self._is_of_a_tree) as events:
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

    def _is_of_a_tree(self, event: Event) -> bool:
        return event.type == "instruction.step" and bool(self._touched(event))

    async def _run_steps(self, what: str, steps: tuple[WorktreeStep, ...], setup: WorktreeSetup) -> None:
        box = self.box(setup.tree) if steps else None
        await run_steps(what, steps, setup, launcher=self.launcher, env=self.repository.git.environment, sandbox=box)

    def setup_of(self, tree: Worktree, what: str) -> tuple[WorktreeSetup, tuple[WorktreeStep, ...]]:
        """Return the setup of ``tree`` and its steps, as the workflow was when its run began."""
        source, record = self.log.reader.now(workflows.source, tree.run), self.log.reader.now(workflows.by_id, tree.run)
        assert source is not None, tree
        assert record is not None, tree
        definition = _workflow.decode(source.definition)
        steps: tuple[WorktreeStep, ...] = ()
        if isinstance(definition.workspace, Workspace):
            steps = definition.workspace.setup if what == "setup" else definition.workspace.teardown
        return WorktreeSetup(tree, definition, record.tag, self.root), steps


def stat_of(changes: TreeChanges) -> DiffStat:
    """Return ``changes`` as a few numbers."""
    return DiffStat(
        files=len(changes.files),
        added=sum(file.added for file in changes.files),
        deleted=sum(file.deleted for file in changes.files),
        commits=len(changes.commits),
    )


WAKING: Final = frozenset({"workflow.stopped"})
LEAVING_SECONDS: Final = 0.5
"""Between two looks whether the last worker of a run has left."""
RETRY_SECONDS: Final = 30.0


class WorktreeSweep(msgspec.Struct, eq=False, kw_only=True):
    """Removes the working trees of ended runs where nothing would be lost, and keeps the others. One task.

    Nothing is forced, and nothing is looked at while somebody still works there. A kept one is looked at again by the
    next kernel: until then its work may have been merged, pushed or thrown away. ``works_in`` tells that an attempt of
    a run is still under way.
    """

    repository: Repository
    trees: Worktrees
    log: StoreLog
    wake: Wake
    works_in: Callable[[int], bool]
    _looked_at: set[tuple[int, str]] = set()
    """Those that this kernel has decided to keep."""
    _turn: trio.Lock = msgspec.field(default_factory=trio.Lock)

    async def run(self) -> None:
        """Sweep until cancelled. Raises StorageFailed."""
        await reconcile(self.wake, self.run_once)

    async def run_once(self) -> float:
        """Decide about every tree whose run has ended. Returns the seconds until there may be more to decide."""
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
        """Remove those of ``trees`` with nothing to lose, now; with ``force`` whatever is in them.

        Returns which are gone, and which are kept with the reason: somebody may still work there. Raises StorageFailed.
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
        """The reason that ``tree`` of an ended run would stay now; "": nothing would be lost. Changes nothing."""
        if self.works_in(tree.run):
            return "an agent still works there"
        if self.trees.goes_on(tree):
            return "its run goes on"
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
            return f"its folder is gone, and what its agent committed last may be in {clone_of(tree)}"
        return ""

    async def _decide(self, tree: Worktree, *, force: bool = False) -> str | None:
        """Remove ``tree`` or keep it, and write which. Returns why it stays. Raises Refused, SpawnTransient."""
        async with self._turn, self.trees.only_user(tree):
            now = self.log.reader.now(worktrees.of, tree.run, tree.agent)
            if now is None or now.state == "gone":
                return None  # somebody else was first
            if self.trees.goes_on(now):
                return "its run goes on"
            self.trees.forget(now)
            why = await self._remove(now, force=force)
            if why is None:
                await self.log.writer.commit(worktree_gone, now)
            else:
                await self.log.writer.commit(worktree_kept, now, why)
                self._looked_at.add((now.run, now.agent))
            return why

    async def _remove(self, tree: Worktree, *, force: bool) -> str | None:
        """Remove ``tree``, or return why it stays. Raises Refused (busy, or of the store), SpawnTransient."""
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
                return "its run goes on"
            await self.repository.remove(tree, box=box, force=force)
        except Refused as refused:
            if refused.code != "setup_failed":
                raise
            return refused.text
        return None
