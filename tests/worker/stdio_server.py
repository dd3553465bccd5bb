"""An MCP server of an agent's own, on standard input and output: the real SDK's. Run as a program, it serves."""

import logging
import os
import signal
import subprocess
from typing import Annotated

from mcp.server import MCPServer
from mcp_types import ToolAnnotations
from pydantic import Field

server = MCPServer("stand-in")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def look(name: str) -> str:
    """Look up a variable of the server's environment."""
    return os.environ.get(name, "unset")


@server.tool()
def add(a: int, b: Annotated[int, Field(description="the other one")]) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def refuse() -> str:
    """Fail."""
    raise ValueError("not today")


@server.tool()
def die() -> str:
    """End this server without another word."""
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def pid() -> int:
    """This process."""
    return os.getpid()


@server.tool()
def breed() -> int:
    """Start a child that leaves this server's group."""
    return subprocess.Popen(["sleep", "3600"], start_new_session=True, stdin=subprocess.DEVNULL).pid


if __name__ == "__main__":
    logging.disable()  # the SDK draws tracebacks of what tools raise
    server.run()
