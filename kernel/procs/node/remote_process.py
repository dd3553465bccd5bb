"""The kernel's side of a process on a node: a regular handle, with a remote keeper, streams and directory.

Each frame about the process is checked against its lease before it takes effect.
"""

from collections.abc import Callable
from signal import SIGKILL
from typing import Final

import trio

from kernel.procs.attempt_dir import AttemptDir
from kernel.procs.handle import CLOSE_SECONDS, Handle
from kernel.procs.node.wire import Garbled, NodeChannel, NodeWire
from protocol import node
from protocol.ipc import Bound, Census, Exited, Kill

DESTROY_SECONDS: Final = 10.0
"""Timeout for a node to kill a process without its keeper. After that the kernel no longer trusts
the node, and waits for the end of its lease.
"""
EXIT_CHARACTERS: Final = 16 * 1024
"""Maximum length of an exit message, which may contain the path that could not be executed."""
LOST: Final = Exited(signal=SIGKILL, lost=True)


class RemoteProcess:
    """A process on a node, from its order to its release. Its handle uses it as the keeper's connection."""

    def __init__(self, number: int, wire: NodeWire) -> None:
        self.number = number
        self._wire = wire
        self.streams = (
            NodeChannel(node.channel_of(number, node.STDIN), wire, reads=False),
            NodeChannel(node.channel_of(number, node.STDOUT), wire),
            NodeChannel(node.channel_of(number, node.STDERR), wire),
        )
        self.answer: node.Spawned | node.NotSpawned | None = None
        self.exited: Exited | None = None
        self.released = False
        """Set when frames of the node about it are ignored."""
        self.heard = trio.lowlevel.ParkingLot()
        self.gone = trio.Event()
        """Set when the node has removed it."""

    def tell(self, order: Kill | Bound | node.Signal | node.Destroy) -> None:
        """Send an order about the process to the node."""
        self._wire.say(node.Tell(process=self.number, order=order))

    def take(self, frame: node.Spawned | node.NotSpawned | node.ProcessEnded) -> None:
        """Process a frame about the process. Raises Garbled for a frame in the wrong order."""
        if not isinstance(frame, node.ProcessEnded):
            if self.answer is not None:
                raise Garbled(f"process {self.number} was started twice")
            self.answer = frame
        else:
            if not isinstance(self.answer, node.Spawned) or self.exited is not None or frame.exited.lost:
                raise Garbled(f"process {self.number} is not running, so it cannot end")
            if len(frame.exited.failed or "") + len(frame.exited.exceeded or "") > EXIT_CHARACTERS:
                raise Garbled(f"the end of process {self.number} has more than {EXIT_CHARACTERS} characters")
            self.exited = frame.exited
        self.heard.unpark_all()

    def take_bytes(self, role: int, frame: node.ChannelFrame) -> None:
        """Process a frame of the stream ``role`` of the process. Raises Garbled."""
        if not isinstance(self.answer, node.Spawned):
            raise Garbled(f"process {self.number} was not started, and has no streams")
        if not self.released:
            self.streams[role].take(frame)

    def fail(self) -> None:
        """Note that the session is over, and the process has ended with it."""
        self.exited = self.exited or LOST
        for stream in self.streams:
            stream.fail()
        self.gone.set()
        self.heard.unpark_all()

    # -- as KeeperWire ----------------------------------------------------------------------------------

    async def receive(self) -> Exited:
        """Wait for the end of the process, and return its exit."""
        while self.exited is None:
            await self.heard.park()
        return self.exited

    async def send(self, frame: Kill | Bound | Census) -> None:
        """Send ``frame`` to the keeper; ignore Census, because processes are not counted on a node."""
        if not isinstance(frame, Census):
            self.tell(frame)
        await trio.lowlevel.checkpoint()

    def is_quiet(self) -> bool:
        """Return whether the end of the process is not known yet."""
        return self.exited is None

    def close(self) -> None:
        """Let the node stop the process's remaining tree, and forget the process."""
        if not self.released:
            self.released = True
            self._wire.say(node.Release(process=self.number))
            for stream in self.streams:
                stream.fail()

    free = close


class NodeHandle(Handle):
    """A process on a node. When the node's lease has expired, ``wait`` returns an exit marked ``lost``."""

    def __init__(
        self,
        process: RemoteProcess,
        started: node.Spawned,
        attempt: str,
        directory: str,
        abandon: Callable[[str], None],
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
        """Let the node signal only the child."""
        if self.pid:
            self._process.tell(node.Signal(number=number))
        await trio.lowlevel.checkpoint()

    async def destroy(self) -> Exited:
        """Let the node kill the process without its keeper.

        If the node does not confirm that, abandon it and wait for the end of its lease.
        """
        if self.is_quiet():
            self._process.tell(node.Destroy())
            with trio.move_on_after(DESTROY_SECONDS):
                return await self.wait()
            self._abandon(f"{self.attempt} was not killed within {DESTROY_SECONDS:.0f} s")
        return await self.wait()

    async def aclose(self) -> None:
        """Stop the process, and wait until it has exited, at the latest with its lease. See ``Handle``."""
        await super().aclose()
        with trio.move_on_after(CLOSE_SECONDS, shield=True):  # for the removal of its directory
            await self._process.gone.wait()
