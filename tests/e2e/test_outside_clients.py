"""Programs outside with a real kernel: a token, MCP over standard input and output, and the next kernel."""

import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from mcp.client import Client
from mcp.client.extension import ClientExtension, NotificationBinding
from mcp.client.stdio import StdioServerParameters, stdio_client
from pydantic import BaseModel

from tests.pages import blocks
from tests.project import AWK, Project

SECONDS = 60
TEAM = """\
agents:
  alice: { ref: writer }
kickoff: "@alice write it"
"""


@asynccontextmanager
async def leader(project: Project, *extensions: ClientExtension, **more: str) -> AsyncGenerator[Client]:
    """The SDK's client on ``awk mcp-serve``, as a coding agent starts it; one that hears what is pushed greets."""
    words = ["mcp-serve", "--project", str(project.root)]
    server = StdioServerParameters(command=str(AWK), args=words, env={**project.environ, **more})
    with trio.fail_after(SECONDS):
        mode = "legacy" if extensions else "auto"
        async with Client(stdio_client(server), mode=mode, extensions=extensions) as connected:
            yield connected


async def ask(mcp: Client, name: str, arguments: Mapping[str, Any]) -> Any:
    answer = await mcp.call_tool(name, dict(arguments))
    assert answer.structured_content is not None, answer.content
    return answer.structured_content


class Params(BaseModel, extra="allow"):
    """Whatever is in a notification."""


class Ours(ClientExtension):
    """Hears the mentions of the user that are pushed."""

    identifier = "io.github.agent-worker/pushed"

    def __init__(self) -> None:
        self.heard = trio.Event()
        self._authors: list[str] = []

    def notifications(self) -> list[NotificationBinding[Any]]:
        """That one, which the SDK does not know."""
        return [NotificationBinding(method="notifications/mention", params_type=Params, handler=self._note)]

    async def _note(self, params: Params) -> None:
        self._authors.append(params.model_dump()["from"])
        self.heard.set()
        self.heard = trio.Event()

    async def heard_from(self, name: str) -> None:
        """Wait until ``name`` has mentioned the user."""
        while name not in self._authors:
            await self.heard.wait()


@pytest.mark.promise("P57", "P58")
async def test_a_coding_agent_leads_a_team_over_two_kernels(project: Project) -> None:
    project.agent("writer", 'text: "@user it is written"')
    project.write(".workflows/team.yaml", TEAM)
    assert project.awk("start", "--trust").code == 0
    made = project.awk("token", "create", "--scope", "operate", "--name", "ci", "--json").json()
    port = project.record()["port"]
    by_token = {"AGENT_WORKER_URL": project.record()["url"], "AGENT_WORKER_TOKEN": made["token"]}
    ours = Ours()
    async with leader(project, ours) as own, leader(project, **by_token) as other:
        begun = await ask(own, "workflow_run", {"workflow": "team"})
        report = await ask(other, "workflow_wait", {"run": begun["id"]})
        said = {message["from"]: message["text"] for message in report["messages"]}
        assert (report["status"], said["alice"]) == ("done", "@user it is written")
        await ours.heard_from("alice")
        refused = await ask(other, "approval_decide", {"id": "a1", "decision": "approve"})
        assert refused["code"] == "forbidden"
        assert project.awk("restart", "--kernel").code == 0
        assert project.record()["port"] == port
        for mcp in (own, other):
            status = await ask(mcp, "workflow_status", {"run": begun["id"]})
            assert status["report"]["status"] == "done"
        await ask(own, "send", {"to": "writer", "text": "once more"})
        await ours.heard_from("writer")
    ls = project.awk("ls", env=by_token)
    assert (ls.code, "writer" in ls.out) == (0, True), ls.err
    stopped = project.awk("stop", "--yes", env=by_token)
    assert "scope admin is required" in stopped.err
    assert project.awk("token", "revoke", made["id"]).code == 0
    gone = project.awk("ls", env=by_token)
    assert gone.code != 0
    assert made["token"] not in gone.err


@pytest.mark.promise("P57")
def test_the_record_is_not_enough_to_act_as_the_administrator(shared_kernel: Project) -> None:
    """N1. What a program reads there sends, runs and reads; the command line does all the rest as before."""
    record = shared_kernel.record()
    limited = {"AGENT_WORKER_URL": record["url"], "AGENT_WORKER_TOKEN": record["limited"]}
    shared_kernel.agent("listener", "text: heard")
    sent = shared_kernel.awk("send", "listener", "x", "--wait", env=limited)
    assert (sent.code, sent.out.strip()) == (0, "heard"), sent.err
    for words in (("token", "create"), ("stop", "--yes"), ("open", "--print"), ("send", "listener", "x", "--trust")):
        refused = shared_kernel.awk(*words, env=limited)
        assert refused.code != 0, words
        assert record["token"] not in refused.out + refused.err
    assert shared_kernel.awk("token", "create", "--scope", "read").code == 0


PAGE = Path("docs/how-to/integrate/call-the-api.md")
RUNNERS = {
    "python": [sys.executable, "-"],
    "sh": ["sh", "-s"],
    "js": ["node", "--input-type=module", "-"],
    "javascript": ["node", "--experimental-websocket", "--input-type=module", "-"],  # node 22 has it unasked
}


def can_run(language: str) -> bool:
    if language == "javascript" and shutil.which("node"):
        return subprocess.run([*RUNNERS[language][:2], "-e", "0"], check=False, capture_output=True).returncode == 0
    return shutil.which(RUNNERS[language][0]) is not None and (language != "sh" or shutil.which("curl") is not None)


@pytest.mark.promise("P58", "P65")
def test_the_clients_of_the_page_do_what_it_says(shared_kernel: Project) -> None:
    shared_kernel.agent("writer", """text: 'it is "written"'""")
    shared_kernel.ask("POST", "/messages", {"to": "writer", "text": "begin", "trust": True})
    token = shared_kernel.ask("POST", "/tokens", {"scope": "operate"})["token"]
    environ = {**shared_kernel.environ, "AGENT_WORKER_URL": shared_kernel.record()["url"], "AGENT_WORKER_TOKEN": token}
    programs = {block.kind: block.text for block in blocks(PAGE.read_text("utf-8"))}
    assert programs.keys() == RUNNERS.keys()
    for language, argv in RUNNERS.items():
        assert len(programs[language].splitlines()) <= 16
        if not can_run(language):
            continue
        words = [*argv, 'write\n"it" \\ now', "writer"]
        ran = subprocess.run(
            words, check=False, input=programs[language], env=environ, capture_output=True, text=True, timeout=SECONDS
        )
        assert (ran.returncode, ran.stdout) == (0, 'writer (done): it is "written"\n'), (language, ran.stderr)
