"""The way to one node: a session with it, and the transports that carry the session one after the other.

A transport that breaks is opened anew, at once and then more seldom; within its lease the node goes on with what it was
given. Past the lease nothing runs there any more, and the next transport carries a new session.
"""

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import trio

from kernel.policy import node_states
from kernel.policy.node_states import NodeEvent, NodeState, Reach
from kernel.procs.launcher import Launcher
from kernel.procs.node.session import NodeRefused
from kernel.procs.piped_command import CommandMissing
from kernel.procs.spec import SpawnTransient
from protocol.node import NodeFacts
from protocol.project import NodeSettings

logger = logging.getLogger(__name__)

WATCH_SECONDS = 0.1
"""Between looks whether a transport that was opened leads to a node."""

NOT_DIALLED = "it has not dialled yet: what awk node add printed is typed there"


class NodeSession(Protocol):
    """The kernel's side of one session with a node."""

    @property
    def facts(self) -> NodeFacts | None:
        """The node's own account of itself."""
        ...

    @property
    def launcher(self) -> Launcher:
        """Starts processes there."""
        ...

    @property
    def lost(self) -> trio.Event:
        """Set once the node has certainly ended everything."""
        ...

    @property
    def connected(self) -> bool:
        """True while the node answers."""
        ...

    async def run(self, transport: trio.abc.Stream) -> None:
        """Speak over ``transport`` until that breaks. Raises NodeRefused."""
        ...

    async def keep(self) -> None:
        """Watch over the lease."""
        ...


class Transport(Protocol):
    """A way to the node's process, and the reason why it ended."""

    @property
    def stream(self) -> trio.abc.Stream:
        """The bytes that the session is spoken over."""
        ...

    def why(self) -> str:
        """The reason, in words."""
        ...


Opener = Callable[[], AbstractAsyncContextManager[Transport]]


class NodeConnection:
    """One node: its sessions, its state, and whether it is given anything new."""

    def __init__(
        self,
        name: str,
        settings: NodeSettings,
        *,
        draining: bool,
        new_session: Callable[[str], NodeSession],
        opener: Opener,
        changed: Callable[["NodeConnection", bool], None],
        now_ms: Callable[[], int],
        chance: Callable[[], float],
    ) -> None:
        """``changed`` is told of another reason, too; and whether the state is another one."""
        self.name = name
        self.settings = settings
        self.draining = draining
        self.session: NodeSession | None = None
        self.reach: Reach = "off"
        self.since_ms = now_ms()
        self.why = NOT_DIALLED if settings.via == "join" else None
        self._new_session = new_session
        self._opener = opener
        self._changed = changed
        self._now_ms = now_ms
        self._chance = chance
        self._connecting = trio.CancelScope()
        self._leaving = False
        self._was_up = False
        """The session of now was connected once: something may run there."""

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
        self._move("began")
        while not self._leaving:
            self._was_up = False
            self.session = session = self._new_session(self.name)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.keep)
                nursery.start_soon(self._connect, session, nursery.cancel_scope)
                await session.lost.wait()
                self._move("fenced", "it did not answer for longer than its lease: nothing runs there any more")
                nursery.cancel_scope.cancel()
        self._move("ended")

    def leave(self) -> None:
        """Connect no more. ``run`` ends once nothing can run there."""
        if not self._leaving:
            self._leaving = True
            self._connecting.cancel()
            self._move("broke", "it is not wanted any more, or in another way")

    async def _connect(self, session: NodeSession, all_of_it: trio.CancelScope) -> None:
        failures = refusals = 0
        with trio.CancelScope() as self._connecting:
            while not self._leaving:
                began = trio.current_time()
                refused = await self._speak(session)
                failures = node_states.failures_after(failures, trio.current_time() - began if self._was_up else 0.0)
                refusals = 0 if refused is None else 1 if refused.passes else refusals + 1
                pause = node_states.pause_seconds(failures, self._chance())
                await trio.sleep(pause if refused is None else node_states.refused_seconds(refusals))
                self._move("began", self.why)
        if not self._was_up:
            all_of_it.cancel()

    async def _speak(self, session: NodeSession) -> NodeRefused | None:
        """Speak over one transport until it breaks. Returns why the node was refused, or refused; None: it was not."""
        refusal: NodeRefused | None = None
        why = "the stream ended"
        try:
            async with self._opener() as transport:
                try:
                    refusal = await self._speak_over(transport.stream, session)
                finally:
                    why = transport.why()  # also where another one has taken its place
        except (SpawnTransient, CommandMissing) as error:
            why = str(error)
        except Exception as error:
            # Whatever it is, the session goes on: its lease is watched to the end, and other nodes have nothing of it.
            logger.exception("node.failed %s", self.name)
            why = f"the kernel failed with it ({type(error).__name__}): see kernel.log"
        self._move("broke" if refusal is None else "refused", why if refusal is None else str(refusal))
        return refusal

    async def _speak_over(self, stream: trio.abc.Stream, session: NodeSession) -> NodeRefused | None:
        """Speak until ``stream`` breaks, and note when the node is up. Returns why it was refused, or refused."""
        refusal: NodeRefused | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tell_when_up, session)
            try:
                await session.run(stream)
            except NodeRefused as refused:
                refusal = refused
            nursery.cancel_scope.cancel()
        return refusal

    async def _tell_when_up(self, session: NodeSession) -> None:
        while not session.connected:  # noqa: ASYNC110  (a session tells nobody)
            await trio.sleep(WATCH_SECONDS)
        self._was_up = True
        self._move("opened")

    def _move(self, event: NodeEvent, why: str | None = None) -> None:
        before, told = self.reach, self.why
        self.reach = node_states.after(before, event)
        self.why = None if self.reach == "up" else why or self.why
        if self.reach != before:
            self.since_ms = self._now_ms()
            level = logging.WARNING if self.reach == "lost" or event == "refused" else logging.INFO
            logger.log(level, "node.%s %s: %s", self.reach, self.name, self.why or event)
        if (self.reach, self.why) != (before, told):
            self._changed(self, self.reach != before)
