"""JSON-RPC as it goes over the wire in revision 2026-07-28."""

from typing import Any

from tests.builders.api import ServedKernel
from tests.kernel.api.client import Answer

REVISION = "2026-07-28"
ENVELOPE = {"io.modelcontextprotocol/protocolVersion": REVISION, "io.modelcontextprotocol/clientCapabilities": {}}
CALL_KEY = "agent-worker/call"


def call_of(name: str, arguments: Any, **meta: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments, "_meta": ENVELOPE | meta}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}


async def post(kernel: ServedKernel, body: Any, token: str = "worker-token", **headers: str) -> Answer:
    """POST /mcp as a modern client does."""
    fields = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": REVISION}
    if isinstance(body, dict) and isinstance(body.get("method"), str):
        fields["Mcp-Method"] = body["method"]
        if isinstance(body.get("params"), dict) and isinstance(body["params"].get("name"), str):
            fields["Mcp-Name"] = body["params"]["name"]
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    return await kernel.ask("POST", "/mcp", body, headers=kernel.headers(token) | fields)


async def call(kernel: ServedKernel, name: str, arguments: Any = None, token: str = "worker-token", **meta: Any) -> Any:
    answer = await post(kernel, call_of(name, arguments or {}, **meta), token)
    assert answer.status == 200, answer.body
    return answer.json["result"]


async def content(kernel: ServedKernel, name: str, arguments: Any = None, token: str = "worker-token", **m: Any) -> Any:
    """The structured content of a result, of a refusal as well."""
    return (await call(kernel, name, arguments, token, **m))["structuredContent"]


async def refusal(kernel: ServedKernel, name: str, arguments: Any = None, token: str = "worker-token", **m: Any) -> str:
    """The code of the error that a call must end with."""
    result = await call(kernel, name, arguments, token, **m)
    assert result["isError"], result
    return str(result["structuredContent"]["code"])
