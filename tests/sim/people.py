"""The people of a world: they send what the plan says, when it says so, and do with the work what people do."""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

import msgspec
import trio

from kernel.rule.draft import Draft
from kernel.store.idempotency import RequestKey
from kernel.store.transitions.approvals import approve, deny
from kernel.store.transitions.close import cancel
from kernel.store.transitions.runs import start_run, stop_workflow
from kernel.store.transitions.steering import (
    continue_workflow,
    pause_agent,
    pause_workflow,
    promote,
    reset_agent,
    resume_agent,
    resume_workflow,
    retry,
)
from kernel.store.transitions.voting import cancel_proposal, create, vote
from protocol.agent import AgentDefinition, Schedule
from protocol.api.runs import RunOptions
from protocol.errors import Refused
from protocol.limits import RunBudget
from protocol.message import USER
from protocol.names import AgentKey
from protocol.workflow import Ref, RunLimits, WorkflowDefinition
from tests.sim.plan import TEAM, WATCH, Act, Decide, Deed, Poll, Run, Send, Watch
from tests.sim.polls import POLLS, by_person
from tests.sim.project_folder import beginning
from tests.sim.world import World

Step = Send | Act | Run | Watch | Decide | Poll

ON_AGENT: Final[dict[Deed, Callable[..., Any]]] = {"pause": pause_agent, "resume": resume_agent, "reset": reset_agent}
ON_INSTRUCTION: Final[dict[Deed, Callable[..., Any]]] = {"cancel": cancel, "promote": promote, "retry": retry}
ON_TEAM: Final[dict[Deed, Callable[..., Any]]] = {"pause workflow": pause_workflow, "resume workflow": resume_workflow}


WAITING: Final = "SELECT 'a' || id FROM approvals WHERE state = 'open' ORDER BY id"


@dataclass
class People:
    """All of them; each thing they do is a task of its own, so that nobody waits for a kernel that is down."""

    world: World
    accepted: list[tuple[str, str]] = field(default_factory=list)
    """Label and text of what a kernel said it had taken."""
    gone: trio.Event = field(default_factory=trio.Event)
    """Set when everything in the plan is done."""

    async def live(self) -> None:
        plan = self.world.plan
        steps: list[Step] = [*plan.sends, *plan.acts, *plan.runs, *plan.watches, *plan.decides, *plan.polls]
        async with trio.open_nursery() as nursery:
            for step in sorted(steps, key=lambda one: one.at):
                await trio.sleep_until(step.at)
                nursery.start_soon(self._do, step)
        self.gone.set()

    async def _do(self, step: Step) -> None:
        try:
            match step:
                case Send():
                    await self._send(step)
                case Act():
                    await self._act(step)
                case Run():
                    await self._run(step)
                case Watch():
                    await self._watch(step)
                case Decide():
                    await self._decide(step)
                case Poll():
                    await self._poll(step)
        except Refused as refused:
            self.world.witness.note(trio.current_time(), "refused", refused.code, step)

    async def _run(self, run: Run) -> None:
        limits = RunLimits(hops=run.hops, instructions=run.instructions)
        agents: dict[str, Ref | AgentDefinition] = {name: Ref(ref=name) for name in run.agents}
        seconds = run.seconds
        draft = beginning(
            WorkflowDefinition(name=run.label, agents=agents, limits=limits),
            mode="run",
            kickoff=run.kickoff,
            options=RunOptions(budget=RunBudget(tokens=run.tokens), attended=run.attended),
            deadline_ms=None if seconds is None else self._now_ms() + round(seconds * 1000),
        )
        key = RequestKey(USER, run.label, sha256(run.kickoff.encode()).digest())
        await self.world.ask(start_run, draft, key)

    async def _watch(self, watch: Watch) -> None:
        schedule = Schedule(wakeup=f"{watch.wakeup}s", prompt="job w: do 1.")
        agents: dict[str, Ref | AgentDefinition] = {watch.agent: Ref(ref=watch.agent, schedule=schedule)}
        definition = WorkflowDefinition(name=WATCH.partition(":")[0], agents=agents)
        await self.world.ask(start_run, beginning(definition), RequestKey(USER, WATCH, b"watch"))
        await trio.sleep_until(watch.until)
        await self.world.ask(stop_workflow, WATCH, "cancelled", 130, "seen enough")

    async def _decide(self, decide: Decide) -> None:
        found = [str(one) for (one,) in self.world.eyes.execute(WAITING).fetchall()]
        for approval in found[: decide.count]:
            self.world.witness.note(trio.current_time(), decide.verdict, approval)
            if decide.verdict == "deny":
                await self.world.ask(deny, approval)
            else:
                await self.world.ask(approve, approval, always="*" if decide.verdict == "always" else None)

    async def _poll(self, poll: Poll) -> None:
        ask = self.world.ask
        await ask(create, TEAM, msgspec.structs.replace(POLLS[poll.kind], id=poll.label))
        choice = by_person(poll.kind, poll.label)
        steps = sorted((at, what) for at, what in ((poll.vote, "vote"), (poll.cancel, "cancel")) if at is not None)
        for at, what in steps:
            await trio.sleep_until(at)
            if what == "vote":
                await ask(vote, TEAM, poll.label, choice)
            else:
                await ask(cancel_proposal, TEAM, poll.label)

    def _now_ms(self) -> int:
        kernel = self.world.kernel
        return self.world.wall_ms() if kernel is None else kernel.now_ms()

    async def _send(self, send: Send) -> None:
        key = RequestKey(USER, send.label, sha256(send.text.encode()).digest())
        draft = Draft(kind="said", space=send.space, sender=USER, text=send.text, to=send.to)
        await self.world.send(draft, key)
        self.accepted.append((send.label, send.text))

    async def _act(self, act: Act) -> None:
        world = self.world
        world.witness.note(trio.current_time(), act)
        if act.deed == "wall jump":
            world.wall_offset_seconds += act.number
        elif act.deed == "stop workflow":
            await world.ask(stop_workflow, TEAM, "cancelled", 130, "asked to")
        elif act.deed in ON_AGENT:
            if act.deed in {"resume", "reset"}:
                world.providers.forgive()
            await world.ask(ON_AGENT[act.deed], AgentKey(act.agent))
        elif act.deed in ON_TEAM:
            await world.ask(ON_TEAM[act.deed], TEAM)
        else:
            if act.deed == "retry":
                world.inspector.revived.add(act.number)
            await world.ask(ON_INSTRUCTION[act.deed], f"i{act.number}")

    async def mend(self) -> None:
        """Resume, continue and reset everything: nothing is left that waits for a person."""
        kernel = self.world.kernel
        if kernel is not None and kernel.safe_mode:
            self.world.witness.note(trio.current_time(), "the kernel is in safe mode and is started anew")
            kernel.stop(0.0)
        self.world.providers.forgive()
        for name in self.world.project_folder.agents:
            for job in (resume_agent, reset_agent):
                await self._try(job, AgentKey(name))
        await self._try(resume_workflow, TEAM)
        await self._try(continue_workflow, TEAM)

    async def _try(self, job: Callable[..., Any], *args: Any) -> None:
        try:
            await self.world.ask(job, *args)
        except Refused as refused:
            self.world.witness.note(trio.current_time(), "refused", refused.code, job.__name__)
