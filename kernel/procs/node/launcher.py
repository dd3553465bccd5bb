"""The launcher of a node: what it starts there is leased to the node of one session.

A node may speak of what it was given, and of nothing else: a report of a process that it does not have, an answer that
nobody asked for, or bytes beyond its credit end the session.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio

from kernel.procs.handle import Handle
from kernel.procs.node.channel import Channel
from kernel.procs.node.remote_process import NodeHandle, RemoteProcess
from kernel.procs.node.wire import Garbled, Wire
from kernel.procs.spawn import TAKE_BACK_SECONDS
from kernel.procs.spec import NodeLost, SpawnTransient, Spec
from protocol.node import (
    CONNECTION,
    MOST_CONNECTIONS,
    MOST_PROCESSES,
    Beat,
    Close,
    Credit,
    Data,
    End,
    Need,
    NodeFacts,
    NodeSays,
    NotSpawned,
    Opened,
    Released,
    Spawn,
    channel_of,
)
from protocol.text import shown_name

ANSWER_SECONDS: Final = 90.0
"""For a node to start something: longer than it waits itself for a keeper."""


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
            self._wire.say(
                Spawn(
                    process=process.number,
                    attempt=spec.attempt,
                    argv=spec.argv,
                    cwd=spec.cwd,
                    env=spec.env,
                    sandbox=spec.sandbox,
                )
            )
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
        directory = Path(facts.state_dir) / "run" / spec.attempt
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
