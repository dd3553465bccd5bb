"""A world: a store that lasts, kernels that come and go, workers, providers, and people who want things done.

Kernels are composed as kernel.app does it (tests/sim/kernel.py). The world outlives them, so what a kernel told
somebody can be held against what its successor knows.
"""

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import msgspec
import trio

from kernel.app import leaves
from kernel.operations.approvals import AuthRequest, auth_request
from kernel.operations.operation import Actor
from kernel.rule.draft import Author, Draft
from kernel.store.attempts import Identity
from kernel.store.database import Database
from kernel.store.idempotency import RequestKey
from kernel.store.schema import StorageFailed
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import Appended, append
from kernel.store.transitions.voting import create, vote
from protocol.errors import Refused
from protocol.ipc import Start
from protocol.message import Event
from protocol.names import AgentKey, AgentName, InstructionId, SpaceId, number_of
from tests.sim.chance import pass_seconds
from tests.sim.invariants import Inspector
from tests.sim.kernel import Kernel
from tests.sim.plan import Plan
from tests.sim.polls import POLLS
from tests.sim.project_folder import ProjectFolder
from tests.sim.provider import Providers
from tests.sim.witness import Witness
from tests.sim.workers import BURIAL_SECONDS, Desk, SimLauncher
from worker.tool import ToolOutcome

P = ParamSpec("P")
T = TypeVar("T")

START_MS: Final = 1_790_000_000_000
AGAIN_SECONDS: Final = 0.1
"""Before somebody who found no kernel asks again."""
NOT_NOW: Final = frozenset({"stopping", "starting", "busy"})
BOOT_SECONDS: Final = 0.5
MOST_COMMITS: Final = 500
"""In one moment of virtual time."""

AGENT_OF: Final = "SELECT agent FROM instructions WHERE id = ?"
GRANTED: Final = """
SELECT count(*) FROM approvals WHERE instruction = ? AND tool = ? AND state = 'granted'
  AND (decided_by = 'user' OR decided_by IN (SELECT 'r' || id FROM approval_rules))
"""
ENTRY: Final = "SELECT 1 FROM entries WHERE instruction = ? AND k = ?"


class Restless(Exception):
    """The kernel is busy with nothing."""


@dataclass
class World:
    """Everything there is. ``machine`` runs what no kernel's death ends."""

    plan: Plan
    project_folder: ProjectFolder
    database: Database
    machine: trio.Nursery
    witness: Witness = field(default_factory=Witness)
    wall_offset_seconds: float = 0.0
    kernel: Kernel | None = None
    kernels: int = 0
    healed: bool = False
    """No more faults."""
    broken: bool = False
    """A kernel came to an end that nobody had planned; there is no other after it."""
    commits: int = 0
    looked_at: int = -1
    """How many commits there were when somebody last looked at what needs a person."""
    states: int = 0
    """Looked at in all views of what needs a person."""
    needs: Counter[str] = field(default_factory=Counter)
    """What they had in these, by its kind; and in how many states there was anything ("any")."""
    listeners: list[Callable[[Sequence[Event]], None]] = field(default_factory=list)
    """Told what kernels tell."""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.plan.seed)
        self.providers = Providers(self.witness, random.Random(self.plan.seed + 1), self.plan.weather)
        self.inspector = Inspector(self.witness, self.providers)
        self.desk = Desk(self.witness, self.providers, self._tool, self._granted, self._durable)
        self.launcher = SimLauncher(
            machine=self.machine, desk=self.desk, dooms=self.plan.dooms, agent_of=self._agent_of
        )
        self.eyes = self.database.reader()
        """Sees what is committed, whichever kernel lives."""
        self._deaths = {death.commit: death for death in self.plan.deaths}
        self._up = trio.Event()
        self._moment = (0.0, 0)

    # -- kernels ----------------------------------------------------------------------------------------

    async def reign(self) -> None:
        """One kernel after the other, until cancelled."""
        while not self.broken:
            await self.launcher.swept()
            await pass_seconds(BOOT_SECONDS)
            self.kernels += 1
            kernel = Kernel(self)
            try:
                async with trio.open_nursery() as nursery:
                    await nursery.start(kernel.run)
                    self.kernel = kernel
                    self._up.set()
            except* StorageFailed as died:
                self.witness.note(trio.current_time(), "kernel died:", *_words(died))
            except* Exception as broke:  # noqa: BLE001  (a bug of the kernel is what we look for)
                self.witness.blame(trio.current_time(), "P9", f"the kernel broke: {_words(broke)}")
                self.broken = True
            finally:
                self.kernel = None
                if self._up.is_set():
                    self._up = trio.Event()

    def doomed(self, committed: bool) -> bool:
        """Asked by the writer before each commit, and after it: whether the kernel dies here."""
        if not committed:
            self.commits += 1
            self._check_that_time_passes()
        death = self._deaths.get(self.commits)
        if self.healed or death is None or death.durable != committed:
            return False
        del self._deaths[self.commits]
        self.kill_kernel()
        return True

    def _check_that_time_passes(self) -> None:
        now, (since, count) = trio.current_time(), self._moment
        self._moment = (since, count + 1) if since == now else (now, 1)
        if count > MOST_COMMITS:
            raise Restless(f"{count} commits in one moment")

    def kill_kernel(self) -> None:
        """SIGKILL. Its workers are ended by their keepers."""
        if self.kernel is not None:
            self.kernel.writer.kill()
        self.witness.note(trio.current_time(), "kernel", self.kernels, "is killed at commit", self.commits)
        self.launcher.orphan(lambda: self.chance.uniform(0.0, BURIAL_SECONDS))

    def wall_ms(self) -> int:
        return START_MS + int((trio.current_time() + self.wall_offset_seconds) * 1000)

    # -- who speaks to a kernel --------------------------------------------------------------------------

    async def ask(self, job: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Have the kernel do ``job``; ask again where it died or will not. Raises Refused for any other reason."""
        return await self._answer_of(lambda kernel: kernel.writer.commit(job, *args, **kwargs))

    async def send(self, draft: Draft, request: RequestKey) -> Appended:
        """Have the kernel take in a message from outside, as ``ask``."""
        return await self._answer_of(lambda kernel: kernel.dispatcher.append(draft, request))

    async def _answer_of(self, asked: Callable[[Kernel], Awaitable[T]]) -> T:
        while True:
            await self._up.wait()
            try:
                if self.kernel is not None:
                    return await asked(self.kernel)
            except StorageFailed:
                pass
            except Refused as refused:
                if refused.code not in NOT_NOW:
                    raise
            await pass_seconds(AGAIN_SECONDS)

    async def _tool(self, start: Start, name: str, args: dict[str, Any], key: str) -> ToolOutcome:
        if self.kernel is None:
            await trio.sleep_forever()
        assert self.kernel is not None
        try:
            told = await self._carried_out(self.kernel, start, name, args, key)
        except Refused as refused:
            return ToolOutcome(refused.text, is_error=True)
        except StorageFailed:
            await trio.sleep_forever()
        except Exception as broke:  # noqa: BLE001  (the wire: whatever else comes is a bug of the kernel)
            self.witness.blame(trio.current_time(), "P9", f"{name} of {start.attempt} broke: {broke!r}")
            return ToolOutcome("internal", is_error=True)
        return ToolOutcome(told)

    async def _carried_out(self, kernel: Kernel, start: Start, name: str, args: dict[str, Any], key: str) -> str:
        commit, author = kernel.writer.commit, Author(InstructionId(start.instruction), start.epoch, key)
        match name:
            case "team_vote":
                voted = await commit(vote, start.space, args["proposal"], args["choice"], author=author)
                return f"{voted.ballot.id} is {voted.ballot.state} {voted.message_id}"
            case "team_proposal_create":
                asked = msgspec.structs.replace(POLLS[int(args["kind"])], id=args["id"])
                put = await commit(create, start.space, asked, author=author)
                return f"{put.ballot.id} is open {put.message_id}"
            case "ask_agent" | "channel_send":
                text = str(args["query"] if name == "ask_agent" else args["text"])
                draft = Draft(kind="said", space=start.space, sender=start.agent, text=text, author=author)
                if name == "ask_agent":
                    draft = msgspec.structs.replace(draft, to=(args["agent"],), mentions=(), asks=True)
                return f"sent as {(await commit(append, draft)).message_id}"
            case _:
                place = AgentKey(start.agent), AgentName(start.agent), SpaceId(start.space)
                asks = Identity(*place, InstructionId(start.instruction), start.epoch, live=True)
                actor, request = Actor(identity=asks, call_key=key), msgspec.convert(args, AuthRequest)
                services = kernel.services
                answer = await auth_request(request, actor, services.store, services.files, services.processes)
                return msgspec.json.encode(answer).decode()

    def _granted(self, instruction: str, tool: str) -> int:
        return int(str(self.eyes.execute(GRANTED, (number_of(instruction, "i"), tool)).get))

    def heard(self, events: Sequence[Event]) -> None:
        self.witness.told(trio.current_time(), events)
        for listener in self.listeners:
            listener(events)

    # -- who looks ---------------------------------------------------------------------------------------

    def _durable(self, instruction: str, k: int) -> bool:
        return self.eyes.execute(ENTRY, (number_of(instruction, "i"), k)).fetchone() is not None

    def _agent_of(self, attempt: str) -> str:
        row = self.eyes.execute(AGENT_OF, (number_of(attempt.rpartition("-")[0], "i"),)).fetchone()
        return str(row[0]) if row else "?"


def _words(group: BaseExceptionGroup[BaseException]) -> list[str]:
    return [repr(error) for error in leaves(group)]
