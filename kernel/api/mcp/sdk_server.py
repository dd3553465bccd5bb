"""Tools on the low-level server of the MCP SDK, which implements all revisions of the protocol.

Importing this module takes more than half a second: only the endpoint imports it, on demand.
"""

from typing import Any

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from kernel.api.mcp.calls import call_key
from kernel.api.mcp.fast_path import CALL_KEY, NAME, OFFERED, OfferedTools
from kernel.api.mcp.tools import find_tool
from protocol.discovery import VERSION
from protocol.tools import OFFERED_TO, current_name

Context = ServerRequestContext[Any, Any]


def build_manager(offered: OfferedTools) -> StreamableHTTPSessionManager:
    """Return the SDK's manager without sessions. Enter its ``run`` before the first request."""
    return StreamableHTTPSessionManager(build_server(offered), stateless=True, json_response=True)


def build_server(kind: OfferedTools) -> "Server[Any]":
    """Return an SDK server. OFFERED in the scope of a request has the tools of its caller."""
    tools = {name: types.Tool.model_validate(tool.described) for name, tool in kind.tools.items()}
    schemas = {name: tool.input_schema for name, tool in tools.items()}

    async def list_tools(context: Context, _params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        offered: OfferedTools = context.request.scope[OFFERED]  # type: ignore[union-attr]
        asked = offered.listed(context.request.headers.get(OFFERED_TO))  # type: ignore[union-attr]
        shown = [tools[tool["name"]] for tool in asked]
        return types.ListToolsResult(tools=shown, ttl_ms=0, cache_scope="private")

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        offered: OfferedTools = context.request.scope[OFFERED]  # type: ignore[union-attr]
        tool = find_tool(offered.tools, params.name)
        if tool is None:
            raise MCPError(code=INVALID_PARAMS, message=f"Unknown tool: {params.name[:100]}")
        answer = await offered.call(tool, call_key((context.meta or {}).get(CALL_KEY)), params.arguments or {})
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=answer.text)],
            structured_content=None if answer.words else msgspec.json.decode(answer.body),
            is_error=answer.is_error,
        )

    server: Server[Any] = Server(
        NAME,
        version=VERSION,
        instructions=kind.instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=lambda name: schemas.get(current_name(name)),
    )
    server.middleware.clear()
    return server
