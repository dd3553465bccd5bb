"""An MCP server of an agent's own, on standard input and output: by hand, or with ``sdk`` as the real SDK serves.

Without the SDK it needs nothing but the interpreter (``-I -S``) and starts in a twentieth of the time.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final


def look(name: str) -> str:
    return os.environ.get(name, "unset")


def add(a: int, b: int) -> int:
    return a + b


def refuse() -> str:
    raise ValueError("not today")


def die() -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


def pid() -> int:
    return os.getpid()


def breed() -> int:
    """Start a child that leaves this server's group."""
    return subprocess.Popen(["sleep", "3600"], start_new_session=True, stdin=subprocess.DEVNULL).pid


TOOLS: Final[dict[str, Callable[..., str | int]]] = {
    tool.__name__: tool for tool in (look, add, refuse, die, pid, breed)
}
READS: Final = frozenset({"look", "pid"})
"""Those that say of themselves that they only read."""
_TYPES: Final = {int: "integer", str: "string"}


def arguments(tool: Callable[..., str | int]) -> dict[str, type]:
    return {name: kind for name, kind in tool.__annotations__.items() if name != "return"}


def described(name: str) -> dict[str, object]:
    wanted = arguments(TOOLS[name])
    properties = {argument: {"type": _TYPES[kind]} for argument, kind in wanted.items()}
    return {
        "name": name,
        "description": TOOLS[name].__doc__ or name,
        "inputSchema": {"type": "object", "properties": properties, "required": list(wanted)},
        "annotations": {"readOnlyHint": name in READS},
    }


def called(name: str, given: dict[str, Any]) -> dict[str, object]:
    """The result of a call; what a tool raises is one too."""
    tool = TOOLS[name]
    try:
        if {argument: type(value) for argument, value in given.items()} != arguments(tool):
            raise TypeError(f"wrong arguments: {given}")
        text, failed = str(tool(**given)), False
    except (TypeError, ValueError) as error:
        text, failed = str(error), True
    return {"content": [{"type": "text", "text": text}], "isError": failed}


def serve_by_hand() -> None:
    """A message a line, as the handshake revisions have it."""
    for line in sys.stdin:
        asked = json.loads(line)
        answer: dict[str, object] = {"error": {"code": -32601, "message": "no such method"}}
        match asked["method"]:
            case "initialize":
                told = {"capabilities": {"tools": {}}, "serverInfo": {"name": "stand-in", "version": "1"}}
                answer = {"result": {**told, "protocolVersion": asked["params"]["protocolVersion"]}}
            case "ping":
                answer = {"result": {}}
            case "tools/list":
                answer = {"result": {"tools": [described(name) for name in TOOLS]}}
            case "tools/call" if asked["params"]["name"] in TOOLS:
                answer = {"result": called(asked["params"]["name"], asked["params"].get("arguments") or {})}
            case _ if "id" not in asked:
                continue
            case _:
                pass
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}) + "\n")
        sys.stdout.flush()


def serve_by_sdk() -> None:
    """The same tools, with all that the SDK does around them."""
    import logging

    from mcp.server import MCPServer
    from mcp_types import ToolAnnotations

    logging.disable()  # the SDK draws tracebacks of what tools raise
    server = MCPServer("stand-in")
    for name, tool in TOOLS.items():
        server.tool(annotations=ToolAnnotations(read_only_hint=name in READS))(tool)
    server.run()


if __name__ == "__main__":
    serve_by_sdk() if sys.argv[1:] == ["sdk"] else serve_by_hand()
