"""Clients of MCP that run on node, from the registry: the official SDK, its inspector and the conformance suite."""

import http.client
import json
import shutil
import subprocess
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest

from tests.e2e.test_outside_clients import SECONDS, TEAM
from tests.project import AWK, Project

pytestmark = [
    pytest.mark.promise("P58"),
    pytest.mark.timeout(600),  # the packages come over the network, the first time
    pytest.mark.long("test_a_coding_agent_leads_a_team_over_two_kernels"),
]

PACKAGES: Final = (
    "@modelcontextprotocol/sdk@^1.32",
    "@modelcontextprotocol/inspector@^0.15",
    "@modelcontextprotocol/conformance@^0.1.16",
    "node@22",  # the conformance suite wants no older one
)
APPLIES: Final = (
    "server-initialize",
    "ping",
    "tools-list",
    "dns-rebinding-protection",
    "server-sse-polling",
    "server-sse-multiple-streams",
)
"""Of the scenarios for servers. All others call tools, prompts and resources of a server that is made for them."""


@pytest.fixture(scope="module")
def modules() -> Path:
    """Where node finds them; installed the first time."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    installed = Path(".peers/node").absolute()
    if not all((installed / "node_modules" / name.rpartition("@")[0]).exists() for name in PACKAGES):
        words = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(installed), *PACKAGES]
        subprocess.run(words, check=True, capture_output=True, timeout=400)
    return installed / "node_modules"


@pytest.fixture
def team(project: Project) -> Project:
    """A project with a kernel, and an agent that says something to its user."""
    project.agent("writer", 'text: "@user it is written"')
    project.write(".workflows/team.yaml", TEAM)
    assert project.awk("start", "--trust").code == 0
    return project


def output(words: list[str], folder: Path) -> str:
    ran = subprocess.run(words, check=False, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    assert ran.returncode == 0, (ran.stdout[-3000:], ran.stderr[-3000:])
    return ran.stdout


def test_the_sdk_for_typescript_leads_a_team_and_is_told_of_it(team: Project, modules: Path) -> None:
    script = team.root / "lead.mjs"
    script.write_bytes(Path("tests/e2e/lead.mjs").read_bytes())
    (team.root / "node_modules").symlink_to(modules)
    token = team.ask("POST", "/tokens", {"scope": "operate"})["token"]
    found = json.loads(output(["node", str(script), team.record()["url"], token], team.root))
    assert "approval_decide" not in found["tools"]
    assert len(found["tools"]) == 17
    assert (found["report"]["status"], found["refused"]) == ("done", "forbidden")
    assert (found["mention"]["from"], found["mention"]["text"]) == ("alice", "@user it is written")


def test_the_inspector_shows_and_calls_our_tools(team: Project, modules: Path) -> None:
    server = [str(AWK), "mcp-serve", "--project", str(team.root)]
    environ = [word for name, value in team.environ.items() for word in ("-e", f"{name}={value}")]
    inspector = ["node", str(modules / "@modelcontextprotocol/inspector/cli/build/cli.js"), "--cli", *environ, *server]
    listed = json.loads(output([*inspector, "--method", "tools/list"], team.root))
    assert {"workflow_run", "approval_decide", "needs_list"} <= {tool["name"] for tool in listed["tools"]}
    call = ["--method", "tools/call", "--tool-name", "agents_info", "--tool-arg", "name=writer"]
    answer = json.loads(output([*inspector, *call], team.root))
    assert answer["structuredContent"]["name"] == "writer"


@contextmanager
def authorized(project: Project, token: str) -> Generator[str]:
    """An address whose requests reach /mcp with a token: the suite knows of none. Gives the URL."""
    kernel = project.record()["url"].removeprefix("http://")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            own = f"127.0.0.1:{self.server.server_port}"  # type: ignore[attr-defined]
            fields = {name: value.replace(own, kernel) for name, value in self.headers.items()}
            self.close_connection = True
            with closing(http.client.HTTPConnection(kernel, timeout=SECONDS)) as asked, suppress(OSError):
                asked.request(self.command, self.path, body, fields | {"Authorization": f"Bearer {token}"})
                answer = asked.getresponse()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection"):
                        self.send_header(name, value)
                self.send_header("Connection", "close")
                self.end_headers()
                while piece := answer.read1(65536):
                    self.wfile.write(piece)
                    self.wfile.flush()

        do_GET = do_POST = do_DELETE = _pass_on  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        server.server_close()


def test_what_applies_of_the_conformance_suite_passes(team: Project, modules: Path) -> None:
    token = team.ask("POST", "/tokens", {"scope": "read"})["token"]
    suite = [str(modules / ".bin/node"), str(modules / "@modelcontextprotocol/conformance/dist/index.js"), "server"]
    with authorized(team, token) as url:
        for scenario in APPLIES:
            told = output([*suite, "--url", url, "--scenario", scenario], team.root)
            assert " 0 failed" in told, told
