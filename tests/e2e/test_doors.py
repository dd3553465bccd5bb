"""Doors for outside programs with a real kernel: a token, MCP over standard input and output, and the next kernel."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.project import AWK, Project

SECONDS = 60
TEAM = """\
agents:
  alice: { ref: writer }
kickoff: "@alice write it"
"""


@asynccontextmanager
async def leader(project: Project, **more: str) -> AsyncGenerator[Client]:
    """The SDK's client on ``awk mcp-serve``, as a coding agent starts it."""
    words = ["mcp-serve", "--project", str(project.root)]
    server = StdioServerParameters(command=str(AWK), args=words, env={**project.environ, **more})
    with trio.fail_after(SECONDS):
        async with Client(stdio_client(server)) as connected:
            yield connected


async def ask(mcp: Client, name: str, arguments: Mapping[str, Any]) -> Any:
    """What a tool gives."""
    answer = await mcp.call_tool(name, dict(arguments))
    assert answer.structured_content is not None, answer.content
    return answer.structured_content


@pytest.mark.promise("P57", "P58")
async def test_a_coding_agent_leads_a_team_over_two_kernels(project: Project) -> None:
    """By the record of the project, whose token changes; and by a token that was made, which does not."""
    project.agent("writer", "text: it is written")
    project.write(".workflows/team.yaml", TEAM)
    assert project.awk("start", "--trust").code == 0
    made = project.awk("token", "create", "--scope", "operate", "--name", "ci", "--json").json()
    port = project.record()["port"]
    by_token = {"AGENT_WORKER_URL": project.record()["url"], "AGENT_WORKER_TOKEN": made["token"]}
    async with leader(project) as own, leader(project, **by_token) as other:
        begun = await ask(own, "workflow_run", {"workflow": "team"})
        report = await ask(other, "workflow_wait", {"run": begun["id"]})
        said = {message["from"]: message["text"] for message in report["messages"]}
        assert (report["status"], said["alice"]) == ("done", "it is written")
        refused = await ask(other, "approval_decide", {"id": "a1", "decision": "approve"})
        assert refused["code"] == "forbidden"
        assert project.awk("restart", "--kernel").code == 0
        assert project.record()["port"] == port
        for mcp in (own, other):
            status = await ask(mcp, "workflow_status", {"run": begun["id"]})
            assert status["report"]["status"] == "done"
    ls = project.awk("ls", env=by_token)
    assert (ls.code, "writer" in ls.out) == (0, True), ls.err
    stopped = project.awk("stop", "--yes", env=by_token)
    assert "needs the scope admin" in stopped.err
    assert project.awk("token", "revoke", made["id"]).code == 0
    gone = project.awk("ls", env=by_token)
    assert gone.code != 0
    assert made["token"] not in gone.err
