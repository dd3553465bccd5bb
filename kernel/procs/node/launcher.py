"""The launcher of a node: what it starts there is leased to the node of one session.

A node may speak of what it was given, and of nothing else: a report of a process that it does not have, an answer that
nobody asked for, or bytes beyond its credit end the session.
"""

from collections.abc import Callable
from signal import SIGKILL
from typing import Final

import trio

from kernel.procs.attempt_dir import AttemptDir
from kernel.procs.handle import CLOSE_SECONDS, Handle
from kernel.procs.node.wire import Channel, Garbled, Wire
from kernel.procs.spawn import TAKE_BACK_SECONDS
from kernel.procs.spec import NodeLost, SpawnTransient, Spec
from protocol import node
from protocol.ipc import Bound, Census, Exited, Kill
from protocol.node import (
    CONNECTION,
    MOST_CONNECTIONS,
    MOST_PROCESSES,
    STDERR,
    STDIN,
    STDOUT,
    Beat,
    ChannelFrame,
    Close,
    Credit,
    Data,
    Destroy,
    End,
    Need,
    NodeFacts,
    NodeSays,
    NotSpawned,
    Opened,
    ProcessEnded,
    Release,
    Released,
    Spawn,
    Spawned,
    Tell,
    channel_of,
)
from protocol.text import shown_name

ANSWER_SECONDS: Final = 90.0
"""For a node to start something: longer than it waits itself for a keeper."""


DESTROY_SECONDS: Final = 10.0
"""For a node to end something without the keeper's help. One that cannot is not believed any more: its lease ends."""
EXIT_CHARACTERS: Final = 16 * 1024
"""For a node to say how a process ended: the path that could not be executed may be long."""
LOST: Final = Exited(signal=SIGKILL, lost=True)


class RemoteProcess:
    """A process on a node, from its order to its release. To a handle it is the way to its keeper."""

    def __init__(self, number: int, wire: Wire) -> None:
        self.number = number
        self._wire = wire
        self.streams = (
            Channel(channel_of(number, STDIN), wire, reads=False),
            Channel(channel_of(number, STDOUT), wire),
            Channel(channel_of(number, STDERR), wire),
        )
        self.answer: Spawned | NotSpawned | None = None
        self.exited: Exited | None = None
        self.released = False
        """What comes from the node about it is ignored."""
        self.heard = trio.lowlevel.ParkingLot()
        self.gone = trio.Event()
        """The node has nothing of it any more."""

    def tell(self, order: Kill | Bound | node.Signal | Destroy) -> None:
        """Give the node an order about it."""
        self._wire.say(Tell(process=self.number, order=order))

    def take(self, frame: Spawned | NotSpawned | ProcessEnded) -> None:
        """Have a frame take effect. Raises Garbled for one that does not follow from those before."""
        if not isinstance(frame, ProcessEnded):
            if self.answer is not None:
                raise Garbled(f"process {self.number} was started twice")
            self.answer = frame
        else:
            if not isinstance(self.answer, Spawned) or self.exited is not None or frame.exited.lost:
                raise Garbled(f"process {self.number} does not run, and cannot end")
            if len(frame.exited.failed or "") + len(frame.exited.exceeded or "") > EXIT_CHARACTERS:
                raise Garbled(f"the end of process {self.number} has more than {EXIT_CHARACTERS} characters")
            self.exited = frame.exited
        self.heard.unpark_all()

    def take_bytes(self, role: int, frame: ChannelFrame) -> None:
        """Have a frame of one of its streams take effect. Raises Garbled."""
        if not isinstance(self.answer, Spawned):
            raise Garbled(f"process {self.number} was not started, and has no streams")
        if not self.released:
            self.streams[role].take(frame)

    def fail(self) -> None:
        """Note that its session is over, and that it has ended."""
        self.exited = self.exited or LOST
        for stream in self.streams:
            stream.fail()
        self.gone.set()
        self.heard.unpark_all()

    # -- as KeeperWire ----------------------------------------------------------------------------------

    async def receive(self) -> Exited:
        """Return how it ended, once that is known."""
        while self.exited is None:
            await self.heard.park()
        return self.exited

    async def send(self, frame: Kill | Bound | Census) -> None:
        """Tell the keeper. Its processes are not counted over a node."""
        if not isinstance(frame, Census):
            self.tell(frame)
        await trio.lowlevel.checkpoint()

    def is_quiet(self) -> bool:
        """Return whether its end is not known."""
        return self.exited is None

    def close(self) -> None:
        """Have the node end what is left of it, and forget it."""
        if not self.released:
            self.released = True
            self._wire.say(Release(process=self.number))
            for stream in self.streams:
                stream.fail()

    free = close


class NodeHandle(Handle):
    """A process on a node. It ends at the latest with the node's lease: then ``wait`` says ``lost``."""

    def __init__(
        self, process: RemoteProcess, started: Spawned, attempt: str, directory: str, abandon: Callable[[str], None]
    ) -> None:
        super().__init__(
            attempt=attempt,
            cookie="",
            pid=started.pid,
            keeper_pid=started.keeper,
            processes=(),
            streams=process.streams,
            link=process,
            directory=AttemptDir(directory, remote=True),
        )
        self._process = process
        self._abandon = abandon

    async def count(self) -> int:
        """Return 0: its processes are not counted."""
        await trio.lowlevel.checkpoint()
        return 0

    async def signal(self, number: int) -> None:
        """Have the node signal the child alone."""
        if self.pid:
            self._process.tell(node.Signal(number=number))
        await trio.lowlevel.checkpoint()

    async def destroy(self) -> Exited:
        """Have the node kill it without the keeper's help. A node that cannot is given up, and its lease awaited."""
        if self.is_quiet():
            self._process.tell(Destroy())
            with trio.move_on_after(DESTROY_SECONDS):
                return await self.wait()
            self._abandon(f"{self.attempt} was not ended for {DESTROY_SECONDS:.0f} s")
        return await self.wait()

    async def aclose(self) -> None:
        """Kill what still runs, and wait until it is gone: at the latest its lease is over then. See ``Handle``."""
        await super().aclose()
        with trio.move_on_after(CLOSE_SECONDS, shield=True):  # for its directory to be removed
            await self._process.gone.wait()


class NodeLauncher:
    """Starts processes on the node of one session, and knows what is leased there."""

    def __init__(
        self,
        name: str,
        wire: Wire,
        facts: Callable[[], NodeFacts | None],
        abandon: Callable[[str], None],
        serve: Callable[[Channel], None],
    ) -> None:
        """``facts`` returns None while the node is not connected. ``abandon`` gives it up.

        ``serve`` is given each new connection to the daemon's MCP.
        """
        self._name = name
        self._wire = wire
        self._facts = facts
        self._abandon = abandon
        self._serve = serve
        self._processes: dict[int, RemoteProcess] = {}
        self._numbered = 0
        self._connections: dict[int, Channel] = {}
        self._connected = 0

    def need(self, modules: frozenset[str]) -> None:
        """Have workers that import ``modules`` start sooner there."""
        self._wire.say(Need(modules=tuple(sorted(modules))))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Wait until cancelled: it is the session that is run."""
        task_status.started()
        await trio.sleep_forever()

    async def spawn(self, spec: Spec) -> Handle:
        """Start a worker or a command there. Raises SpawnTransient; NodeLost where the node is not there, or goes."""
        facts = self._facts()
        if facts is None:
            raise NodeLost(f"cannot start {spec.attempt}: node {self._name} is not connected")
        if len(self._processes) >= MOST_PROCESSES:
            raise SpawnTransient(f"the node has {MOST_PROCESSES} processes, and takes no more")
        self._numbered += 1
        process = self._processes[self._numbered] = RemoteProcess(self._numbered, self._wire)
        try:
            self._wire.say(Spawn(process=process.number, **spec.order))
            with trio.fail_after(ANSWER_SECONDS):
                while process.answer is None and process.exited is None:
                    await process.heard.park()
        except trio.TooSlowError as error:
            process.close()
            raise SpawnTransient(f"cannot start {spec.attempt}: no answer from node {self._name}") from error
        except BaseException:
            process.close()
            with trio.move_on_after(TAKE_BACK_SECONDS, shield=True):
                await process.gone.wait()
            raise
        answer = process.answer
        if answer is None:
            raise NodeLost(f"cannot start {spec.attempt}: node {self._name} was lost")
        if isinstance(answer, NotSpawned):
            if answer.in_use:
                raise FileExistsError(f"{spec.attempt} is in use on node {self._name}")
            raise SpawnTransient(f"cannot start {spec.attempt} on node {self._name}: {shown_name(answer.why)}")
        directory = f"{facts.state_dir}/run/{spec.attempt}"
        return NodeHandle(process, answer, spec.attempt, directory, self._abandon)

    def take(self, frame: NodeSays) -> None:
        """Have a frame take effect. Raises Garbled, and then it has none."""
        assert not isinstance(frame, Beat)
        if isinstance(frame, Data | End | Close | Credit):
            number, role = divmod(frame.channel, 4)
            if role != CONNECTION:
                self._process(number).take_bytes(role, frame)
            elif (connection := self._connections.get(number)) is None:
                raise Garbled(f"connection {number} is not open")
            else:
                connection.take(frame)
        elif isinstance(frame, Opened):
            self._open(frame.connection)
        elif isinstance(frame, Released):
            if not self._process(frame.process).released:
                raise Garbled(f"process {frame.process} is given back, and nobody asked for that")
            self._processes.pop(frame.process).gone.set()
        else:
            self._process(frame.process).take(frame)
            if isinstance(frame, NotSpawned):
                self._processes.pop(frame.process).gone.set()

    def fail(self) -> None:
        """Note that the session is over: all that was leased has ended."""
        for process in self._processes.values():
            process.fail()
        self._processes.clear()
        for connection in self._connections.values():
            connection.fail()
        self._connections.clear()

    def _process(self, number: int) -> RemoteProcess:
        process = self._processes.get(number)
        if process is None:
            raise Garbled(f"process {number} is not leased to it")
        return process

    def _open(self, number: int) -> None:
        self._connections = {one: channel for one, channel in self._connections.items() if not channel.is_over}
        if number != self._connected + 1 or len(self._connections) >= MOST_CONNECTIONS:
            raise Garbled(f"connection {number} is opened after {self._connected}, beside {len(self._connections)}")
        self._connected = number
        channel = self._connections[number] = Channel(channel_of(number, CONNECTION), self._wire)
        self._serve(channel)
