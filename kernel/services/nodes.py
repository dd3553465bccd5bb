"""Nodes: other machines on which attempts may run, from the project file or added by a command.

A node in the project file requires trust, like hooks; an untrusted node is off with that reason. Changes of the file,
of trust or by commands take effect without a restart of the kernel.
"""

import hashlib
import logging
import secrets
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import trio

from kernel.agents.engines import hello_seconds
from kernel.agents.sections import LISTEN_DEFAULT, address_of, listen_unit, node_unit
from kernel.agents.trust import TrustedFiles
from kernel.policy.node_states import NodeDemand, NodeState, wanted_nodes
from kernel.procs.command import CommandMissing
from kernel.procs.launcher import Launcher
from kernel.procs.node.session import NodeSession
from kernel.procs.spec import SpawnTransient
from kernel.services.node_connection import TOKEN_REPLACED, NodeConnection, Transport, engine_transport
from kernel.services.node_listener import FOLDER, NodeListener
from kernel.source.diagnostics import BadDefinition
from kernel.store import instructions, nodes
from kernel.store.database import Reader
from kernel.store.transaction import emit_log
from kernel.store.waits import waiting_for_node
from kernel.store.writer import StoreLog
from protocol.errors import Refused
from protocol.node import NodeFacts
from protocol.project import NodeSettings

logger = logging.getLogger(__name__)

LOOKED_AT: Final = 1000
"""Maximum waiting instructions to read; more would exceed any limit anyway."""


class NodeScaling(msgspec.Struct, eq=False):
    """Decides how many members each group of nodes has: ``name-1``, ``name-2`` and so on."""

    reader: Reader
    now_ms: Callable[[], int]
    _needed_ms: dict[str, int] = {}
    """Last time that each group had work for all its nodes."""

    def members(
        self, name: str, settings: NodeSettings, there: Collection[str], running: Mapping[str, int]
    ) -> tuple[str, ...]:
        """Return the members that group ``name`` should have; existing members with work stay."""
        own = [f"{name}-{index}" for index in range(1, settings.most + 1)]
        held = [member for member in own if member in there]
        now_ms = self.now_ms()
        ready = self.reader.now(instructions.ready, now_ms, LOOKED_AT)
        asks = [one.needs for one in (*ready, *self.reader.now(waiting_for_node))]
        work = sum(running.get(member, 0) for member in held)
        demand = NodeDemand(
            waiting=sum(1 for needs in asks if needs and set(settings.labels).issuperset(needs.labels)),
            running=work,
            each=settings.workers,
            least=settings.least,
            most=settings.most,
            nodes=len(held),
            idle_seconds=(now_ms - self._needed_ms.setdefault(name, now_ms)) / 1000,
        )
        wanted = wanted_nodes(demand)
        if (demand.waiting + work) > settings.workers * (len(held) - 1):
            self._needed_ms[name] = now_ms
        by_use = sorted(own, key=lambda member: (-running.get(member, 0), member not in held, own.index(member)))
        busy = [member for member in held if running.get(member, 0)]
        return tuple(dict.fromkeys([*busy, *by_use[:wanted]]))


LOOK_SECONDS: Final = 10.0
"""Interval of checks of the project file and its trust."""
LISTENS_SECONDS: Final = 10.0
SessionMaker = Callable[[str, str, float], NodeSession]
"""Creates a session with a node of a name, for a project id, with a timeout for its first answer."""


class WantedNode(NamedTuple):
    """Node that should exist; ``why`` is the reason why no connection is tried."""

    settings: NodeSettings
    draining: bool
    added: bool
    why: str | None = None
    group: str = ""
    """Name of the group in the command or file; empty for a single node."""


class Nodes(msgspec.Struct, eq=False, kw_only=True):
    """Maintains a connection to each node that should exist."""

    log: StoreLog
    files: TrustedFiles
    state_dir: Path
    new_session: SessionMaker
    chance: Callable[[], float]
    scaling: NodeScaling
    running: Callable[[], Mapping[str, int]] = dict
    """Returns the number of attempts on each node."""
    listener: NodeListener | None = None
    """None if no node opens connections."""
    _project: str = ""
    _wanted: dict[str, WantedNode] | None = None
    _links: dict[str, NodeConnection] = {}
    _told: list[tuple[str, str, str | None]] = []
    _known_of: dict[str, tuple[str, str | None]] = {}
    """Last reported state of each node, so that repeated refusals are reported once."""
    _again: trio.Event = msgspec.field(default_factory=trio.Event)
    _taken_up: trio.Event = msgspec.field(default_factory=trio.Event)
    """Set when the wanted nodes have been applied; replaced each time."""
    _since_ms: int = 0
    _watching: list[Callable[[], None]] = []

    def __post_init__(self) -> None:
        self._since_ms = self.log.now_ms()

    def states(self) -> tuple[NodeState, ...]:
        """Return all nodes in their current state, ordered by name."""
        return tuple(self._state(name, wanted) for name, wanted in sorted(self._known().items()))

    def launcher(self, name: str) -> Launcher:
        """Return the launcher of processes on the node. Raises SpawnTransient if there is no such node now."""
        kept = self._links.get(name)
        if kept is None or kept.session is None:
            raise SpawnTransient(f"node {name} not found")
        return kept.session

    def facts(self, name: str) -> NodeFacts | None:
        """Return the facts that the node reported; None before its first connection."""
        kept = self._links.get(name)
        return None if kept is None or kept.session is None else kept.session.facts

    def watch(self, changed: Callable[[], None]) -> None:
        """Register ``changed`` to be called after each change of ``states``."""
        self._watching.append(changed)

    def look_again(self) -> None:
        """Check the project file and its trust now."""
        self._again.set()

    async def until_changed(self) -> None:
        """Wait for the end of the next check; ``states`` may have changed."""
        await self._taken_up.wait()

    def added_by_hand(self, name: str) -> bool:
        """Return whether the node was added by a command, not by the project file."""
        known = self._known().get(name)
        return known is not None and known.added

    async def add(self, name: str, settings: NodeSettings, host: str | None) -> str | None:
        """Add a node. Return its new join token if the node opens the connection, else None. Raises Refused."""
        in_file = self._known().get(name)
        token = digest = None
        if settings.via == "join":
            token = secrets.token_urlsafe(32)
            digest = hashlib.sha256(token.encode()).digest()
        if in_file is not None and not in_file.added:
            if settings.via != "join" or in_file.settings.via != "join" or digest is None:
                raise Refused(
                    "conflict", f"node {name!r} is defined in the project file", "change it there, or use another name"
                )
            await self.log.writer.commit(nodes.set_token, name, digest)
        else:
            await self.log.writer.commit(nodes.add, name, settings, digest)
        if name in self._links:
            self._links[name].dialled.leave(TOKEN_REPLACED)
        self.look_again()
        if token is None:
            return None
        with trio.move_on_after(LISTENS_SECONDS):
            while self.listener is None:
                await self._taken_up.wait()
            await self.listener.listens.wait()
            return self.listener.join_token(name, token, host)
        raise Refused("conflict", "no port for nodes could be opened", "see kernel.log for the reason")

    async def drain(self, name: str, *, draining: bool) -> None:
        """Stop or resume giving a node new work. Raises Refused (not_found)."""
        self._check_known(name)
        await self.log.writer.commit(partial(nodes.drain, draining=draining), name)
        if name in self._links:
            self._links[name].draining = draining
        self.look_again()

    async def remove(self, name: str, *, force: bool) -> None:
        """Remove a node that was added by a command; its attempts end with the lease. Raises Refused."""
        meant = {one: wanted for one, wanted in self._known().items() if name in (one, wanted.group)}
        if not meant:
            self._check_known(name)
        if not all(one.added and one.group in ("", name) for one in meant.values()):
            raise Refused(
                "conflict",
                f"node {name!r} is defined in the project file or a group",
                "remove it there, or remove the group",
            )
        at_work = sum(self.running().get(one, 0) for one in meant)
        if at_work and not force:
            hint = f"run awk node drain {name} and wait, or use --force to restart its work elsewhere"
            raise Refused("conflict", f"node {name!r} is in use: {at_work} attempts run on it", hint)
        await self.log.writer.commit(nodes.remove, name)
        self.look_again()

    def _known(self) -> dict[str, WantedNode]:
        return self.wanted() if self._wanted is None else self._wanted

    def _check_known(self, name: str) -> None:
        if name not in self._known():
            raise Refused("not_found", f"node {name[:40]!r} not found", "list the nodes with awk node list")

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Maintain connections until cancelled; reports its start once the nodes are known."""
        self._project = await self.log.writer.commit(nodes.project_id, secrets.token_hex(8))
        self._links.clear()
        self.listener = None
        async with trio.open_nursery() as nursery:
            while True:
                self._again = trio.Event()
                try:
                    self._take_up(self.wanted(), nursery)
                except Exception:
                    # A crash of this service would end its sessions, and attempts on nodes would count as lost while
                    # they still hold their lease.
                    logger.exception("nodes.look_failed")
                told, self._told = self._told, []
                for name, state, why in told:
                    if state != "connecting" and self._known_of.get(name) != (state, why):
                        self._known_of[name] = state, why
                        with suppress(Refused):  # full disk: kernel.log has the change
                            data = {"node": name, "state": state, "why": why}
                            await self.log.writer.commit(emit_log, "node.changed", data=data)
                self._taken_up.set()
                self._taken_up = trio.Event()
                for changed in self._watching:
                    changed()
                task_status.started()
                task_status = trio.TASK_STATUS_IGNORED
                with trio.move_on_after(LOOK_SECONDS):
                    await self._again.wait()

    def wanted(self) -> dict[str, WantedNode]:
        """Return the nodes that should exist, by name: nodes of the file, then added ones."""
        project = self.files.catalog.kept_project()
        kept = {one.name: one for one in self.log.reader.now(nodes.all_)}
        single: dict[str, WantedNode] = {}
        for name, settings in project.nodes.items():
            why = self._fault(name, settings)
            if why is None and settings.via == "join" and not (name in kept and kept[name].joins):
                why = f"no join token: run awk node add {name} --join, and then the printed command on that node"
            single[name] = WantedNode(settings, name in kept and kept[name].draining, added=False, why=why)
        for one in kept.values():
            if one.settings is not None and one.name not in single:
                single[one.name] = WantedNode(one.settings, one.draining, added=True)
        found: dict[str, WantedNode] = {}
        for name, wanted in single.items():
            if wanted.settings.most == 1 or wanted.why is not None:
                found[name] = wanted
                continue
            for member in self.scaling.members(name, wanted.settings, self._links, self.running()):
                draining = wanted.draining or (member in kept and kept[member].draining)
                found[member] = wanted._replace(draining=draining, group=name)
        return found

    def _fault(self, name: str, settings: NodeSettings) -> str | None:
        try:
            return self.files.trust.fault(node_unit(name, settings, self.files.catalog.root))
        except BadDefinition as error:
            return error.text

    def _opened(self, name: str, wanted: WantedNode) -> AbstractAsyncContextManager[Transport]:
        fault = None if wanted.added else self._fault(wanted.group or name, wanted.settings)
        if fault is not None:
            raise CommandMissing(fault)
        far = ("node", "--project-id", self._id_at(name))
        return engine_transport(wanted.settings, far, name, self.files.environ, str(self.files.catalog.root))

    def _take_up(self, wanted: dict[str, WantedNode], nursery: trio.Nursery) -> None:
        self._wanted = wanted
        for name, link in self._links.items():
            now = wanted.get(name)
            if now is None or now.why is not None or _way(now.settings) != _way(link.settings):
                link.leave()
            else:
                link.settings, link.draining = now.settings, now.draining
        for name in [name for name in wanted if wanted[name].why is None and name not in self._links]:
            one = wanted[name]
            self._links[name] = kept = NodeConnection(
                name=name,
                settings=one.settings,
                draining=one.draining,
                new_session=partial(self.new_session, name, self._id_at(name), hello_seconds(one.settings)),
                opener=None if one.settings.via == "join" else partial(self._opened, name, one),
                changed=self._changed,
                now_ms=self.log.now_ms,
                chance=self.chance,
            )
            nursery.start_soon(self._keep, name, kept)
        if self.listener is None and (
            self.files.catalog.kept_project().nodes_listen is not None
            or any(one.settings.via == "join" and one.why is None for one in wanted.values())
        ):
            self.listener = self._new_listener()
            nursery.start_soon(self._listen, self.listener)

    async def _listen(self, listener: NodeListener) -> None:
        try:
            await listener.run()
        except Exception:
            logger.exception("nodes.listener_failed")  # retried later
            self.listener = None

    def _id_at(self, name: str) -> str:
        return f"{self._project}-{name}"

    async def _keep(self, name: str, kept: NodeConnection) -> None:
        try:
            await kept.run()
        finally:
            kept.dialled.close()
            if self._links.get(name) is kept:
                del self._links[name]
            self.look_again()

    def _new_listener(self) -> NodeListener:
        asked = self.files.catalog.kept_project().nodes_listen
        if asked is not None and self.files.trust.fault(listen_unit(asked)):
            logger.warning("nodes.unusable nodes_listen: not trusted; review and trust it with awk trust")
            asked = None
        address = address_of(asked or LISTEN_DEFAULT) or address_of(LISTEN_DEFAULT)
        assert address is not None
        return NodeListener(
            address=address,
            folder=self.state_dir / FOLDER,
            digests=lambda: dict(self.log.reader.now(lambda conn: list(nodes.digests(conn)))),
            carry=self._carry,
            now_ms=self.log.now_ms,
        )

    async def _carry(self, name: str, stream: trio.abc.Stream) -> None:
        kept = self._links.get(name)
        if kept is not None and kept.settings.via == "join":
            await kept.dialled.carry(stream)

    def _changed(self, link: NodeConnection, moved: bool) -> None:
        if moved:
            self._told.append((link.name, link.state.state, link.why))
        self.look_again()

    def _state(self, name: str, wanted: WantedNode) -> NodeState:
        kept = self._links.get(name)
        if kept is not None:
            return kept.state
        return NodeState(
            name=name,
            settings=wanted.settings,
            state="off",
            since_ms=self._since_ms,
            draining=wanted.draining,
            why=wanted.why,
        )


def _way(settings: NodeSettings) -> NodeSettings:
    return msgspec.structs.replace(settings, labels=(), workers=1)
