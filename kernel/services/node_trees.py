"""Files of attempts on nodes: the agent's branch is sent before an attempt, and its work is fetched afterwards.

The kernel and its nodes share no file system: commits travel as packs, through git on the node. Uncommitted files stay
in the clone. If a node dies, work that was not fetched is missing; the next attempt starts from the last fetched
state. Work left on the node is fetched, or set aside, when an agent works there again.
"""

import hashlib
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import trio

from kernel.agents.providers import CauseError
from kernel.git.branches import BareBranch, HomeBranch, TreeBranch, clone_base
from kernel.git.node_sync import TREES, NodeClone, NodeGit, NodeSync
from kernel.git.repository import Repository
from kernel.git.tree_commits import WritableTree
from kernel.git.view import GitView
from kernel.procs.handle import CannotHandOver
from kernel.procs.launcher import Launcher
from kernel.procs.spec import SpawnTransient
from kernel.services.completion import log_line
from kernel.services.node_files import NodeFiles, NodePlace, private_bytes, relocate, skill_folders
from kernel.services.nodes import Nodes
from kernel.services.preparation import NotHome, Preparation, PreparedAttempt
from kernel.services.tree_work import Away, TreeWork
from kernel.services.working_directory import folder_name
from kernel.services.worktrees import Worktrees
from kernel.store import workflows
from kernel.store.database import Reader
from kernel.store.transitions import worktrees
from kernel.store.transitions.lease import Leased
from kernel.store.transitions.worktrees import Worktree
from kernel.store.writer import Writer
from kernel.workflows.setup import WorktreeSetup, run_steps
from protocol.agent import AgentDefinition
from protocol.backends import BACKENDS
from protocol.discovery import RUN, SESSIONS
from protocol.errors import Refused
from protocol.ipc import NULL, Sandbox, Start
from protocol.names import AGENT_BRANCHES, run_id
from protocol.node import NodeFacts

logger = logging.getLogger(__name__)

LENT: Final = "lent"
"""Folder of files sent for single attempts, in the state folder of a node."""
_LOG_LETTERS: Final = 2000


class NodeTrees(msgspec.Struct, frozen=True, kw_only=True):
    """Components of a kernel shared by the files of all nodes."""

    root: Path
    repository: Repository
    trees: Worktrees
    work: TreeWork
    reader: Reader
    writer: Writer


class _Prepared(msgspec.Struct, frozen=True):
    """Attempt prepared on the node; ``tops`` maps folders of this machine to folders there."""

    sync: NodeSync
    place: NodePlace
    tops: Mapping[str, str]
    files: NodeFiles


class NodePreparation(Preparation):
    """Prepares an attempt's clone on one node, and fetches its work.

    ``facts`` returns the facts of the node's current session; None: the node is not connected.
    """

    parts: NodeTrees
    name: str
    launcher: Launcher
    facts: Callable[[], NodeFacts | None]
    _prepared: dict[str, _Prepared] = {}

    def follows(self, leased: Leased) -> bool:
        """Return whether the agent's tree has to move to a colleague's commit before its prompt is built."""
        return self.parts.work.follows(leased)

    async def follow(self, leased: Leased) -> None:
        """Move the local tree, not the clone, to the colleague's commit, or log why not."""
        await self.parts.work.follow(leased)

    async def prepare(self, leased: Leased, start: Start) -> None:
        """Prepare the attempt on the node; ``start`` has local paths. Raises CauseError, SpawnTransient."""
        facts = self.facts()
        if facts is None:
            raise SpawnTransient(f"node {self.name} is not connected")
        try:
            await self._prepare(leased, start, NodeGit(self.launcher, facts))
        except Refused as refused:
            if refused.code == "busy":
                raise SpawnTransient(refused.text) from refused
            hint = f" ({refused.hint})" if refused.hint else ""
            raise CauseError("spawn_permanent", f"node {self.name}: {refused.text}{hint}") from refused

    def relocate(self, start: Start, definition: AgentDefinition) -> Start:
        """Return ``start`` with the paths of the node; the attempt has to be prepared."""
        ready = self._prepared[start.attempt]
        return relocate(start, definition, ready.place, ready.tops)

    async def finish(self, leased: Leased) -> None:
        """Fetch the agent's work from the node. Raises NotHome if it stays there, SpawnTransient for a lost node."""
        await self._take_home(leased, live=True)

    async def abandon(self, leased: Leased) -> None:
        """Fetch the agent's work from the node, if the node is connected."""
        with suppress(SpawnTransient, NotHome):
            await self._take_home(leased)

    def release(self, leased: Leased) -> None:
        """Discard the attempt's state; the clone on the node remains."""
        if self._prepared.pop(leased.attempt, None) is not None:
            self.parts.work.away.pop(leased.instruction, None)

    def export(self, leased: Leased) -> PreparedAttempt:
        """Raise CannotHandOver, because the session with the node ends with this process."""
        raise CannotHandOver(f"{leased.attempt} runs on node {self.name}")

    async def _prepare(self, leased: Leased, start: Start, git: NodeGit) -> None:
        facts = git.facts
        # resources of this machine are not available there
        if start.login and BACKENDS[start.backend].login is not None:
            text = "login: true is not available on nodes: the login stays on this machine"
            raise Refused(
                "setup_failed", text, "give the agent a key (env:), or remove needs.labels to run it on this machine"
            )
        if bytes(start.hooks) != bytes(NULL):
            text = "cli.hooks are not available on nodes: they are commands of this machine"
            raise Refused("setup_failed", text, "remove them, or remove needs.labels to run the agent on this machine")
        home, folder = await self._home(leased, confined=start.sandbox is not None)
        place, top = f"{facts.state_dir}/{TREES}/{folder}", f"{facts.state_dir}/{TREES}/{folder}/tree"
        files = NodeFiles(git, f"{facts.state_dir}/{LENT}/{leased.attempt}")
        box = None
        if start.sandbox is not None:
            box = private_box(await files.bubblewrap(), top, facts)
            await files.check_sandbox(msgspec.structs.replace(box, writable=()))
        clone = NodeClone(git, place, WritableTree(home.tree, GitView(f"{top}/.git", top, box)))
        message = f"{leased.name}: work of {leased.instruction}"
        if leased.run is not None:
            message += f" ({run_id(leased.run)})"
        sync = NodeSync(home, clone, node=self.name, agent=leased.name, message=message)
        for note in (await sync.bring()).notes:
            await log_line(self.parts.writer, leased, "warning", note[:_LOG_LETTERS])
        cwd = f"{top}/{home.tree.folder}".rstrip("/")
        await self._set_up(home.tree, clone, cwd, box)
        if start.command and start.pinned:
            await files.check_trusted(start.pinned, cwd)
        session = ""
        if start.session_dir:
            session = f"{facts.state_dir}/{SESSIONS}/{folder_name(leased.agent)}/{folder_name(leased.space)}"
            session = await files.make_folder(f"{session}/{start.backend}")
        await files.send(start.skills, skill_folders(start, files.folder, session))
        project = str(await trio.Path(self.parts.root).resolve())
        there = NodePlace(
            facts=facts,
            tree=top,
            cwd=cwd,
            attempt_dir=f"{facts.state_dir}/{RUN}/{leased.attempt}",
            session_dir=session,
            files=files.folder,
            program=await files.program(start, project),
            bubblewrap="" if box is None else box.program,
        )
        tops = {project: cwd, str(self.parts.root): cwd, **({home.tree.path: top} if home.tree.path else {})}
        self._prepared[leased.attempt] = _Prepared(sync, there, tops, files)
        if home.tree.path:
            env = {**git.environment, "LC_ALL": "C.UTF-8"}
            self.parts.work.away[leased.instruction] = Away(sync, self.launcher, cwd, env, box)

    async def _home(self, leased: Leased, *, confined: bool) -> tuple[HomeBranch, str]:
        """Return the agent's branch with its local tree, and the relative folder of its clone."""
        parts = self.parts
        tree = parts.reader.now(worktrees.of, leased.run, leased.agent)
        if tree is None:
            base = await clone_base(parts.repository)
            record = None if leased.run is None else parts.reader.now(workflows.by_id, leased.run)
            if record is None:
                folder = f"spaces/{folder_name(leased.space)}/{folder_name(leased.agent)}"
                branch = f"{AGENT_BRANCHES}/node/{folder_name(leased.space)}/{leased.name}"
            else:
                folder = f"{run_id(record.id)}/{leased.name}"
                branch = f"{AGENT_BRANCHES}/{record.name}/{folder}"
            names = leased.name, base.repository, base.commit, branch, "", base.folder
            tree = Worktree(*names, 0, leased.agent, leased.space, "made")
            return BareBranch(parts.repository.git, tree), folder
        if tree.shared:
            text = "agents with a shared working tree (workspace.git: shared) must run on one machine"
            raise Refused("setup_failed", text, "use git: worktree")
        if await parts.trees.ready(leased, confined=confined, here=False) and parts.work.follows(leased):
            await parts.work.follow(leased)
        tree = parts.reader.now(worktrees.of, leased.run, leased.agent) or tree
        await parts.work.finish(leased, everything=True)  # collect work from an earlier attempt on this machine
        return TreeBranch(parts.repository, tree, parts.trees.box), f"{run_id(tree.run)}/{tree.name}"

    async def _set_up(self, tree: Worktree, clone: NodeClone, cwd: str, box: Sandbox | None) -> None:
        if not tree.run:
            return
        setup, steps = self.parts.trees.setup_of(tree, "setup")
        digest = hashlib.sha256(msgspec.json.encode(steps)).hexdigest()
        if not steps or (await clone.look()).ready == digest:
            return
        moved = msgspec.structs.replace(tree, path=clone.view.top)
        there = WorktreeSetup(moved, setup.definition, setup.tag, Path(cwd))
        env = {**clone.git.environment, "LC_ALL": "C.UTF-8"}
        await run_steps("setup", steps, there, launcher=self.launcher, env=env, sandbox=box)
        await clone.note_setup(digest)

    async def _take_home(self, leased: Leased, *, live: bool = False) -> None:
        """Fetch the work; ``live``: processes of the attempt may still run and hold a lock."""
        ready = self._prepared.pop(leased.attempt, None)
        if ready is None:
            return
        self.parts.work.away.pop(leased.instruction, None)
        refusal: NotHome | None = None
        try:
            try:
                await ready.sync.collect(live=live)
            except Refused as refused:
                if not live or ".lock" not in refused.text:
                    raise
                await ready.sync.collect()  # a git process was killed; the attempt has had its time to end
        except (Refused, OSError) as error:
            text = f"work on {self.name} could not be fetched and stays in {ready.place.tree} there: {error}"
            logger.warning("node.files %s", text)
            await log_line(self.parts.writer, leased, "warning", text[:_LOG_LETTERS])
            refusal = NotHome(text)
        with suppress(Refused, SpawnTransient):
            await ready.files.remove()
        await self.parts.work.finish(leased)
        if refusal is not None:
            raise refusal


def private_box(bubblewrap: str, top: str, facts: NodeFacts) -> Sandbox:
    """Return the sandbox of the kernel's git and of setup commands in the clone ``top`` of a confined agent."""
    hidden = (facts.state_dir,)
    return Sandbox(program=bubblewrap, writable=(top,), hidden=hidden, private_bytes=private_bytes(facts))


class FilesOnNodes(msgspec.Struct, eq=False):
    """Transfers the files of attempts to the nodes of a project, and back."""

    parts: NodeTrees
    nodes: Nodes
    _preparations: dict[str, NodePreparation] = {}

    def preparation(self, node: str, /) -> NodePreparation:
        """Return the preparation of attempts on ``node`` in its current session. Raises SpawnTransient."""
        launcher = self.nodes.launcher(node)
        found = self._preparations.get(node)
        if found is None or found.launcher is not launcher:
            facts = partial(self.nodes.facts, node)
            found = self._preparations[node] = NodePreparation(self.parts, name=node, launcher=launcher, facts=facts)
        return found

    def relocate(self, node: str, _leased: Leased, /) -> Callable[[Start, AgentDefinition], Start]:
        """Return the function that rewrites a start frame of a prepared attempt to the paths of ``node``."""
        return self.preparation(node).relocate
