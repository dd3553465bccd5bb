"""Sessions with nodes, as the kernel makes them."""

import trio

from kernel.procs.node.session import NodeSession


async def no_mcp(stream: trio.abc.Stream) -> None:
    """Close the connection."""
    await stream.aclose()


def session_with(term: int, name: str, project: str) -> NodeSession:
    """Make a session with the node ``name``, of the kernel of ``term``."""
    return NodeSession(name, project, term, no_mcp)
