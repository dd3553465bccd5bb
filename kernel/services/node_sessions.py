"""Sessions with nodes, as the kernel makes them."""

from typing import NoReturn

import trio

from kernel.procs.launcher import Launcher
from kernel.procs.spec import SpawnTransient, Spec
from kernel.services.node_connection import NodeRefusal, NodeSession
from protocol.node import NodeFacts


class _Unspoken:
    """A session that nobody speaks."""

    def __init__(self, name: str) -> None:
        self.facts: NodeFacts | None = None
        self.launcher: Launcher = _Nowhere(name)
        self.lost = trio.Event()
        self.connected = False

    async def run(self, transport: trio.abc.Stream) -> None:
        """Refuse it."""
        await transport.aclose()
        raise NodeRefusal("nodes are not spoken to yet")

    async def keep(self) -> None:
        """Nothing to watch over."""
        await trio.sleep_forever()


class _Nowhere:
    def __init__(self, name: str) -> None:
        self._name = name

    def need(self, modules: frozenset[str]) -> None:
        """Nothing is preloaded."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Nothing to serve."""
        task_status.started()

    async def spawn(self, spec: Spec) -> NoReturn:
        """Raise SpawnTransient."""
        raise SpawnTransient(f"node {self._name} is not connected for {spec.attempt}")


def session_with(name: str, project: str) -> NodeSession:
    """Make a session with the node ``name`` for the project of the id ``project``."""
    assert project
    return _Unspoken(name)
