"""Nodes: the machines, beside the kernel's own, on which attempts may run; those of the project file and added ones.

A node of the file needs trust, as hooks do; one that is not trusted is off, and says so. What changes in the file, in
trust or by hand is taken up without a restart of the kernel.
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
from kernel.services.node_connection import NodeConnection, Transport, engine_transport
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
"""Pieces of work; more than that fills every bound."""


class NodeScaling(msgspec.Struct, eq=False):
    """The members of each group of nodes: ``name-1``, ``name-2`` and so on."""

    reader: Reader
    now_ms: Callable[[], int]
    _needed_ms: dict[str, int] = {}
    """When the last of a group had work that could not be spared."""

    def members(
        self, name: str, settings: NodeSettings, there: Collection[str], running: Mapping[str, int]
    ) -> tuple[str, ...]:
        """The members that group ``name`` should have. Of those that are ``there`` none goes that has work."""
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
"""Until the project file and the trust in it are looked at again."""
LISTENS_SECONDS: Final = 10.0
SessionMaker = Callable[[str, str, float], NodeSession]
"""Makes a session with a node of this name, for the project of this id; in so many seconds it answers, if at all."""


class WantedNode(NamedTuple):
    """A node that there should be. ``why``: what keeps it from being tried."""

    settings: NodeSettings
    draining: bool
    added: bool
    why: str | None = None
    group: str = ""
    """As it was added, or stands in the file: the members of a group have a number behind that."""


class Nodes(msgspec.Struct, eq=False, kw_only=True):
    """Keeps a link to each node there should be."""

    log: StoreLog
    files: TrustedFiles
    state_dir: Path
    new_session: SessionMaker
    chance: Callable[[], float]
    scaling: NodeScaling
    running: Callable[[], Mapping[str, int]] = dict
    """How many attempts run on each node."""
    listener: NodeListener | None = None
    """None where no node connects by itself."""
    _project: str = ""
    _wanted: dict[str, WantedNode] | None = None
    _links: dict[str, NodeConnection] = {}
    _told: list[tuple[str, str, str | None]] = []
    _known_of: dict[str, tuple[str, str | None]] = {}
    """What was told last of each: one that refuses again and again is told of once."""
    _again: trio.Event = msgspec.field(default_factory=trio.Event)
    _taken_up: trio.Event = msgspec.field(default_factory=trio.Event)
    """What was wanted before is there; another event each time."""
    _since_ms: int = 0
    _watching: list[Callable[[], None]] = []

    def __post_init__(self) -> None:
        self._since_ms = self.log.now_ms()

    def states(self) -> tuple[NodeState, ...]:
        """All nodes as they are now, by name."""
        return tuple(self._state(name, wanted) for name, wanted in sorted(self._known().items()))

    def launcher(self, name: str) -> Launcher:
        """The launcher that starts processes there. Raises SpawnTransient where there is no such node now."""
        kept = self._links.get(name)
        if kept is None or kept.session is None:
            raise SpawnTransient(f"there is no node {name} now")
        return kept.session

    def facts(self, name: str) -> NodeFacts | None:
        """Its own account of itself; None until it was connected once."""
        kept = self._links.get(name)
        return None if kept is None or kept.session is None else kept.session.facts

    def watch(self, changed: Callable[[], None]) -> None:
        """Have ``changed`` called after each change of ``states``."""
        self._watching.append(changed)

    def look_again(self) -> None:
        """Have the project file and the trust in it looked at now."""
        self._again.set()

    async def until_changed(self) -> None:
        """Wait until something about a node is another thing."""
        await self._taken_up.wait()

    def added_by_hand(self, name: str) -> bool:
        """Return whether somebody added it: it is not in the project file."""
        known = self._known().get(name)
        return known is not None and known.added

    async def add(self, name: str, settings: NodeSettings, host: str | None) -> str | None:
        """Add a node. Returns the join word of one that dials home, which is told this once. Raises Refused."""
        in_file = self._known().get(name)
        token = digest = None
        if settings.via == "join":
            token = secrets.token_urlsafe(32)
            digest = hashlib.sha256(token.encode()).digest()
        if in_file is not None and not in_file.added:
            if settings.via != "join" or in_file.settings.via != "join" or digest is None:
                raise Refused(
                    "conflict", f"the project file has a node {name}", "change it there, or take another name"
                )
            await self.log.writer.commit(nodes.set_token, name, digest)
        else:
            await self.log.writer.commit(nodes.add, name, settings, digest)
        if name in self._links:
            self._links[name].dialled.leave()  # whoever came by the word before
        self.look_again()
        if token is None:
            return None
        with trio.move_on_after(LISTENS_SECONDS):
            while self.listener is None:
                await self._taken_up.wait()
            await self.listener.listens.wait()
            return self.listener.word(name, token, host)
        raise Refused("conflict", "no port for nodes could be opened", "kernel.log says why")

    async def drain(self, name: str, *, draining: bool) -> None:
        """Give a node nothing new, or again something. Raises Refused (not_found)."""
        self._check_known(name)
        await self.log.writer.commit(partial(nodes.drain, draining=draining), name)
        if name in self._links:
            self._links[name].draining = draining
        self.look_again()

    async def remove(self, name: str, *, force: bool) -> None:
        """Forget a node that was added by hand. What runs there ends with its lease. Raises Refused."""
        meant = {one: wanted for one, wanted in self._known().items() if name in (one, wanted.group)}
        if not meant:
            self._check_known(name)
        if not all(one.added and one.group in ("", name) for one in meant.values()):
            raise Refused("conflict", f"node {name} is in the project file or a group", "remove it there, or the group")
        at_work = sum(self.running().get(one, 0) for one in meant)
        if at_work and not force:
            hint = f"awk node drain {name} and wait, or repeat with --force: its work is done again elsewhere"
            raise Refused("conflict", f"{at_work} attempts run on {name}", hint)
        await self.log.writer.commit(nodes.remove, name)
        self.look_again()

    def _known(self) -> dict[str, WantedNode]:
        return self.wanted() if self._wanted is None else self._wanted

    def _check_known(self, name: str) -> None:
        if name not in self._known():
            raise Refused("not_found", f"there is no node {name[:40]!r}", "awk node list shows them")

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep links until cancelled. It has started once it knows which nodes there are."""
        self._project = await self.log.writer.commit(nodes.project_id, secrets.token_hex(8))
        self._links.clear()
        self.listener = None
        async with trio.open_nursery() as nursery:
            while True:
                self._again = trio.Event()
                try:
                    self._take_up(self.wanted(), nursery)
                except Exception:
                    # Were this service to fall, its sessions would go with it, and what runs on their nodes would count
                    # as lost while it still has its lease.
                    logger.exception("nodes.look_failed")
                told, self._told = self._told, []
                for name, state, why in told:
                    if state != "connecting" and self._known_of.get(name) != (state, why):
                        self._known_of[name] = state, why
                        with suppress(Refused):  # a disk that is full: kernel.log has it
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
        """The nodes there should be, by name: those of the file, then those that were added."""
        project = self.files.catalog.kept_project()
        kept = {one.name: one for one in self.log.reader.now(nodes.all_)}
        single: dict[str, WantedNode] = {}
        for name, settings in project.nodes.items():
            why = self._fault(name, settings)
            if why is None and settings.via == "join" and not (name in kept and kept[name].joins):
                why = f"it has no word yet: awk node add {name} --join prints the command to type there"
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
        """A transport by the engine's program. Raises CommandMissing where it is not what was trusted any more."""
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
            self._links[name] = kept = self._new_link(name, wanted[name])
            nursery.start_soon(self._keep, name, kept)
        if self.listener is None and (
            self.files.catalog.kept_project().nodes_listen is not None
            or any(one.settings.via == "join" and one.why is None for one in wanted.values())
        ):
            self.listener = self._new_listener()
            nursery.start_soon(self._listen, self.listener)

    async def _listen(self, listener: NodeListener) -> None:
        """Let nodes in. Where that fails it is tried again later: nodes that are there have nothing of it."""
        try:
            await listener.run()
        except Exception:
            logger.exception("nodes.listener_failed")
            self.listener = None

    def _new_link(self, name: str, wanted: WantedNode) -> NodeConnection:
        return NodeConnection(
            name=name,
            settings=wanted.settings,
            draining=wanted.draining,
            new_session=partial(self.new_session, name, self._id_at(name), hello_seconds(wanted.settings)),
            opener=None if wanted.settings.via == "join" else partial(self._opened, name, wanted),
            changed=self._changed,
            now_ms=self.log.now_ms,
            chance=self.chance,
        )

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
            logger.warning("nodes.unusable nodes_listen: it is not trusted yet; look at it and keep it with awk trust")
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
