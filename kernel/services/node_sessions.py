"""Sessions with nodes, as the kernel makes them."""

from collections.abc import Awaitable, Callable
from functools import partial

import trio

from kernel.procs.node.session import NodeSession


def session_with(
    term: int,
    enter: Callable[[str, trio.abc.Stream], Awaitable[None]],
    name: str,
    project: str,
    hello_seconds: float,
) -> NodeSession:
    """Make a session of the kernel of ``term`` with a node; ``enter`` serves connections to Daemon MCP from there."""
    return NodeSession(name, project, term, partial(enter, name), hello_seconds=hello_seconds)
