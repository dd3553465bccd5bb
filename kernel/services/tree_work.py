"""Operations on agents' working trees: commit at the end of an instruction, follow, inspect, merge and reset.

The log follows git: the new commit of a branch is stored after git has it, and is read from git after an interruption.
"""

import itertools
import logging
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from kernel.agents.providers import CauseError
from kernel.fault_injection import fault_point
from kernel.git.branches import Branches, BranchStatus, TakeMode, Tip
from kernel.git.node_sync import NodeSync
from kernel.policy.landing import tightest
from kernel.procs.launcher import Launcher
from kernel.procs.spec import SpawnTransient
from kernel.services.completion import commit_with_retry, log_line
from kernel.services.logins import Logins
from kernel.services.preparation import Preparation, PreparedAttempt
from kernel.services.working_directory import Confinement
from kernel.services.worktrees import Worktrees
from kernel.store.attempts import Identity
from kernel.store.database import Reader
from kernel.store.transitions import worktrees
from kernel.store.transitions.lease import Leased
from kernel.store.transitions.worktrees import Worktree, worktree_moved
from kernel.store.workflows import WorkflowRecord
from kernel.store.writer import Writer
from kernel.workflows.setup import CheckOutcome, CheckRun, run_check
from protocol.agent import AgentLimits
from protocol.backends import BACKENDS
from protocol.errors import Refused
from protocol.ipc import Sandbox, Start
from protocol.names import base_space, run_id, split_space

logger = logging.getLogger(__name__)

_BUSY: Final = "retry"


class TreePlace(NamedTuple):
    """Working tree of an agent, and the trees of its colleagues."""

    tree: Worktree
    colleagues: tuple[Worktree, ...]


class Away(NamedTuple):
    """Clone of an agent on a node, and how its commands run there."""

    sync: NodeSync
    launcher: Launcher
    cwd: str
    env: Mapping[str, str]
    box: Sandbox | None


class TreeWork(msgspec.Struct, eq=False, kw_only=True):
    """Operations on the trees of one project."""

    trees: Worktrees
    branches: Branches
    reader: Reader
    writer: Writer
    away: dict[str, Away] = {}
    """Agents that currently run on nodes, by instruction."""

    def follows(self, leased: Leased) -> bool:
        """Return whether the tree of ``leased`` has to move to a colleague's commit before the instruction starts."""
        begins = leased.run is not None and leased.entries == 0 and leased.continues is None
        tree = self.reader.now(worktrees.of, leased.run, leased.agent) if begins else None
        return tree is not None and bool(tree.follows) and tree.state == "made"

    async def follow(self, leased: Leased) -> None:
        """Move the tree to the last commit of the colleague it follows, or note why not. Raises SpawnTransient."""
        tree = self.reader.now(worktrees.of, leased.run, leased.agent)
        assert tree is not None, leased
        trees = self.reader.now(worktrees.of_run, tree.run)
        source = next((one for one in trees if one.name == tree.follows), None)
        if source is None:
            return
        tip, note = Tip(tree.head, tree.ahead), ""
        await self.trees.unlock(tree)
        try:
            tip = await self.branches.follow(tree, self.trees.box(tree), source)
        except Refused as refused:
            note = refused.text
        fault_point("tree.followed")
        await self._moved(tree, tip, leased.instruction, note)

    async def finish(self, leased: Leased, *, everything: bool = False) -> None:
        """Commit the changes in the agent's tree if its workflow requires that. Log failures.

        ``everything``: commit regardless of the workflow, because the agent moves to another machine.
        """
        tree = None if leased.run is None else self.reader.now(worktrees.of, leased.run, leased.agent)
        if tree is None or tree.state != "made":
            return
        message = f"{leased.name}: work of {leased.instruction} ({run_id(tree.run)})"
        try:
            tip = await self.branches.commit(
                tree, self.trees.box(tree), message, leased.name, nothing=tree.commits == "manual" and not everything
            )
            fault_point("tree.committed")
            await self._moved(tree, tip, leased.instruction, tree.note, patiently=True)
        except (Refused, SpawnTransient, OSError) as error:
            text = f"changes in the working tree could not be committed: {error}"
            logger.warning("worktree.uncommitted %s: %s", tree.path, error)
            await log_line(self.writer, leased, "warning", text[:2000])

    def place(self, identity: Identity) -> TreePlace:
        """Return the caller's tree and those of its colleagues. Raises Refused without a tree."""
        trees = self.reader.now(worktrees.in_space, identity.space)
        own = next((tree for tree in trees if tree.agent in (identity.agent, "") and tree.state == "made"), None)
        if own is None:
            text = "working tree not found: you work in the project itself"
            raise Refused("not_found", text, "working trees require workspace: {git: worktree} in the workflow file")
        return TreePlace(own, tuple(tree for tree in trees if tree is not own))

    async def standing(self, identity: Identity) -> tuple[Worktree, BranchStatus]:
        """Return the working tree of the caller and the current status of its branch. Raises Refused."""
        place = self.place(identity)
        try:
            if (away := self.away.get(identity.instruction)) is not None:
                await away.sync.collect(live=True)
            return place.tree, await self.branches.standing(place.tree, self.trees.box(place.tree), place.colleagues)
        except SpawnTransient as error:
            raise Refused("busy", f"git could not be started: {error}", _BUSY) from error

    async def commit(self, identity: Identity, message: str) -> tuple[Worktree, Tip]:
        """Commit all changes in the caller's tree. Return the tree and the new tip of its branch. Raises Refused."""
        tree = self.place(identity).tree
        try:
            if (away := self.away.get(identity.instruction)) is not None:
                await away.sync.collect(message, live=True)
            tip = await self.branches.commit(tree, self.trees.box(tree), message, identity.name)
        except SpawnTransient as error:
            raise Refused("busy", f"git could not be started: {error}", _BUSY) from error
        await self._moved(tree, tip, identity.instruction, tree.note)
        return tree, tip if away is None else msgspec.structs.replace(tip, made=tip.commit != tree.head)

    async def take(self, identity: Identity, source: str, mode: TakeMode) -> tuple[Worktree, Tip]:
        """Merge the branch of ``source`` into the caller's branch, or reset the caller's branch.

        Return the caller's tree and the new tip of its branch. Raises Refused.
        """
        place = self.place(identity)
        found = next((tree for tree in place.colleagues if tree.name == source.removeprefix("@")), None)
        if found is None:
            names = ", ".join(tree.name for tree in place.colleagues) or "none"
            raise Refused(
                "not_found", f"agent {source[:60]!r} has no working tree here", f"agents with a working tree: {names}"
            )
        message = f"{identity.name}: {mode} of {found.branch} ({identity.instruction}, {run_id(place.tree.run)})"
        try:
            if (away := self.away.get(identity.instruction)) is not None:
                await away.sync.collect(live=True)
            box = self.trees.box(place.tree)
            tip = await self.branches.take(place.tree, box, found, mode, message, identity.name)
            if away is not None:
                await away.sync.bring(live=True)
        except SpawnTransient as error:
            raise Refused("busy", f"git could not be started: {error}", _BUSY) from error
        fault_point("tree.taken")
        await self._moved(place.tree, tip, identity.instruction, "")
        return place.tree, tip

    async def seen(self, identity: Identity) -> str:
        """Return a description of the commit that the caller sees, for readers of its vote; "" without a tree."""
        try:
            tree, standing = await self.standing(identity)
        except Refused:
            return ""
        changed = f" with {len(standing.changed)} files changed since" if standing.changed else ""
        return f"commit {standing.tip.commit[:12]} of {tree.branch}{changed}"

    async def _moved(self, tree: Worktree, tip: Tip, instruction: str, note: str, *, patiently: bool = False) -> None:
        """Store the commit of ``tree``; ``patiently``: retry while the store is unavailable. Raises Refused."""
        if (tip.commit, tip.ahead, note) != (tree.head, tree.ahead, tree.note):
            write = partial(
                worktree_moved, tree=tree, tip=tip.commit, ahead=tip.ahead, note=note, instruction=instruction
            )
            await (commit_with_retry(self.writer, write) if patiently else self.writer.commit(write))


_NOBODY: Final[Mapping[str, Away]] = {}
_numbers: Final = itertools.count(1)
"""Numbers of check directories, which are unique per kernel; each kernel removes older ones."""


class WorkChecks(msgspec.Struct, eq=False, kw_only=True):
    """Runs check commands where the checked agent works. ``away``: agents on nodes."""

    root: Path
    trees: Worktrees
    reader: Reader
    confinement: Confinement
    hidden: tuple[str, ...]
    launcher: Launcher
    env: Mapping[str, str]
    away: Mapping[str, Away] = _NOBODY

    async def check(
        self, identity: Identity, command: str, limits: AgentLimits, *, task: str, confined: bool
    ) -> CheckOutcome:
        """Run ``command`` on the work of the caller, within its limits. Raises Refused. Cancellation kills its tree.

        ``confined``: run in a sandbox, because the author of the work or the command has ``sandbox: on``.
        """
        found = self.reader.now(worktrees.in_space, identity.space)
        tree = next((one for one in found if one.agent in (identity.agent, "") and one.state == "made"), None)
        cwd, top = (str(self.root), str(self.root)) if tree is None else (tree.cwd, tree.path)
        workflow, tag = split_space(base_space(identity.space))
        env = {"AGENT_NAME": identity.name, "AGENT_TASK": task, "AGENT_WORKFLOW": workflow, "AGENT_TAG": tag}
        if (away := self.away.get(identity.instruction)) is not None:
            if confined and away.box is None:
                text = "check requires a sandbox, but the agent runs on a node without one"
                raise Refused("setup_failed", text, "set sandbox: on for the agent")
            given = {**away.env, **env, "AGENT_PROJECT": away.cwd}
            run = CheckRun(away.launcher, f"check-of-work-{next(_numbers)}", given, tightest([limits]))
            try:
                return await run_check(run, command, away.cwd, away.box)
            except SpawnTransient as error:
                raise Refused("busy", f"check could not be started: {error}", _BUSY) from error
        box = None if tree is None else self.trees.box(tree)
        return await self._checked(command, cwd, env, [limits], box, top if confined else None)

    async def check_run(
        self, record: WorkflowRecord, command: str, limits: Iterable[AgentLimits], *, confined: bool
    ) -> CheckOutcome:
        """Run ``command`` in the project on the work of a run, within the tightest limits of its agents.

        Raises Refused. Cancellation kills its tree.
        """
        env = {"AGENT_RUN": run_id(record.id), "AGENT_WORKFLOW": record.name, "AGENT_TAG": record.tag}
        top = str(self.root)
        return await self._checked(command, top, env, limits, None, top if confined else None)

    async def _checked(
        self,
        command: str,
        cwd: str,
        env: Mapping[str, str],
        limits: Iterable[AgentLimits],
        box: Sandbox | None,
        confined_to: str | None,
    ) -> CheckOutcome:
        name = f"check-of-work-{next(_numbers)}"
        run = CheckRun(self.launcher, name, {**self.env, **env, "AGENT_PROJECT": str(self.root)}, tightest(limits))
        try:
            if box is None and confined_to is not None:
                box = self.confinement.of_check(confined_to, self.hidden)
            if box is None:
                return await run_check(run, command, cwd, None)
            await self.confinement.ready(name, box)
            try:
                return await run_check(run, command, cwd, box)
            finally:
                self.confinement.release(name)
        except CauseError as error:
            raise Refused("setup_failed", error.text) from error
        except SpawnTransient as error:
            raise Refused("busy", f"check could not be started: {error}", _BUSY) from error


class AttemptPreparation(Preparation, kw_only=True):
    """Prepares an attempt's working tree, sandbox and login."""

    trees: Worktrees
    work: TreeWork
    confinement: Confinement
    logins: Logins

    def follows(self, leased: Leased) -> bool:
        """Return whether the agent's tree has to move to a colleague's commit before its prompt is built."""
        return self.work.follows(leased)

    async def follow(self, leased: Leased) -> None:
        """Move the tree to the colleague's commit, or note why not. Raises SpawnTransient."""
        await self.work.follow(leased)

    async def prepare(self, leased: Leased, start: Start) -> None:
        """Check that a confined agent can be confined, create its working tree, and lend it its login.

        Raises CauseError, SpawnTransient.
        """
        if start.sandbox is not None:
            await self.confinement.ready(leased.attempt, start.sandbox)
        if await self.trees.ready(leased, confined=start.sandbox is not None) and self.work.follows(leased):
            await self.work.follow(leased)
        if start.login and BACKENDS[start.backend].login is not None:
            await self.logins.lend(leased, start)

    async def finish(self, leased: Leased) -> None:
        """Commit the changes in its tree."""
        await self.work.finish(leased)

    def release(self, leased: Leased) -> None:
        """Remove the placeholders that only this attempt needed, and take its login back."""
        self.logins.give_back(leased.attempt)
        self.confinement.release(leased.attempt)

    def export(self, leased: Leased) -> PreparedAttempt:
        """Return its placeholders and its login."""
        placeholders = self.confinement.placeholders.held_by(leased.attempt)
        return PreparedAttempt(placeholders=placeholders, login=self.logins.export(leased.attempt))

    def let_go(self, leased: Leased) -> None:
        """Release the attempt without cleanup, which the next kernel process does."""
        self.logins.let_go(leased.attempt)
        self.confinement.placeholders.let_go(leased.attempt)

    def adopt(self, leased: Leased, prepared: PreparedAttempt) -> None:
        """Register what the previous kernel process prepared."""
        if prepared.placeholders:
            self.confinement.placeholders.hold(leased.attempt, prepared.placeholders)
        if prepared.login is not None:
            self.logins.adopt(leased.attempt, prepared.login)
