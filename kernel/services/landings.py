"""Lands the branches of agents: one queue per repository, in the log, served by one task.

Adjacent landings in the queue with the same branch and check form a batch: they are merged in order, checked once, and
the branch is moved once. If the check fails, batches are halved until the failing landing is found. The queue survives
a crash; for checked landings, the branch shows whether the move was completed.
"""

import itertools
import logging
import shlex
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import trio

from kernel.fault_injection import fault_point
from kernel.git.checkout_move import (
    HalfMoved,
    NotClean,
    check_clean,
    check_room,
    checkout_of,
    move_checkout,
    settle_exchange,
)
from kernel.git.directory import GitDirectory
from kernel.git.file_exchange import recorded, release
from kernel.git.merging import Added, Conflict, Merging, NotMoved, RunToMerge, Side, merging_in
from kernel.git.repository import Repository
from kernel.git.runner import ProjectGit
from kernel.policy.landing import TOGETHER, TRIES, limit_after, settle, tightest, together
from kernel.policy.tasks import claim_on
from kernel.procs.launcher import Launcher
from kernel.procs.spec import SpawnTransient
from kernel.services.timers import reconcile
from kernel.store import attempts, tasks, workflows
from kernel.store.feed import Wake
from kernel.store.transitions import landings, worktrees
from kernel.store.transitions.landings import (
    Landing,
    MergePlan,
    Return,
    Sound,
    begin_landings,
    landing_refused,
    landings_again,
    landings_checked,
    landings_merged,
)
from kernel.store.transitions.worktrees import Worktree
from kernel.store.workflows import WorkflowRecord
from kernel.store.writer import StoreLog
from kernel.workflows.setup import CheckOutcome, CheckRun, check_merge, conflict_text, red_text
from protocol.api.runs import MergeInfo, MergeOutcome
from protocol.errors import Refused
from protocol.ipc import Sandbox
from protocol.names import run_id
from protocol.workflow import WorkflowDefinition

logger = logging.getLogger(__name__)

WAKING: Final = frozenset({"merge.requested"})
PLACE: Final = ".landings"
"""Folder for merges and checks, beside the working trees."""
FOREVER_SECONDS: Final = float("inf")
LATER_SECONDS: Final = 2.0
"""Retry delay if a process could not be started or the store refuses commits."""
STUCK_SECONDS: Final = 10.0
"""Retry delay for a checkout whose files could not be restored."""
MOVED: Final = "the branch has moved meanwhile"
_workflow: Final = msgspec.json.Decoder(WorkflowDefinition)
_numbers: Final = itertools.count(1)


class LandingWork(msgspec.Struct, frozen=True):
    """Data of one landing; ``boxes`` are the sandboxes of all confined agents of its run."""

    landing: Landing
    wanted: RunToMerge
    folder: str
    boxes: tuple[Sandbox, ...]
    env: Mapping[str, str]


class Landings(msgspec.Struct, eq=False, kw_only=True):
    """Serves the queue of landings; ``git`` works in an exclusive folder."""

    root: Path
    git: ProjectGit
    repository: Repository
    box: Callable[[Worktree], Sandbox | None]
    """Sandbox for commands on the contents of a tree, even after the tree was removed."""
    log: StoreLog
    wake: Wake
    launcher: Launcher
    _limit: int = TOGETHER

    async def run(self) -> None:
        """Serve the queue until cancelled."""
        await reconcile(self.wake, self.run_once)

    async def run_once(self) -> float:
        """Land the next batch of the queue, and return the seconds until the next call."""
        try:
            exchange = recorded(self.git.place)
            if exchange is not None:  # left by a kernel that crashed or could not roll back
                async with merging_in(self.git, exchange.repository) as merging:
                    await settle_exchange(self.git, merging, exchange)
            left = self.log.reader.now(landings.unfinished)
            checked = tuple(one for one in left if one.state == "checked")
            if checked:
                # landings that were checked as one batch are moved as one batch
                await self._land([one for one in checked if one.tip == checked[0].tip], self._move)
            elif any(one.state == "merging" for one in left):
                await self.log.writer.commit(
                    landings_again, [one for one in left if one.state == "merging"], "interrupted"
                )
            elif left:
                begun = list(await self.log.writer.commit(begin_landings, together(left, self._limit)))
                fault_point("landing.begun")
                if begun:
                    await self._land(begun, self._merge)
            else:
                return FOREVER_SECONDS
        except SpawnTransient as error:
            logger.warning("landing.later %s", error)
            return LATER_SECONDS
        except Refused as refused:
            logger.warning("landing.refused %s", refused.text)
            return LATER_SECONDS
        except HalfMoved as error:
            logger.error("landing.half_moved %s", error)
            return STUCK_SECONDS
        return 0.0

    async def preview(self, record: WorkflowRecord, plan: MergePlan) -> MergeInfo:
        """Return what a landing would do, without its check and without changes. Raises Refused."""
        repository, branch, terms = plan
        landing = Landing(
            0, repository, branch, terms.check, record.id, record.space, "requested", terms, False, 0, 0, "", "", "",
            MergeOutcome(), 0, None,
        )  # fmt: skip
        async with merging_in(self.git, repository) as merging:
            expected = await merging.tip(branch)
            if expected is None:
                outcome: MergeOutcome | None = _no_branch(branch)
            else:
                outcome = await self._obstacle(landing, merging)
            if outcome is None and expected is not None:
                added = await merging.add(expected, (await self._work(landing)).wanted)
                if isinstance(added, Conflict):
                    outcome = _conflict(added, branch)
                else:
                    against = await self._obstacle(landing, merging, to=(expected, added.commit)) or MergeOutcome()
                    outcome = msgspec.structs.replace(against, branches=added.branches)
        assert outcome is not None
        return MergeInfo(
            id="",
            run=run_id(record.id),
            state="refused" if outcome.why else "possible",
            into=branch,
            squash=terms.squash,
            check=terms.check,
            **{name: getattr(outcome, name) for name in MergeOutcome.__struct_fields__},
        )

    async def _land(self, batch: list[Landing], step: Callable[[Merging, list[Landing]], Awaitable[None]]) -> None:
        """Run ``step`` on a batch of one repository; after a refusal, land one by one."""
        try:
            async with merging_in(self.git, batch[0].repository) as merging:
                await step(merging, batch)
        except Refused as refused:
            if refused.code not in ("setup_failed", "bad_definition"):
                raise
            first, *others = batch
            if others:  # one of the batch caused the refusal
                self._limit = 1
                await self.log.writer.commit(landings_again, batch, refused.text)
            else:
                await self.log.writer.commit(landing_refused, first, MergeOutcome(why=refused.text))

    async def _merge(self, merging: Merging, batch: list[Landing]) -> None:
        """Merge ``batch`` into one commit, check it, and move the branch to it.

        New landings that can join the batch are included until the check.
        """
        branch = batch[0].branch
        expected = await merging.tip(branch)
        obstacle = _no_branch(branch) if expected is None else await self._obstacle(batch[0], merging)
        if obstacle is not None or expected is None:
            for one in batch:
                await self.log.writer.commit(landing_refused, one, obstacle or _no_branch(branch))
            return
        sound: list[tuple[LandingWork, Added]] = []
        tip = expected
        left = deque(batch)
        while left:
            tip = await self._add(merging, left.popleft(), expected, tip, sound)
            if not left:
                left += await self._join(batch)
        if not sound:
            return
        checked = await self._check(merging, tip, sound)
        self._limit = limit_after(len(sound), self._limit, sound=checked.why is None)
        if checked.why is not None:
            if len(sound) > 1:
                await self.log.writer.commit(landings_again, [work.landing for work, _ in sound], "the check failed")
            else:
                await self._refuse_red(merging, expected, sound[0], checked)
            return
        await merging.keep(tip)
        fault_point("landing.kept")
        passed = [Sound(work.landing, added.commit, MergeOutcome(branches=added.branches)) for work, added in sound]
        found = await self.log.writer.commit(landings_checked, passed, expected, tip)
        fault_point("landing.checked")
        if found:
            await self._move(merging, found)

    async def _add(
        self, merging: Merging, one: Landing, expected: str, tip: str, sound: list[tuple[LandingWork, Added]]
    ) -> str:
        work = await self._work(one)
        claimed = await self._claimed(merging, tip, work)
        if claimed is not None:
            await self.log.writer.commit(landing_refused, one, claimed)
            return tip
        added = await merging.add(tip, work.wanted)
        if isinstance(added, Added) and added.commit != tip:
            sound.append((work, added))
            return added.commit
        if tip != expected:
            # the result may differ once the previous landings are decided
            await self.log.writer.commit(landings_again, [one], "waiting for earlier landings")
        elif isinstance(added, Conflict):
            await self._refuse_conflict(merging, one, added)
        else:
            await self.log.writer.commit(landings_merged, [one], "nothing to merge")
        return tip

    async def _join(self, batch: list[Landing]) -> Sequence[Landing]:
        waiting = [one for one in self.log.reader.now(landings.unfinished) if one.id > batch[-1].id]
        joining = together((batch[-1], *waiting), self._limit - len(batch) + 1)[1:]
        begun = await self.log.writer.commit(begin_landings, joining) if joining else ()
        batch += begun
        return begun

    async def _move(self, merging: Merging, batch: Sequence[Landing]) -> None:
        """Move the target branch to the checked ``batch``, and update its checkout, if any."""
        repository, branch, expected, tip = batch[0].repository, batch[0].branch, batch[0].expected, batch[0].tip
        await merging.unlock(branch, tip)
        now = await merging.tip(branch)
        inside = now is not None and now != expected and await merging.has(tip, now)
        standing = settle(now, expected, tip_is_in=inside)
        note = ""
        if standing == "moved" and now is not None:  # by an earlier kernel
            note = await merging.taken_back(expected, tip, now)
        checkout: GitDirectory | None = None
        try:
            checkout = await trio.to_thread.run_sync(checkout_of, repository, branch, self.root)
            if standing == "untouched":
                with trio.CancelScope(shield=checkout is None):
                    moves = merging.move if checkout is None else partial(move_checkout, self.git, merging, checkout)
                    standing = "moved" if await moves(branch, expected, tip) else "elsewhere"
        except NotMoved as error:
            if standing != "moved":
                outcome = MergeOutcome(branches=batch[0].outcome.branches, why=str(error), files=error.files)
                for one in batch:
                    outcome = msgspec.structs.replace(outcome, branches=one.outcome.branches)
                    await self.log.writer.commit(landing_refused, one, outcome)
                return
        fault_point("landing.landed")
        if checkout is not None:
            release(checkout.own, tip)
        if standing == "moved":
            await self.log.writer.commit(landings_merged, batch, note)
            logger.info("landing.merged %s into %s at %s", ", ".join(run_id(one.run) for one in batch), branch, tip)
            return
        for one in batch:
            if one.tries >= TRIES:
                await self.log.writer.commit(
                    landing_refused, one, MergeOutcome(why=f"branch {branch} was moved by others {TRIES} times")
                )
            else:
                await self.log.writer.commit(landings_again, [one], MOVED)

    async def _work(self, landing: Landing) -> LandingWork:
        record, source = (
            self.log.reader.now(workflows.by_id, landing.run),
            self.log.reader.now(workflows.source, landing.run),
        )
        if record is None or source is None:
            raise Refused("setup_failed", f"run {run_id(landing.run)} not found: it was removed")
        names = list(_workflow.decode(source.definition).agents)
        trees = sorted(
            self.log.reader.now(worktrees.ever_of_run, landing.run),
            key=lambda tree: names.index(tree.name) if tree.name in names else len(names),
        )
        wanted = landing.terms.agent
        if wanted is not None and wanted not in names:
            raise Refused(
                "setup_failed",
                f"agent {wanted[:60]!r} not found in {record.place}. Available agents: {', '.join(names)}.",
            )
        sides: dict[str, Side] = {}
        boxes: list[Sandbox] = []
        for tree in trees:
            lands = (
                (wanted is None or tree.name == wanted)
                and tree.branch not in sides
                and tree.state not in ("planned", "gone")
            )
            # All trees count for the check, because one may contain the work of others (tree_take, follows).
            box = self.box(tree) if lands or landing.check is not None else None
            boxes += [box] if box is not None else []
            if lands:
                tip = await self.repository.tip(tree, box=box)
                work, _hops = self.log.reader.now(landings.work_of, landing.run, tree.name)
                if tip is not None:
                    limits = self.log.reader.now(attempts.limits_of, tree.agent, record.space)
                    sides[tree.branch] = Side(tree.name, tree.branch, tip, work, limits)
        env = {"AGENT_WORKFLOW": record.name, "AGENT_TAG": record.tag, "AGENT_RUN": run_id(record.id)}
        folder = trees[0].folder if trees else ""
        return LandingWork(
            landing,
            RunToMerge(record.id, record.place, tuple(sides.values()), landing.terms.squash),
            folder,
            tuple(boxes),
            {**self.git.environment, **env, "AGENT_PROJECT": str(self.root)},
        )

    async def _obstacle(
        self, landing: Landing, merging: Merging, to: tuple[str, str] | None = None
    ) -> MergeOutcome | None:
        """Return why the branch cannot move, or None; ``to``: its old and new commit, if known."""
        try:
            checkout = await trio.to_thread.run_sync(checkout_of, landing.repository, landing.branch, self.root)
            if checkout is not None and to is None:
                await check_clean(self.git, checkout)
            elif checkout is not None and to is not None:
                check_room(checkout, await merging.in_the_way(checkout.top, *to))
        except NotClean as error:
            return MergeOutcome(why=str(error), files=error.files)
        return None

    async def _claimed(self, merging: Merging, tip: str, work: LandingWork) -> MergeOutcome | None:
        """Return the refusal if ``work`` changes files claimed by another agent, else None."""
        claims = self.log.reader.now(tasks.claims, work.landing.space)
        if not claims:
            return None
        folder = f"{work.folder}/" if work.folder else ""
        for side in work.wanted.sides:
            for path in await merging.changed(tip, side):
                met = claim_on(claims, path.removeprefix(folder), side.agent)
                if met is not None:
                    why = f"{path} was changed by {side.agent}, but is claimed by {met.holder} for task {met.id}"
                    return MergeOutcome(why=f"{why}: merge after {met.id} has ended", files=(path,))
        return None

    async def _check(self, merging: Merging, commit: str, sound: Sequence[tuple[LandingWork, Added]]) -> CheckOutcome:
        """Check ``commit`` within the limits of all its agents, in a sandbox if one of them is confined."""
        work = sound[0][0]
        if work.landing.check is None:
            return CheckOutcome(None)
        box = next((box for one, _ in sound for box in one.boxes), None)
        bound = tightest(one for _, added in sound for side, _ in added.steps for one in side.limits)
        run = CheckRun(self.launcher, f"check-{next(_numbers)}", work.env, bound)
        return await check_merge(merging, commit, work.landing.check, work.folder, run, sandbox=box)

    async def _refuse_conflict(self, merging: Merging, landing: Landing, met: Conflict) -> None:
        returns: tuple[Return, ...] = ()
        if self._goes_back(landing, met.side):
            # Keep the commit that the agent has to merge: no other ref has it, and it may contain work of others.
            await merging.keep(met.ours)
            text = conflict_text(met, landing.branch, await merging.other_side(met))
            returns = (Return(met.side.agent, text),)
        await self.log.writer.commit(landing_refused, landing, _conflict(met, landing.branch), returns)

    async def _refuse_red(
        self, merging: Merging, expected: str, one: tuple[LandingWork, Added], checked: CheckOutcome
    ) -> None:
        work, added = one
        landing = work.landing
        returns: tuple[Return, ...] = ()
        if landing.terms.give_back:
            # Bisect for the first branch that makes the check fail.
            low, high = 0, len(added.steps) - 1
            while low < high:
                middle = (low + high) // 2
                red = await self._check(merging, added.steps[middle][1], [one])
                low, high, checked = (low, middle, red) if red.why else (middle + 1, high, checked)
            side = added.steps[low][0]
            if self._goes_back(landing, side):
                other = await merging.diff(await merging.start_of(expected, side.tip), expected)
                text = red_text(side, landing.branch, expected, landing.check or "", checked, other)
                returns = (Return(side.agent, text),)
        outcome = MergeOutcome(branches=added.branches, why=checked.why or "", output=checked.output)
        await self.log.writer.commit(landing_refused, landing, outcome, returns)

    def _goes_back(self, landing: Landing, side: Side) -> bool:
        return landing.terms.give_back and not self.log.reader.now(
            landings.came_back_unchanged, landing, side.agent, side.tip
        )


def _no_branch(branch: str) -> MergeOutcome:
    return MergeOutcome(why=f"branch {branch} not found: create it with git branch {shlex.quote(branch)}")


def _conflict(met: Conflict, branch: str) -> MergeOutcome:
    why = f"work of {met.side.agent} conflicts with {branch}: {len(met.files)} files"
    return MergeOutcome(branches=met.branches, files=met.files, why=why)
