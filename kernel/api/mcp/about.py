"""What we say of ourselves in every revision of MCP, with and without the SDK: names, and the list of tools."""

from typing import Any, Final

from kernel.api.asgi import Fields
from kernel.api.mcp.tool import Tool, schema_of
from kernel.api.mcp.tools import ATTEMPT_SCOPES, visible
from protocol.tools import AUTH_REQUEST, OFFERED_TO, TO_MODEL

NAME: Final = "agent-worker"
INSTRUCTIONS: Final = "Talk to your team: read and write the channel of your workspace, and see who is there."
CALL_KEY: Final = "agent-worker/call"
"""Key of ``_meta``: names one call, so that repeating it does not do it twice."""
IDENTITY: Final = "agent_worker.identity"
"""Key of the ASGI scope under which the SDK's way finds who asks."""
CAPABILITIES: Final = {"tools": {"listChanged": False}}


def described(tool: Tool) -> dict[str, Any]:
    """``tool`` as MCP lists it."""
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": schema_of(tool.asks),
        **({} if tool.words else {"outputSchema": schema_of(tool.gives)}),
        "annotations": {
            "readOnlyHint": not tool.mutating,
            "destructiveHint": False,
            "idempotentHint": tool.idempotent,
            "openWorldHint": False,
        },
    }


LISTED: Final = tuple(described(tool) for tool in visible(ATTEMPT_SCOPES))
"""What the token of an attempt opens."""
OFFERED: Final = tuple(tool for tool in LISTED if tool["name"] != AUTH_REQUEST)
"""What of it a model is shown: an approval is asked for by what runs the tool, in its own words."""
_HEADER: Final = OFFERED_TO.lower().encode()


def listed(header: str | None) -> tuple[dict[str, Any], ...]:
    """What is listed to who says so of whom it is for."""
    return OFFERED if header == TO_MODEL else LISTED


def listed_to(fields: Fields) -> tuple[dict[str, Any], ...]:
    """The same, by the header fields of a request."""
    return listed(fields.get(_HEADER, b"").decode("latin-1"))
