"""Our tools on the MCP SDK's low-level server: every revision and every corner of the protocol is the SDK's."""

from typing import Any, Final

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from kernel.api.mcp.calls import Answer, Calls, call_key, find
from kernel.api.mcp.tool import Caller, Tool, schema_of
from kernel.api.mcp.tools import ATTEMPT_SCOPES, visible
from kernel.store.attempts import Identity
from protocol.version import VERSION

NAME: Final = "agent-worker"
INSTRUCTIONS: Final = "Talk to your team: read and write the channel of your workspace, and see who is there."
CALL_KEY: Final = "agent-worker/call"
"""Key of ``_meta``: names one call, so that repeating it does not do it twice."""
IDENTITY: Final = "agent_worker.identity"
"""Key of the ASGI scope under which the endpoint leaves who asks."""

Context = ServerRequestContext[Any, Any]


def build_server(calls: Calls) -> "Server[Any]":
    """A server of all tools. Who asks is in the scope of each request, and nowhere else."""
    listed = [_described(tool) for tool in visible(ATTEMPT_SCOPES)]
    schemas = {tool.name: tool.input_schema for tool in listed}

    async def list_tools(_context: Context, _params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed, ttl_ms=0, cache_scope="private")

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = find(params.name)
        if tool is None:
            raise MCPError(code=INVALID_PARAMS, message=f"Unknown tool: {params.name[:100]}")
        identity: Identity = context.request.scope[IDENTITY]  # type: ignore[union-attr]
        caller = Caller(identity, call_key((context.meta or {}).get(CALL_KEY)))
        return _result(await calls.call(tool, caller, params.arguments or {}))

    server: Server[Any] = Server(
        NAME,
        version=VERSION,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=schemas.get,
    )
    server.middleware.clear()
    return server


def _described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=schema_of(tool.asks),
        output_schema=schema_of(tool.gives),
        annotations=types.ToolAnnotations(
            read_only_hint=not tool.mutating,
            destructive_hint=False,
            idempotent_hint=tool.idempotent,
            open_world_hint=False,
        ),
    )


def _result(answer: Answer) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=answer.body.decode())],
        structured_content=msgspec.json.decode(answer.body),
        is_error=answer.is_error,
    )
