"""The fake spawner: workers without processes. The loop, the link and the frames are the real ones.

A worker lives in the world, not in the kernel: it outlives the kernel that started it until its keeper has noticed, and
its tree is gone when ``wait`` says so. What becomes of it is in the plan.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import trio
import trio.testing

from kernel.procs.procfs import ProcessId
from kernel.procs.spec import SpawnTransient, Spec
from protocol.discovery import VERSION
from protocol.instruction import Usage
from protocol.ipc import Entry, Error, Exited, Go, Ready, Result, Start, ToolCall, Yield
from protocol.ndjson import encode
from tests.sim.chance import pass_seconds
from tests.sim.plan import CALL_TOKENS, Doom
from tests.sim.polls import choice_of, name_of_poll
from tests.sim.provider import Caller, Providers
from tests.sim.script import Script, read_script
from tests.sim.witness import Witness
from worker.attempt import run_loop
from worker.conversation import Conversation, TooLarge
from worker.io.trio_io import TrioIO, TrioPipe
from worker.kernel_link import ControlChannel, KernelLink, LinkLost
from worker.models.model import Failed, StreamSink
from worker.tool import BuiltinTool, Permission, ToolOutcome, ToolRunners, ToolSpec

FORKING_SECONDS: Final = 0.003
BURIAL_SECONDS: Final = 2.0
"""Within which a keeper ends the tree of a kernel that is gone (promise P7)."""

KernelTool = Callable[[Start, str, dict[str, Any], str], Awaitable[ToolOutcome]]
"""(start, tool, arguments, call key): what a tool of the kernel gives, of the kernel that lives then."""
RISK: Final = "risk"
HOLD: Final = "hold"
"""Tools that somebody has to approve: the worker's own, and one of a program that asks by itself."""


@dataclass
class Desk:
    """What all workers share: the providers, the kernel's tool, and whose entries are durable."""

    witness: Witness
    providers: Providers
    tool: KernelTool
    granted: Callable[[str, str], int]
    """How many calls of the tool a person, or a rule of one, has granted to the instruction."""
    durable: Callable[[str, int], bool]
    """Whether the instruction's entry k is committed."""
    touched: dict[str, int] = field(default_factory=dict)
    """How often each call of the tool that is no business of the kernel was run, by instruction and call key."""
    risked: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """Calls that somebody had to approve and that were run, by instruction and tool."""
    replied: dict[tuple[str, int], int] = field(default_factory=dict)
    """How often the model was asked for each entry."""

    def check_new(self, instruction: str, k: int) -> None:
        """Entry ``k`` is about to be made: it must not have been made already."""
        if self.durable(instruction, k):
            text = f"entry {k} of {instruction} was durable and is made again"
            self.witness.blame(trio.current_time(), "P5", text)

    def risk(self, instruction: str, tool: str, key: str) -> None:
        """The call is made: once at most, and not without an approval of its own."""
        run = self.risked.setdefault((instruction, tool), set())
        if key in run:
            self.witness.blame(trio.current_time(), "P4", f"{tool} {key} of {instruction} was run again")
        run.add(key)
        if len(run) > self.granted(instruction, tool):
            self.witness.blame(trio.current_time(), "P4", f"{tool} {key} of {instruction} ran and nobody approved it")


class SimHandle:
    """A kernel.procs.handle.Handle without a process."""

    def __init__(self, attempt: str, pid: int, machine: trio.Nursery) -> None:
        self.attempt = attempt
        self.pid = pid
        self.keeper_pid = pid
        self.cookie = "c" * 32
        self.processes: frozenset[ProcessId] = frozenset()
        self.stdin, self.inbox = trio.testing.memory_stream_one_way_pair()
        self.outbox, self.stdout = trio.testing.memory_stream_one_way_pair()
        self.complaints, self.stderr = trio.testing.memory_stream_one_way_pair()
        self.life = trio.CancelScope()
        self.gone = trio.Event()
        self.exited = Exited(code=0)
        self.orphaned = False
        self.stubborn = False
        """Stopped or stuck: SIGTERM does nothing."""
        self.machine = machine

    def die(self, exited: Exited) -> None:
        if not self.life.cancel_called and not self.gone.is_set():
            self.exited = exited
            self.life.cancel()

    async def wait(self) -> Exited:
        await self.gone.wait()
        return self.exited

    async def kill(self, after_seconds: float = 0.0) -> None:
        await trio.lowlevel.checkpoint()
        if self.stubborn and after_seconds > 0:
            self.machine.start_soon(self.die_later, after_seconds)
        else:
            self.die(Exited(signal=15 if after_seconds else 9, killed=True))

    async def die_later(self, seconds: float) -> None:
        """End it in a while: it was told to, and does not hear."""
        await pass_seconds(seconds)
        self.die(Exited(signal=9, killed=True))

    async def destroy(self) -> Exited:
        self.die(Exited(signal=9, killed=True))
        return await self.wait()

    async def signal(self, number: int) -> None:
        """For a dump of its stacks; it dumps nothing."""
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """As the real one. The handle of a kernel that was killed closes nothing: its keeper does."""
        with trio.CancelScope(shield=True):
            if not self.orphaned:
                await self.kill()
                await self.wait()
            for stream in (self.stdin, self.stdout, self.stderr):
                await stream.aclose()

    async def __aenter__(self) -> "SimHandle":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class SimLauncher:
    """Starts workers in ``machine``. One serves every kernel of the world."""

    def __init__(
        self, *, machine: trio.Nursery, desk: Desk, dooms: tuple[Doom, ...], agent_of: Callable[[str], str]
    ) -> None:
        self.spawned = 0
        self.alive: dict[SimHandle, str] = {}
        """The agent of each."""
        self.healed = False
        self._machine = machine
        self._desk = desk
        self._dooms = {doom.spawn: doom for doom in reversed(dooms)}
        self._agent_of = agent_of
        self._fewer = trio.Event()

    def need(self, modules: frozenset[str]) -> None:
        """Nothing is preloaded."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        await trio.sleep_forever()

    async def spawn(self, spec: Spec) -> SimHandle:
        """One worker. Raises SpawnTransient where the plan says so."""
        self.spawned += 1
        number = self.spawned
        doom = None if self.healed else self._dooms.get(number)
        now = trio.current_time()
        self._desk.witness.note(now, "spawn", number, spec.attempt, doom.fate if doom else "")
        if doom is not None and doom.fate == "spawn refused":
            raise SpawnTransient("EAGAIN: fork")
        agent = self._agent_of(spec.attempt)
        others = [other.attempt for other, owner in self.alive.items() if owner == agent]
        if others:
            self._desk.witness.blame(now, "P3", f"{spec.attempt} was started while {others} of {agent} still ran")
        handle = SimHandle(spec.attempt, 1000 + number, self._machine)
        self.alive[handle] = agent
        self._machine.start_soon(self._live, handle, doom)
        try:
            await pass_seconds(FORKING_SECONDS)
        except trio.Cancelled:
            handle.die(Exited(signal=9, killed=True))
            raise
        return handle

    async def _live(self, handle: SimHandle, doom: Doom | None) -> None:
        try:
            with handle.life:
                handle.exited = await SimWorker(handle, self._desk, doom).run()
        finally:
            with trio.CancelScope(shield=True):
                for stream in (handle.outbox, handle.complaints, handle.inbox):
                    await stream.aclose()
            del self.alive[handle]
            handle.gone.set()
            self._fewer.set()
            self._desk.witness.note(trio.current_time(), "gone", handle.attempt, handle.exited.signal)

    def orphan(self, within: Callable[[], float]) -> None:
        """The kernel is dead: each worker's keeper ends it ``within`` some seconds."""
        for handle in tuple(self.alive):
            handle.orphaned = True
            self._machine.start_soon(handle.die_later, within())

    async def swept(self) -> None:
        """Wait until no worker is left, as a new kernel does with their keepers' locks."""
        while self.alive:
            self._fewer = trio.Event()
            await self._fewer.wait()


class SimWorker:
    """worker.main without a process: the real link and loop, a model and tools of the simulation."""

    def __init__(self, handle: SimHandle, desk: Desk, doom: Doom | None) -> None:
        self._handle = handle
        self._desk = desk
        self._doom = doom
        self._born = trio.current_time()

    async def run(self) -> Exited:
        if self.fated("never ready"):
            await trio.sleep_forever()
        handle = self._handle
        await handle.outbox.send_all(encode(Ready(pid=handle.pid, version=VERSION)))
        hearing = ControlChannel()
        pipe = TrioPipe(handle.inbox, handle.outbox, hearing)
        link = KernelLink(pipe, hearing)
        start = await self._told(hearing, pipe)
        if start is None:
            return Exited(code=1)
        ended: Result | Error | None = None
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as scope:
                nursery.start_soon(pipe.listen, scope)
                ended = await self._attempt(start, link)
            if hearing.stop is not None and ended is None:
                ended = Error(cause="cancelled", text=f"stopped: {hearing.stop.reason}")
            if ended is not None:
                await link.finish(ended)
            lost = link.lost or pipe.lost
            nursery.cancel_scope.cancel()
        return Exited(code=1 if lost else 0)

    async def _told(self, hearing: ControlChannel, pipe: TrioPipe) -> Start | None:
        try:
            while hearing.start is None and hearing.stop is None:
                chunk = await self._handle.inbox.receive_some()
                if not chunk:
                    return None
                for frame in hearing.feed(bytes(chunk)):
                    await pipe.send(encode(frame))
        except (LinkLost, trio.BrokenResourceError, trio.ClosedResourceError):
            return None
        return hearing.start

    async def _attempt(self, start: Start, link: KernelLink) -> Result | Error | None:
        conversation = Conversation(start)
        try:
            return await self._play(start, conversation, link)
        except LinkLost:
            return None
        except Failed as error:
            return Error(
                cause=error.cause,
                text=error.text,
                http_status=error.http_status,
                retry_after=error.retry_after_seconds,
                partial=conversation.text,
            )
        except TooLarge as error:
            return Error(cause="resource", text=str(error), partial=conversation.text)

    async def _play(self, start: Start, conversation: Conversation, link: KernelLink) -> Result:
        tools = _Tools(start, self._desk, self)
        hands = ToolRunners(
            kernel=_Hand(tools.kernel),
            own={
                "touch": BuiltinTool(hand=_Hand(tools.touch)),
                RISK: BuiltinTool(hand=_Hand(tools.risk), spec=ToolSpec(name=RISK)),
                HOLD: BuiltinTool(hand=_Hand(tools.hold)),
            },
            seconds=start.limits.tool_seconds,
            waits=TrioIO(),
            doubtful=_doubtful(start, conversation),
            permits=Permission(start.approval, _Hand(tools.allow)),
        )
        provider = start.provider.name if start.provider else "mock"
        caller = Caller(start.instruction, start.attempt, provider, start.model, self._born)
        model = SimModel(self._desk, caller, compact=start.compact)
        recorder = _Recorder(link, self, self._desk, start.instruction)
        return await run_loop(conversation=conversation, model=model, hands=hands, limits=start.limits, link=recorder)

    def fated(self, fate: str, k: int | None = None) -> bool:
        """Whether the plan has this for the worker, at this entry."""
        return self._doom is not None and self._doom.fate == fate and (k is None or self._doom.k == k)

    async def killed(self) -> None:
        self._handle.die(Exited(signal=9))
        await trio.sleep_forever()

    async def meet_fate(self, k: int) -> None:
        """What the plan has for this worker before its entry ``k`` is written."""
        if self.fated("killed before entry", k):
            await self.killed()
        if self.fated("silent exit", k):
            self._handle.die(Exited(code=0))
            await trio.sleep_forever()
        if self.fated("frozen", k):
            self._handle.stubborn = True
            with trio.CancelScope(shield=True) as frozen:
                self._handle.machine.start_soon(self._thaw, frozen)
                await trio.sleep_forever()
        if self.fated("garbage", k):
            await self._handle.outbox.send_all(b'{"t":"entry","k":\n\xff\xfe not a frame\n')

    async def _thaw(self, frozen: trio.CancelScope) -> None:
        try:
            while not self._handle.life.cancel_called:
                await pass_seconds(1.0)
        finally:
            frozen.cancel()


class _Recorder:
    """The link, for a worker that may not live to hear the answer."""

    def __init__(self, link: KernelLink, worker: SimWorker, desk: Desk, instruction: str) -> None:
        self._link = link
        self._worker = worker
        self._desk = desk
        self._instruction = instruction
        self.delta = link.delta
        self.progress = link.progress

    async def record(self, entry: Entry) -> Go | Yield:
        await self._worker.meet_fate(entry.k)
        self._check_new(entry)
        if self._worker.fated("killed after entry", entry.k):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._link.record, entry)
                await trio.lowlevel.checkpoint()
                await self._worker.killed()
        return await self._link.record(entry)

    async def record_last(self, entry: Entry) -> None:
        await self._worker.meet_fate(entry.k)
        self._check_new(entry)
        await self._link.record_last(entry)
        if self._worker.fated("killed after entry", entry.k):
            await self._worker.killed()

    def _check_new(self, entry: Entry) -> None:
        self._desk.check_new(self._instruction, entry.k)


class SimModel:
    """A model that plays the job in the message's text, and counts."""

    def __init__(self, desk: Desk, caller: Caller, *, compact: bool) -> None:
        self._desk = desk
        self._caller = caller
        self._compact = compact

    async def reply(self, conversation: Conversation, allowance: int | None, live: StreamSink) -> Entry:
        k, instruction = conversation.next_k, self._caller.instruction
        self._desk.check_new(instruction, k)
        self._desk.replied[instruction, k] = self._desk.replied.get((instruction, k), 0) + 1
        await self._desk.providers.answer(self._caller)
        script = read_script(conversation.source_text)
        if script.long == conversation.step_count and not self._compact:
            raise Failed("context_overflow", "the prompt is too long")
        return _play(script, conversation.step_count, k, conversation.source_text, instruction)

    async def aclose(self) -> None:
        """Nothing is open."""


def _play(script: Script, step: int, k: int, text: str, instruction: str) -> Entry:
    calls = _votes(script, step, k, text, instruction)
    if step in script.touches:
        calls.append(_call(f"c{k}", "touch", {}))
    if step in script.tells:
        told = f"@{script.tells[step]} job {script.label}.{step}: do 1."
        calls.append(_call(f"d{k}", "channel_send", {"text": told}))
    if step in script.asks:
        query = f"job {script.label}?{step}: do 1."
        calls.append(_call(f"q{k}", "ask_agent", {"agent": script.asks[step], "query": query}))
    if step in script.risks:
        calls.append(_call(f"r{k}", RISK, {"of": f"{script.label}.{step}"}))
    if step in script.holds:
        calls.append(_call(f"h{k}", HOLD, {"of": f"{script.label}.{step}"}))
    last = step + 1 >= script.steps and step not in script.asks  # who asks has more to say once it is answered
    text = f"{script.label}#{step}"
    if last and script.pass_to:
        text += f" @{script.pass_to} job {script.label}+: do 2."
    stop = "end_turn" if last else "tool_use" if calls else "pause_turn"
    usage = Usage(input_tokens=10, output_tokens=CALL_TOKENS - 10)
    return Entry(k=k, kind="reply", stop_reason=stop, text=text, calls=tuple(calls), usage=usage)


def _votes(script: Script, step: int, k: int, text: str, instruction: str) -> list[ToolCall]:
    calls: list[ToolCall] = []
    if step in script.polls:
        name = name_of_poll(script.label, step)
        calls.append(_call(f"p{k}", "team_proposal_create", {"id": name, "kind": str(script.polls[step])}))
        calls.append(_call(f"o{k}", "team_vote", {"proposal": name, "choice": choice_of(instruction, name)}))
    for place, name in enumerate(script.votes if step == 0 else ()):
        choice = choice_of(instruction, name, text)
        calls.append(_call(f"v{k}-{place}", "team_vote", {"proposal": name, "choice": choice}))
    return calls


def _call(id: str, name: str, args: dict[str, str]) -> ToolCall:
    return ToolCall(id=id, name=name, args=msgspec.Raw(msgspec.json.encode(args)))


class _Hand:
    """A tool, by a function: see worker.tool.Hand."""

    def __init__(self, run: Callable[[str, dict[str, Any], str], Awaitable[ToolOutcome]]) -> None:
        self._run = run

    async def run(self, name: str, args: dict[str, Any], key: str) -> ToolOutcome:
        return await self._run(name, args, key)


def _doubtful(start: Start, conversation: Conversation) -> str:
    last = conversation.last
    pending = start.interrupted and last is not None and last.pending is not None
    return last.pending_key if pending and last is not None else ""


class _Tools:
    """What a worker's calls do: at the kernel, over no wire, or here."""

    def __init__(self, start: Start, desk: Desk, worker: SimWorker) -> None:
        self._start = start
        self._desk = desk
        self._worker = worker

    async def kernel(self, name: str, args: dict[str, Any], key: str) -> ToolOutcome:
        return await self._done(await self._desk.tool(self._start, name, args, key))

    async def allow(self, _name: str, args: dict[str, Any], key: str) -> ToolOutcome:
        return await self._desk.tool(self._start, "auth_request", args, key)

    async def risk(self, name: str, _args: dict[str, Any], key: str) -> ToolOutcome:
        """A tool that must not run before somebody approves, nor twice."""
        self._desk.risk(self._start.instruction, name, key)
        await pass_seconds(0.2)
        return await self._done(ToolOutcome(f"risked {key}"))

    async def hold(self, name: str, args: dict[str, Any], key: str) -> ToolOutcome:
        """The same of a program that asks by itself: its call waits for the answer, and has another name each time."""
        call = f"{self._start.attempt} {key}"
        answer = await self.allow(name, {"tool_name": name, "input": args, "tool_use_id": call}, key)
        if answer.is_error or '"allow"' not in answer.text:
            return ToolOutcome(answer.text, is_error=True)
        return await self.risk(name, args, call)

    async def touch(self, _name: str, _args: dict[str, Any], key: str) -> ToolOutcome:
        """A tool that is no business of the kernel: at least once, and never again once its result is durable."""
        mark = f"{self._start.instruction} {key}"
        self._desk.touched[mark] = self._desk.touched.get(mark, 0) + 1
        await pass_seconds(0.2)
        return await self._done(ToolOutcome(f"touched {key}"))

    async def _done(self, outcome: ToolOutcome) -> ToolOutcome:
        if self._worker.fated("killed in tool"):
            await self._worker.killed()
        return outcome
