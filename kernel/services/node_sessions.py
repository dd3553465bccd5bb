"""Sessions with nodes, as the kernel makes them."""

import trio

from kernel.procs.node.session import NodeSession


async def no_mcp(stream: trio.abc.Stream) -> None:
    """Close the connection."""
    await stream.aclose()


def session_with(name: str, project: str) -> NodeSession:
    """Make a session with the node ``name``."""
    return NodeSession(name, project, 1, no_mcp)
