"""A real Claude Code, outside of the kernel, leads a run by its MCP tools; its model is a script."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.project import AWK, Project
from tests.worker.backends.subject import CLIS
from tests.worker.scripted_api import Call, Say, ScriptedApi

pytestmark = [pytest.mark.skipif(CLIS is None, reason="AGENT_WORKER_TEST_CLIS"), pytest.mark.promise("P58")]

SECONDS = 120
TEAM = """
agents:
  coder:
    model: mock/x
    prompt: { system: hi }
    tools: [bash]
    mock:
      - { tool: bash, args: { command: "echo done > a.txt && git add a.txt && git commit -qm 'Add a'" } }
      - { text: "@user it is committed" }
workspace: { git: worktree }
kickoff: "@coder write a.txt"
deliver: {}
"""


def step(name: str, **arguments: Any) -> Say:
    """The model calls one tool of the server that its user calls ``team``."""
    return Say(f"I call {name}.", (Call(f"mcp__team__{name}", json.dumps(arguments), id=f"toolu_{name}"),))


def lead(project: Project, api: ScriptedApi, server: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What ``claude -p`` says, event by event."""
    config = project.home / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"team": server}}))
    binary = Path(str(CLIS)) / "claude/node_modules/.bin/claude"
    words = [
        *("-p", "--output-format", "stream-json", "--verbose", "--strict-mcp-config", "--mcp-config", str(config)),
        *("--setting-sources", "", "--model", "claude-sonnet-4-5", "--permission-mode", "dontAsk"),
        *("--allowedTools", "mcp__team"),
    ]
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(project.home),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "CLAUDE_CONFIG_DIR": str(project.home / "claude"),
        "ANTHROPIC_BASE_URL": api.anthropic_url,
        "ANTHROPIC_API_KEY": "sk-canary",
        "ENABLE_TOOL_SEARCH": "false",
        "CLAUDE_CODE_MAX_RETRIES": "2",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    ran = subprocess.run(
        [str(binary.resolve()), *words],
        check=False,
        input="Have the team write a.txt, and merge it.",
        cwd=project.home,
        env=environ,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert ran.returncode == 0, (ran.stdout[-2000:], ran.stderr[-2000:])
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.parametrize("way", ["stdio", "http"])
def test_a_run_led_from_claude_code_ends_with_a_merged_branch(project: Project, way: str) -> None:
    project.write(".workflows/team.yaml", TEAM)
    project.write(".gitignore", ".agents/\n.workspace/\n")
    project.commit()
    assert project.awk("start", "--trust").code == 0
    server: dict[str, Any] = {
        "command": str(AWK),
        "args": ["mcp-serve", "--project", str(project.root)],
        "env": project.environ,
    }
    if way == "http":
        token = project.awk("token", "create", "--scope", "approve", "--json").json()["token"]
        url = f"{project.record()['url']}/mcp"
        server = {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {token}"}}
    says = [
        step("workflow_run", workflow="team"),
        step("events_read", since=0, type="approval.requested", wait_seconds=60),
        step("needs_list"),
        step("approval_decide", id="a1", decision="approve", reason="my user said so"),
        step("workflow_wait", run="r1", timeout_seconds=60),
        Say("It is merged."),
    ]
    with ScriptedApi(says) as api:
        told = lead(project, api, server)
        assert len(api.requests) == len(says)
        results = "\n".join(json.dumps(request.body["messages"][-1]["content"]) for request in api.requests[1:])
    (greeting,) = [one for one in told if one.get("subtype") == "init"]
    assert [(one["name"], one["status"]) for one in greeting["mcp_servers"]] == [("team", "connected")]
    assert "mcp__team__approval_decide" in greeting["tools"]
    assert told[-1]["result"] == "It is merged."
    assert '"is_error": true' not in results, results[-4000:]
    assert "wants to call bash" in results, "what needs a person was shown to it"
    run = project.ask("GET", "/runs/r1")
    assert (run["status"], run["delivery"]["state"]) == ("done", "merged")
    assert project.git("show", "main:a.txt") == "done"
    (decided,) = project.ask("GET", "/instructions/i1")["approvals"]
    assert (decided["tool"], decided["state"]) == ("bash", "granted")
