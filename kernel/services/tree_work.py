"""Work of agents' trees with each other: committed when an instruction ends, brought to a colleague's commit before one
begins, and looked at, merged or reset where an agent asks for it.

The log follows git: what a branch came to is written once git has it, and found out again where that was interrupted.
"""

import itertools
import logging
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
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

_BUSY: Final = "try again"


class TreePlace(NamedTuple):
    """An agent's tree, and those of its colleagues."""

    tree: Worktree
    colleagues: tuple[Worktree, ...]


class Away(NamedTuple):
    """The clone that an agent works in on another machine, and the way its commands are run there."""

    sync: NodeSync
    launcher: Launcher
    cwd: str
    env: Mapping[str, str]
    box: Sandbox | None


class TreeWork(msgspec.Struct, eq=False, kw_only=True):
    """The work on trees of one project."""

    trees: Worktrees
    branches: Branches
    reader: Reader
    writer: Writer
    away: dict[str, Away] = {}
    """By instruction: the agents that work on other machines now."""

    def follows(self, leased: Leased) -> bool:
        """Return whether the tree of ``leased`` is to be brought to a colleague's commit before it begins."""
        tree = self.reader.now(worktrees.of, leased.run, leased.agent)
        begins = leased.entries == 0 and leased.continues is None
        return begins and tree is not None and bool(tree.follows) and tree.state == "made"

    async def follow(self, leased: Leased) -> None:
        """Bring the tree to the last commit of whom it follows, or note why it stays. Raises SpawnTransient."""
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
        """Commit what the agent leaves in its tree, where its workflow wants that. Never fails the work itself.

        ``everything``: whatever it wants, for the agent works elsewhere next.
        """
        tree = self.reader.now(worktrees.of, leased.run, leased.agent)
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
            text = f"what is in its working tree is not committed: {error}"
            logger.warning("worktree.uncommitted %s: %s", tree.path, error)
            await log_line(self.writer, leased, "warning", text[:2000])

    def place(self, identity: Identity) -> TreePlace:
        """The tree that the author of a call works in. Raises Refused where there is none."""
        trees = self.reader.now(worktrees.in_space, identity.space)
        own = next((tree for tree in trees if tree.agent in (identity.agent, "") and tree.state == "made"), None)
        if own is None:
            text = "you have no working tree: you work in the project itself"
            raise Refused("not_found", text, "trees are there where a workflow says workspace: {git: worktree}")
        return TreePlace(own, tuple(tree for tree in trees if tree is not own))

    async def standing(self, identity: Identity) -> tuple[Worktree, BranchStatus]:
        """Return the tree of the caller as it is now. Raises Refused."""
        place = self.place(identity)
        try:
            if (away := self.away.get(identity.instruction)) is not None:
                await away.sync.collect(live=True)
            return place.tree, await self.branches.standing(place.tree, self.trees.box(place.tree), place.colleagues)
        except SpawnTransient as error:
            raise Refused("busy", f"git could not be started now: {error}", _BUSY) from error

    async def commit(self, identity: Identity, message: str) -> tuple[Worktree, Tip]:
        """Commit all that is not committed in the tree of the caller. Raises Refused."""
        tree = self.place(identity).tree
        try:
            if (away := self.away.get(identity.instruction)) is not None:
                await away.sync.collect(message, live=True)
            tip = await self.branches.commit(tree, self.trees.box(tree), message, identity.name)
        except SpawnTransient as error:
            raise Refused("busy", f"git could not be started now: {error}", _BUSY) from error
        await self._moved(tree, tip, identity.instruction, tree.note)
        return tree, tip if away is None else msgspec.structs.replace(tip, made=tip.commit != tree.head)

    async def take(self, identity: Identity, source: str, mode: TakeMode) -> tuple[Worktree, Tip]:
        """Merge a colleague's branch into the caller's, or reset it to that. Raises Refused."""
        place = self.place(identity)
        found = next((tree for tree in place.colleagues if tree.name == source.removeprefix("@")), None)
        if found is None:
            names = ", ".join(tree.name for tree in place.colleagues) or "nobody else"
            raise Refused("not_found", f"{source[:60]!r} has no working tree here", f"there is one of {names}")
        message = f"{identity.name}: {mode} of {found.branch} ({identity.instruction}, {run_id(place.tree.run)})"
        try:
            if (away := self.away.get(identity.instruction)) is not None:
                await away.sync.collect(live=True)
            box = self.trees.box(place.tree)
            tip = await self.branches.take(place.tree, box, found, mode, message, identity.name)
            if away is not None:
                await away.sync.bring(live=True)
        except SpawnTransient as error:
            raise Refused("busy", f"git could not be started now: {error}", _BUSY) from error
        fault_point("tree.taken")
        await self._moved(place.tree, tip, identity.instruction, "")
        return place.tree, tip

    async def seen(self, identity: Identity) -> str:
        """The commit that the caller sees, in words, for whoever reads its vote; "" where it has no tree."""
        try:
            tree, standing = await self.standing(identity)
        except Refused:
            return ""
        changed = f" with {len(standing.changed)} files changed since" if standing.changed else ""
        return f"commit {standing.tip.commit[:12]} of {tree.branch}{changed}"

    async def _moved(self, tree: Worktree, tip: Tip, instruction: str, note: str, *, patiently: bool = False) -> None:
        """Write where ``tree`` is now; ``patiently``: however long the store cannot take it. Raises Refused."""
        if (tip.commit, tip.ahead, note) != (tree.head, tree.ahead, tree.note):
            write = partial(
                worktree_moved, tree=tree, tip=tip.commit, ahead=tip.ahead, note=note, instruction=instruction
            )
            await (commit_with_retry(self.writer, write) if patiently else self.writer.commit(write))


_NOBODY: Final[Mapping[str, Away]] = MappingProxyType({})
_numbers: Final = itertools.count(1)
"""Directories of checks are distinct for the life of a kernel, which sweeps older ones."""


class WorkChecks(msgspec.Struct, eq=False, kw_only=True):
    """Runs the commands that check what agents did, where each of them works.

    ``away``: the agents that work on other machines now, by instruction.
    """

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
        """Run ``command`` over the work of the caller, within its limits. Raises Refused. Cancellation kills its tree.

        ``confined``: as the programs of an agent with ``sandbox: on``, whose the work or the command is.
        """
        found = self.reader.now(worktrees.in_space, identity.space)
        tree = next((one for one in found if one.agent in (identity.agent, "") and one.state == "made"), None)
        cwd, top = (str(self.root), str(self.root)) if tree is None else (tree.cwd, tree.path)
        workflow, tag = split_space(base_space(identity.space))
        env = {"AGENT_NAME": identity.name, "AGENT_TASK": task, "AGENT_WORKFLOW": workflow, "AGENT_TAG": tag}
        if (away := self.away.get(identity.instruction)) is not None:
            if confined and away.box is None:
                text = "a check that is to be confined is not run for an agent that is not, on another machine"
                raise Refused("setup_failed", text, "write sandbox: on for it")
            given = {**away.env, **env, "AGENT_PROJECT": away.cwd}
            run = CheckRun(away.launcher, f"check-of-work-{next(_numbers)}", given, tightest([limits]))
            try:
                return await run_check(run, command, away.cwd, away.box)
            except SpawnTransient as error:
                raise Refused("busy", f"the check could not be started now: {error}", _BUSY) from error
        box = None if tree is None else self.trees.box(tree)
        return await self._checked(command, cwd, env, [limits], box, top if confined else None)

    async def check_run(
        self, record: WorkflowRecord, command: str, limits: Iterable[AgentLimits], *, confined: bool
    ) -> CheckOutcome:
        """Run ``command`` in the project over what the agents of a run did there, within the least of their limits.

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
        """Run it in ``box``; without one, where it is to be confined, in one that shows ``confined_to``."""
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
            raise Refused("busy", f"the check could not be started now: {error}", _BUSY) from error


class AttemptPreparation(Preparation, kw_only=True):
    """Makes an attempt's working tree, its confinement and its login ready."""

    trees: Worktrees
    work: TreeWork
    confinement: Confinement
    logins: Logins

    def follows(self, leased: Leased) -> bool:
        """Return whether its tree has to be brought to a colleague's commit before its prompt is made."""
        return self.work.follows(leased)

    async def follow(self, leased: Leased) -> None:
        """Bring it there, or note why not. Raises SpawnTransient."""
        await self.work.follow(leased)

    async def prepare(self, leased: Leased, start: Start) -> None:
        """Check that a confined agent can be confined, make its working tree, and lend it the login it works with.

        Raises CauseError, SpawnTransient.
        """
        if start.sandbox is not None:
            await self.confinement.ready(leased.attempt, start.sandbox)
        if await self.trees.ready(leased, confined=start.sandbox is not None) and self.work.follows(leased):
            await self.work.follow(leased)
        if start.login and BACKENDS[start.backend].login is not None:
            await self.logins.lend(leased, start)

    async def finish(self, leased: Leased) -> None:
        """Commit what it leaves in its tree."""
        await self.work.finish(leased)

    def release(self, leased: Leased) -> None:
        """Remove the placeholders that only this attempt needed, and bring its login home."""
        self.logins.give_back(leased.attempt)
        self.confinement.release(leased.attempt)

    def export(self, leased: Leased) -> PreparedAttempt:
        """Return the placeholders and the login that it has."""
        placeholders = self.confinement.placeholders.held_by(leased.attempt)
        return PreparedAttempt(placeholders=placeholders, login=self.logins.export(leased.attempt))

    def let_go(self, leased: Leased) -> None:
        """Take nothing down: the next program of the kernel does."""
        self.logins.let_go(leased.attempt)
        self.confinement.placeholders.let_go(leased.attempt)

    def adopt(self, leased: Leased, prepared: PreparedAttempt) -> None:
        """Know what an earlier program of this kernel has made ready."""
        if prepared.placeholders:
            self.confinement.placeholders.hold(leased.attempt, prepared.placeholders)
        if prepared.login is not None:
            self.logins.adopt(leased.attempt, prepared.login)
