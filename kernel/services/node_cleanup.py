"""Removes the clones of ended runs from connected nodes, in one task.

Work that exists only in a clone is fetched first, under a separate ref. A clone that cannot be fetched stays on the
node and is reported.
"""

import logging
import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec
import trio

from kernel.agents.providers import CauseError
from kernel.git.branches import BareBranch
from kernel.git.node_sync import CONFINED, TREES, NodeClone, NodeGit, NodeSync
from kernel.git.tree_commits import WritableTree
from kernel.git.view import GitView
from kernel.procs.spec import SpawnTransient
from kernel.services.node_files import NodeFiles
from kernel.services.node_trees import LENT, NodeTrees, private_box
from kernel.services.nodes import Nodes
from kernel.services.timers import reconcile
from kernel.store import workflows
from kernel.store.feed import Wake
from kernel.store.transitions import worktrees
from kernel.store.transitions.worktrees import Worktree
from kernel.store.workflows import WorkflowRecord
from protocol.errors import Refused
from protocol.names import AGENT_BRANCHES, run_id

logger = logging.getLogger(__name__)

WAKING: Final = frozenset({"workflow.stopped"})
_CONNECTED: Final = frozenset({"up", "draining"})
AT_ONCE: Final = 50
"""Clones removed from one node before the next node's turn."""
RETRY_SECONDS: Final = 60.0
_LISTED: Final = re.compile(r"(r[1-9][0-9]{0,14})/([A-Za-z0-9_][A-Za-z0-9._@+-]{0,99})/( confined)?")
_LIST: Final = f"""
find "$1/{LENT}" -mindepth 1 -maxdepth 1 -mtime +7 -exec rm -rf {{}} + 2>/dev/null
cd "$1/{TREES}" 2>/dev/null || exit 0
for one in r*/*/; do
    test ! -d "${{one}}tree" || {{ printf %s "$one"; test ! -e "${{one}}{CONFINED}" || printf ' confined'; echo; }}
done | head -n 10000
"""


class Listed(NamedTuple):
    """Clone on a node: its run, its name, and whether its agent is confined."""

    run: int
    name: str
    confined: bool


def read_list(said: bytes) -> Iterator[Listed]:
    """Parse the clones in a node's answer, ignoring invalid lines."""
    for line in said.decode("utf-8", "replace").splitlines():
        found = _LISTED.fullmatch(line)
        if found is not None:
            yield Listed(int(found[1][1:]), found[2], found[3] is not None)


class NodeCleanup(msgspec.Struct, eq=False):
    """Cleans the nodes of a project; ``works_in`` returns whether an attempt of a run is still running."""

    parts: NodeTrees
    nodes: Nodes
    wake: Wake
    works_in: Callable[[int], bool]
    _stay: set[tuple[str, str]] = set()
    """Clones already handled, by node and place: removed, or reported as not removable.

    No agent works in an ended run, so a clone is handled only once unless the run was restarted.
    """

    async def run(self) -> None:
        """Clean whenever a run ends or a node connects, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            await reconcile(self.wake, self.run_once)

    async def _watch(self) -> None:
        known = frozenset[str]()
        while True:
            there = frozenset(node.name for node in self.nodes.states() if node.state in _CONNECTED)
            if there - known:
                self.wake.set()
            known = there
            await self.nodes.until_changed()

    async def run_once(self) -> float:
        """Clean each connected node, and return the seconds until the next round."""
        nap = float("inf")
        for node in self.nodes.states():
            if node.state not in _CONNECTED:
                continue
            try:
                if await self.clean(node.name):
                    nap = 0.0
            except (Refused, CauseError, SpawnTransient) as error:
                logger.warning("node.cleanup %s: %s", node.name, error)
                nap = min(nap, RETRY_SECONDS)
        return nap

    async def clean(self, node: str) -> bool:
        """Remove clones of ended runs from ``node``; return whether more may remain. Raises Refused, SpawnTransient."""
        launcher, facts = self.nodes.launcher(node), self.nodes.facts(node)
        if facts is None:
            return False
        git, done = NodeGit(launcher, facts), 0
        for one in read_list(await git.shell(_LIST, facts.state_dir)):
            place = f"{facts.state_dir}/{TREES}/{run_id(one.run)}/{one.name}"
            record = self.parts.reader.now(workflows.by_id, one.run)
            over = record is not None and record.state != "running" and not self.works_in(one.run)
            if record is not None and not over:  # possibly restarted
                self._stay.discard((node, place))
            if record is None or not over or (node, place) in self._stay:
                continue
            if done == AT_ONCE:
                return True
            done += 1
            self._stay.add((node, place))
            try:
                await self._clear(node, git, place, one, record)
            except SpawnTransient:
                self._stay.discard((node, place))
                raise
            except (Refused, CauseError) as error:
                logger.warning("node.clone retained on node %s in %s: %s", node, place, error)
        return False

    async def _clear(self, node: str, git: NodeGit, place: str, one: Listed, record: WorkflowRecord) -> None:
        parts, top = self.parts, f"{place}/tree"
        tree = next((tree for tree in parts.reader.now(worktrees.ever_of_run, one.run) if tree.name == one.name), None)
        if tree is None and not parts.reader.now(worktrees.worked_in, one.run, one.name):
            raise Refused(
                "not_found", f"agent {one.name} did not work in {run_id(one.run)}", "inspect its clone on the node"
            )
        if tree is None:
            base = await parts.repository.base()
            branch = f"{AGENT_BRANCHES}/{record.name}/{run_id(one.run)}/{one.name}"
            tree = Worktree(one.name, base.repository, base.commit, branch, "", "", 0, one.name, record.space, "gone")
        box = None
        if one.confined:
            box = private_box(await NodeFiles(git, "").bubblewrap(), top, git.facts)
        clone = NodeClone(git, place, WritableTree(tree, GitView(f"{top}/.git", top, box)))
        message = f"{one.name}: what was left on {node} ({run_id(one.run)})"
        sync = NodeSync(BareBranch(parts.repository.git, tree), clone, node=node, agent=one.name, message=message)
        for note in (await sync.clear()).notes:
            logger.warning("node.files %s", note)
