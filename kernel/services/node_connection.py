"""The way to one node: one session after the other, each over a transport of its own.

After a transport has broken the lease of its session is waited for; then nothing runs on the node any more, and the
next one is opened.
"""

import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Final, NamedTuple

import msgspec
import trio

from kernel.agents.engines import command_line, engine_environment
from kernel.policy import node_states
from kernel.policy.node_states import NodeEvent, NodeState, Reach
from kernel.procs.command import CommandMissing, piped_command
from kernel.procs.node.session import NodeRefused, NodeSession
from kernel.procs.spec import SpawnTransient
from protocol.project import NodeSettings

logger = logging.getLogger(__name__)

CLOSED: Final = "the node closed the connection"
REPLACED: Final = (
    "it has connected again, or another machine has the same join token: each needs its own (awk node add)"
)


class Transport(NamedTuple):
    """A way to the node's process, and the reason why it ended."""

    stream: trio.abc.Stream
    why: Callable[[], str]


@asynccontextmanager
async def engine_transport(
    settings: NodeSettings, far: tuple[str, ...], name: str, environ: Mapping[str, str], cwd: str
) -> AsyncGenerator[Transport]:
    """Start the engine's command while the block lasts. Raises CommandMissing, SpawnTransient.

    What it creates has a name that was never used: the pod of the previous start may still be ending.
    """
    fresh = f"awk-{name.replace('_', '-')}-{secrets.token_hex(3)}"
    argv = command_line(settings, far, fresh)
    async with piped_command(argv, engine_environment(settings, environ), cwd) as command:
        yield Transport(command, command.why)


class _Dialled(msgspec.Struct, eq=False):
    """A connection that a node opened."""

    stream: trio.abc.Stream
    ended: str = CLOSED
    done: trio.Event = msgspec.field(default_factory=trio.Event)
    scope: trio.CancelScope = msgspec.field(default_factory=trio.CancelScope)

    def leave(self, why: str) -> None:
        self.ended = why
        self.scope.cancel()
        self.done.set()


class DialledNode(msgspec.Struct, eq=False):
    """The connections that one node opens: of two the newer counts, for the node knows which of its own are dead."""

    _newest: _Dialled | None = None
    _arrived: trio.Event = msgspec.field(default_factory=trio.Event)
    _closed: bool = False

    def close(self) -> None:
        """Use no connection any more."""
        self._closed = True
        self.leave()

    def leave(self, why: str = CLOSED) -> None:
        """Use the connection that there is no more: whoever opened it is not believed any longer."""
        if self._newest is not None:
            self._newest.leave(why)
            self._newest = None

    async def carry(self, stream: trio.abc.Stream) -> None:
        """Have ``stream`` used; return when it is used no more. The caller closes it."""
        if not self._closed:
            self.leave(REPLACED)
            self._newest = dialled = _Dialled(stream)
            self._arrived.set()
            await dialled.done.wait()

    @asynccontextmanager
    async def transport(self) -> AsyncGenerator[Transport]:
        """Wait for a connection; it counts while the block lasts, or until the node opens another."""
        while self._newest is None:
            self._arrived = trio.Event()
            await self._arrived.wait()
        dialled = self._newest
        try:
            with dialled.scope:
                yield Transport(dialled.stream, lambda: dialled.ended)
        finally:
            dialled.done.set()
            if self._newest is dialled:
                self._newest = None


NOT_DIALLED = "it has not connected yet: run what awk node add printed there"


Opener = Callable[[], AbstractAsyncContextManager[Transport]]


def session_with(
    term: int, enter: Callable[[str, trio.abc.Stream], Awaitable[None]], name: str, project: str, hello_seconds: float
) -> NodeSession:
    """Return a session of the kernel of ``term``. ``enter`` serves connections to Daemon MCP from the node."""
    return NodeSession(name, project, term, partial(enter, name), hello_seconds=hello_seconds)


class NodeConnection(msgspec.Struct, eq=False, kw_only=True):
    """One node: its sessions, its state, and whether it is given anything new."""

    name: str
    settings: NodeSettings
    draining: bool
    new_session: Callable[[], NodeSession]
    opener: Opener | None
    """None where the node connects by itself."""
    changed: Callable[["NodeConnection", bool], None]
    """Called with whether the state moved."""
    now_ms: Callable[[], int]
    chance: Callable[[], float]
    session: NodeSession | None = None
    reach: Reach = "off"
    since_ms: int = 0
    why: str | None = None
    dialled: DialledNode = msgspec.field(default_factory=DialledNode)
    _connecting: trio.CancelScope = msgspec.field(default_factory=trio.CancelScope)
    _leaving: trio.Event = msgspec.field(default_factory=trio.Event)

    def __post_init__(self) -> None:
        self.since_ms = self.now_ms()
        self.why = NOT_DIALLED if self.settings.via == "join" else None

    @property
    def state(self) -> NodeState:
        """The node as it is now."""
        return NodeState(
            name=self.name,
            settings=self.settings,
            state=node_states.standing(self.reach, draining=self.draining),
            since_ms=self.since_ms,
            draining=self.draining,
            why=None if self.reach == "up" else self.why,
        )

    async def run(self) -> None:
        """Have one session after the other, until cancelled or told to leave."""
        failures = refusals = 0
        while not self._leaving.is_set():
            self._move("began", self.why)
            began = trio.current_time()
            session = self.session = self.new_session()
            try:
                refused = await self._speak(session)
                held_seconds = trio.current_time() - began if session.connected.is_set() else 0.0
                if await session.fence():
                    self._move("fenced", "it did not answer for longer than its lease: nothing runs there any more")
            finally:
                session.end()
            if self._leaving.is_set():
                break
            failures = node_states.failures_after(failures, held_seconds)
            refusals = 0 if refused is None else refusals + 1
            pause = node_states.pause_seconds(failures, self.chance())
            with trio.CancelScope() as self._connecting:
                await trio.sleep(pause if refused is None else node_states.refused_seconds(refusals))
        self._move("ended")

    def leave(self) -> None:
        """Connect no more. ``run`` ends once nothing can run there."""
        if not self._leaving.is_set():
            self._leaving.set()
            self._connecting.cancel()
            self._move("broke", "it is not wanted any more, or in another way")

    async def _speak(self, session: NodeSession) -> NodeRefused | None:
        """Speak over one transport until it breaks. Returns why the node was refused, or refused; None: it was not."""
        refusal: NodeRefused | None = None
        why = "the stream ended"
        try:
            with trio.CancelScope() as self._connecting:
                async with (self.opener or self.dialled.transport)() as transport:
                    try:
                        await session.speak(transport.stream, lambda: self._move("opened"))
                    except NodeRefused as refused:
                        refusal = refused
                    finally:
                        why = transport.why()  # also where another one has taken its place
        except (SpawnTransient, CommandMissing) as error:
            why = str(error)
        except Exception as error:
            # Whatever it is, the lease is watched to the end, and other nodes have nothing of it.
            logger.exception("node.failed %s", self.name)
            why = f"the kernel failed with it ({type(error).__name__}): see kernel.log"
        if not self._leaving.is_set():
            self._move("broke" if refusal is None else "refused", why if refusal is None else str(refusal))
        return refusal

    def _move(self, event: NodeEvent, why: str | None = None) -> None:
        before, told = self.reach, self.why
        self.reach = node_states.after(before, event)
        self.why = None if self.reach == "up" else why or self.why
        if self.reach != before:
            self.since_ms = self.now_ms()
            level = logging.WARNING if self.reach == "lost" or event == "refused" else logging.INFO
            logger.log(level, "node.%s %s: %s", self.reach, self.name, self.why or event)
        if (self.reach, self.why) != (before, told):
            self.changed(self, self.reach != before)
