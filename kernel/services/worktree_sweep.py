"""What becomes of working trees when their run has ended: removed where nothing would be lost, and else kept.

Nothing is forced, and nothing is looked at while somebody still works there. A kept one is looked at again by the next
kernel: until then its work may have been merged, pushed or thrown away.
"""

import logging
from collections.abc import Callable
from typing import Final

import trio

from kernel.procs.errors import SpawnTransient
from kernel.services.worktrees import Worktrees
from kernel.store import worktrees
from kernel.store.commits.worktrees import worktree_going, worktree_gone, worktree_kept
from kernel.store.feed import Wake
from kernel.store.reader import Reader
from kernel.store.worktrees import Worktree
from kernel.store.writer import Writer
from kernel.workflows.clone import clone_of
from kernel.workflows.repository import Repository
from protocol.errors import Refused

logger = logging.getLogger(__name__)

WAKING: Final = frozenset({"workflow.stopped"})
LEAVING_SECONDS: Final = 0.5
"""How often it looks whether the last worker of a run has left."""
RETRY_SECONDS: Final = 30.0


class WorktreeSweep:
    """One task. ``works_in`` says whether an attempt of a run is still under way."""

    def __init__(
        self,
        *,
        repository: Repository,
        trees: Worktrees,
        reader: Reader,
        writer: Writer,
        wake: Wake,
        works_in: Callable[[int], bool],
    ) -> None:
        self._repository = repository
        self._trees = trees
        self._reader = reader
        self._writer = writer
        self._wake = wake
        self._works_in = works_in
        self._looked_at: set[tuple[int, str]] = set()
        """Those that this kernel has decided to keep."""

    async def run(self) -> None:
        """Sweep until cancelled. Raises StorageFailed."""
        while True:
            self._wake.clear()
            with trio.move_on_after(await self.run_once()):
                await self._wake.wait()

    async def run_once(self) -> float:
        """Decide about every tree whose run has ended. Returns the seconds until there may be more to decide."""
        nap = float("inf")
        for tree in self._reader.now(worktrees.of_ended):
            if (tree.run, tree.agent) in self._looked_at:
                continue
            if self._works_in(tree.run):
                nap = min(nap, LEAVING_SECONDS)
                continue
            try:
                await self._decide(tree)
            except (Refused, SpawnTransient) as error:
                logger.warning("worktree.later %s: %s", tree.path, error)
                nap = min(nap, RETRY_SECONDS)
        return nap

    async def _decide(self, tree: Worktree) -> None:
        self._trees.forget(tree)
        why = await self._why_kept(tree)
        if why is None:
            await self._writer.commit(worktree_gone, tree)
        else:
            await self._writer.commit(worktree_kept, tree, why)
            self._looked_at.add((tree.run, tree.agent))

    async def _why_kept(self, tree: Worktree) -> str | None:
        """Why it stays; None: it is gone. Raises Refused (busy, or of the store), SpawnTransient."""
        try:
            box = self._trees.box(tree)
            if await trio.Path(tree.path).exists() and tree.state != "planned":
                if tree.state == "made":
                    await self._trees.teardown(tree)
                why = await self._repository.losses(tree, box=box)
                if why is not None:
                    return why
            elif box is not None and tree.state in ("made", "kept"):
                return f"its folder is gone, and what its agent committed last may be in {clone_of(tree)}"
            await self._writer.commit(worktree_going, tree)
            await self._repository.remove(tree, box=box)
        except Refused as refused:
            if refused.code != "setup_failed":
                raise
            return refused.text
        return None
