"""The leased processes of a node, on the kernel's side: each frame from there is judged by it before it takes effect.

A node sees what it was given, and says something about that, or nothing: a report of a process that it does not have,
an answer that nobody asked for, or bytes beyond its credit end the transport.
"""

from collections.abc import Callable, Mapping
from signal import SIGKILL
from typing import Final

import trio

from kernel.procs.node.channels import ConnectionEnd, ReadingEnd, Signal, WritingEnd
from kernel.procs.node.conversation import Conversation
from kernel.procs.node.framing import Garbled
from kernel.procs.spec import SpawnTransient
from protocol.ipc import Exited
from protocol.node import (
    CONNECTION,
    MOST_CONNECTIONS,
    MOST_PROCESSES,
    STDERR,
    STDIN,
    STDOUT,
    Credit,
    Data,
    End,
    NodeSays,
    NotSpawned,
    Opened,
    ProcessEnded,
    Release,
    Released,
    Shut,
    Spawned,
    channel_of,
)

WORDS: Final = 16 * 1024
"""Characters in which a node may say how a process ended: the path that could not be executed may be long."""
LOST: Final = Exited(signal=SIGKILL, lost=True)


class RemoteProcess:
    """A process on a node, from its order to its release."""

    def __init__(self, number: int, conversation: Conversation) -> None:
        self.number = number
        self.conversation = conversation
        self.stdin = WritingEnd(channel_of(number, STDIN), conversation)
        self.stdout = ReadingEnd(channel_of(number, STDOUT), conversation)
        self.stderr = ReadingEnd(channel_of(number, STDERR), conversation)
        self.answer: Spawned | NotSpawned | None = None
        self.exited: Exited | None = None
        self.released = False
        """Nobody wants to know more of it; what comes yet is passed over."""
        self.heard = Signal()
        self.gone = trio.Event()
        """The node has nothing of it any more."""

    def release(self) -> None:
        """Have the node end what is left of it, and forget it."""
        if not self.released:
            self.released = True
            self.conversation.say(Release(process=self.number))
            for end in (self.stdin, self.stdout, self.stderr):
                end.fail()

    def take(self, frame: Spawned | NotSpawned | ProcessEnded) -> None:
        """Take in the node's word about it. Raises Garbled for one that does not follow from those before."""
        if isinstance(frame, ProcessEnded):
            if not isinstance(self.answer, Spawned) or self.exited is not None or frame.exited.lost:
                raise Garbled(f"the end of process {self.number} is told, which does not run")
            if len(frame.exited.failed or "") + len(frame.exited.exceeded or "") > WORDS:
                raise Garbled(f"the end of process {self.number} is told in more words than anybody reads")
            self.exited = frame.exited
        elif self.answer is not None:
            raise Garbled(f"process {self.number} was started twice")
        else:
            self.answer = frame
        self.heard.announce()

    def take_bytes(self, role: int, frame: Data | End | Shut | Credit) -> None:
        """Take in bytes, or a word about them. Raises Garbled."""
        if not isinstance(self.answer, Spawned):
            raise Garbled(f"process {self.number} has streams, and was not started")
        if self.released:
            return
        if role == STDIN:
            _write_on(self.stdin, frame)
        else:
            _read_on(self.stdout if role == STDOUT else self.stderr, frame)

    def fail(self) -> None:
        """The session is no more, and what was leased has ended."""
        self.exited = self.exited or LOST
        for end in (self.stdin, self.stdout, self.stderr):
            end.fail()
        self.gone.set()
        self.heard.announce()


class Leased:
    """The processes and connections of one session."""

    def __init__(self, conversation: Conversation, serve: Callable[[int, ConnectionEnd], None]) -> None:
        """``serve`` is given each new connection to the daemon's MCP."""
        self._conversation = conversation
        self._serve = serve
        self._processes: dict[int, RemoteProcess] = {}
        self._numbered = 0
        self._connections: dict[int, ConnectionEnd] = {}
        self._connected = 0

    def new_process(self) -> RemoteProcess:
        """Give the next process its number. Raises SpawnTransient where there are too many."""
        if len(self._processes) >= MOST_PROCESSES:
            raise SpawnTransient(f"the node has {MOST_PROCESSES} processes, and takes no more")
        self._numbered += 1
        process = self._processes[self._numbered] = RemoteProcess(self._numbered, self._conversation)
        return process

    def __len__(self) -> int:
        return len(self._processes)

    def take(self, frame: NodeSays) -> None:
        """Let a frame take effect. Raises Garbled, and then it has none."""
        if isinstance(frame, Data | End | Shut | Credit):
            number, role = divmod(frame.channel, 4)
            if role == CONNECTION:
                take_connection_bytes(self._connections, self._connected, number, frame)
                self.closed(number)
            else:
                self._process(number).take_bytes(role, frame)
        elif isinstance(frame, Opened):
            self._open(frame.connection)
        elif isinstance(frame, Released):
            if not self._process(frame.process).released:
                raise Garbled(f"process {frame.process} is given back, and nobody asked for that")
            self._forget(frame.process)
        else:
            self._process(frame.process).take(frame)
            if isinstance(frame, NotSpawned):
                self._forget(frame.process)

    def fail(self) -> None:
        """The session is no more."""
        for process in self._processes.values():
            process.fail()
        self._processes.clear()
        for connection in self._connections.values():
            connection.fail()
        self._connections.clear()

    def closed(self, number: int) -> None:
        """Note that this side is done with a connection."""
        connection = self._connections.get(number)
        if connection is not None and connection.is_over:
            del self._connections[number]

    def _forget(self, number: int) -> None:
        self._processes.pop(number).gone.set()

    def _process(self, number: int) -> RemoteProcess:
        process = self._processes.get(number)
        if process is None:
            raise Garbled(f"process {number} is not leased to it")
        return process

    def _open(self, number: int) -> None:
        if number != self._connected + 1 or len(self._connections) >= MOST_CONNECTIONS:
            raise Garbled(f"connection {number} is opened after {self._connected}, beside {len(self._connections)}")
        self._connected = number
        connection = self._connections[number] = ConnectionEnd(channel_of(number, CONNECTION), self._conversation)
        self._serve(number, connection)


def take_connection_bytes(
    connections: Mapping[int, ConnectionEnd], last: int, number: int, frame: Data | End | Shut | Credit
) -> None:
    """Take in bytes of a connection, or a word about them. Raises Garbled for one that there is not.

    A reader's word may cross the writer's last: for a connection that was there it is passed over.
    """
    connection = connections.get(number)
    if isinstance(frame, Data | End):
        if connection is None:
            raise Garbled(f"connection {number} is not open")
        _read_on(connection.reading, frame)
    elif connection is not None:
        _write_on(connection.writing, frame)
    elif number > last:
        raise Garbled(f"connection {number} was never open")


def _write_on(end: WritingEnd, frame: Data | End | Shut | Credit) -> None:
    if isinstance(frame, Credit):
        end.grant(frame.size)
    elif isinstance(frame, Shut):
        end.shut()
    else:
        raise Garbled(f"channel {end.channel} is written to from its reading side")


def _read_on(end: ReadingEnd, frame: Data | End | Shut | Credit) -> None:
    if isinstance(frame, Data):
        end.feed(frame.data)
    elif isinstance(frame, End):
        end.end()
    else:
        raise Garbled(f"channel {end.channel} is read from its writing side")
