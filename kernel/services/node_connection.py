"""Connection to one node: a sequence of sessions, each over its own transport.

After a transport breaks, the kernel waits for the end of the session's lease, after which no attempt runs on the node.
Then it opens the next session.
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
REMOVED: Final = "the node was removed or reconfigured"
TOKEN_REPLACED: Final = "its join token was replaced: start the node with the new token"
REPLACED: Final = (
    "replaced by a newer connection; if another machine uses the same join token, create one for each (awk node add)"
)


class Transport(NamedTuple):
    """Stream to the node's process; ``why`` returns why it ended."""

    stream: trio.abc.Stream
    why: Callable[[], str]


@asynccontextmanager
async def engine_transport(
    settings: NodeSettings, far: tuple[str, ...], name: str, environ: Mapping[str, str], cwd: str
) -> AsyncGenerator[Transport]:
    """Run the engine's command during the block. Raises CommandMissing, SpawnTransient.

    What the command creates (a pod) gets a unique name, because the previous pod may still be terminating.
    """
    fresh = f"awk-{name.replace('_', '-')}-{secrets.token_hex(3)}"
    argv = command_line(settings, far, fresh)
    async with piped_command(argv, engine_environment(settings, environ), cwd) as command:
        yield Transport(command, command.why)


class _Dialled(msgspec.Struct, eq=False):
    stream: trio.abc.Stream
    ended: str = CLOSED
    done: trio.Event = msgspec.field(default_factory=trio.Event)
    scope: trio.CancelScope = msgspec.field(default_factory=trio.CancelScope)

    def leave(self, why: str) -> None:
        self.ended = why
        self.scope.cancel()
        self.done.set()


class DialledNode(msgspec.Struct, eq=False):
    """Connections opened by one node; only the newest is used, because only the node knows which ones are dead."""

    _newest: _Dialled | None = None
    _arrived: trio.Event = msgspec.field(default_factory=trio.Event)
    _closed: bool = False

    def close(self) -> None:
        """Stop using the current connection, and accept no further ones."""
        self._closed = True
        self.leave(REMOVED)

    def leave(self, why: str) -> None:
        """Stop using the current connection, if any, and record the reason ``why``."""
        if self._newest is not None:
            self._newest.leave(why)
            self._newest = None

    async def carry(self, stream: trio.abc.Stream) -> None:
        """Use ``stream`` as the connection, and return when it is no longer used; the caller closes it."""
        if not self._closed:
            self.leave(REPLACED)
            self._newest = dialled = _Dialled(stream)
            self._arrived.set()
            await dialled.done.wait()

    @asynccontextmanager
    async def transport(self) -> AsyncGenerator[Transport]:
        """Wait for a connection, and use it until the block ends or the node opens another."""
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


NOT_DIALLED = "not connected yet: run the command printed by awk node add on that node"


Opener = Callable[[], AbstractAsyncContextManager[Transport]]


def session_with(
    term: int, enter: Callable[[str, trio.abc.Stream], Awaitable[None]], name: str, project: str, hello_seconds: float
) -> NodeSession:
    """Return a session of the kernel of ``term``; ``enter`` serves connections from the node to Daemon MCP."""
    return NodeSession(name, project, term, partial(enter, name), hello_seconds=hello_seconds)


class NodeConnection(msgspec.Struct, eq=False, kw_only=True):
    """Sessions and state of one node, and whether it is draining."""

    name: str
    settings: NodeSettings
    draining: bool
    new_session: Callable[[], NodeSession]
    opener: Opener | None
    """None if the node opens the connection."""
    changed: Callable[["NodeConnection", bool], None]
    """Called on each update; the bool is whether ``reach`` changed."""
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
        """Return the current state of the node."""
        return NodeState(
            name=self.name,
            settings=self.settings,
            state=node_states.standing(self.reach, draining=self.draining),
            since_ms=self.since_ms,
            draining=self.draining,
            why=None if self.reach == "up" else self.why,
        )

    async def run(self) -> None:
        """Run one session after another until cancelled or asked to leave."""
        failures = refusals = 0
        while not self._leaving.is_set():
            self._move("began", self.why)
            began = trio.current_time()
            session = self.session = self.new_session()
            try:
                refused = await self._speak(session)
                held_seconds = trio.current_time() - began if session.connected.is_set() else 0.0
                if await session.fence():
                    self._move("fenced", "no answer within the lease: no attempt runs there any more")
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
        """Stop connecting; ``run`` returns when no attempt can run on the node."""
        if not self._leaving.is_set():
            self._leaving.set()
            self._connecting.cancel()
            self._move("broke", REMOVED)

    async def _speak(self, session: NodeSession) -> NodeRefused | None:
        """Use one transport until it breaks, and return the refusal by either side, if any."""
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
                        why = transport.why()  # also set if a newer connection replaced it
        except (SpawnTransient, CommandMissing) as error:
            why = str(error)
        except Exception as error:
            # After any failure the lease is still awaited, and other nodes are not affected.
            logger.exception("node.failed %s", self.name)
            why = f"internal error ({type(error).__name__}): see kernel.log"
        if not self._leaving.is_set():
            self._move("broke" if refusal is None else "refused", why if refusal is None else str(refusal))
        return refusal

    def _move(self, event: NodeEvent, why: str | None = None) -> None:
        before, previous_why = self.reach, self.why
        self.reach = node_states.after(before, event)
        self.why = None if self.reach == "up" else why or self.why
        if self.reach != before:
            self.since_ms = self.now_ms()
            level = logging.WARNING if self.reach == "lost" or event == "refused" else logging.INFO
            logger.log(level, "node.%s %s: %s", self.reach, self.name, self.why or event)
        if (self.reach, self.why) != (before, previous_why):
            self.changed(self, self.reach != before)
