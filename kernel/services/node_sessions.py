"""Sessions with nodes, as the kernel makes them."""

from collections.abc import Awaitable, Callable
from functools import partial

import trio

from kernel.procs.node.session import NodeSession

Enter = Callable[[str, trio.abc.Stream], Awaitable[None]]
"""Serves a connection to Daemon MCP that the node of this name carries, to its end."""


def session_with(term: int, enter: Enter, name: str, project: str) -> NodeSession:
    """Make a session with the node ``name``, of the kernel of ``term``; what it carries comes in by ``enter``."""
    return NodeSession(name, project, term, partial(enter, name))
