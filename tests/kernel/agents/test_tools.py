"""The keys tools, mcp_servers and skills of an agent, and tools of the project file: what they may say."""

from pathlib import Path

import pytest

from kernel.agents.catalog import Catalog
from kernel.api.mcp.tools import TOOLS
from kernel.source.diagnostics import BadDefinition
from protocol.agent import McpServer
from protocol.tools import BUILT_IN, CONTEXT_FAMILIES, ON_DEMAND, tool_name_fault
from tests.kernel.refusals import raised

NAMES = "write mcp__SERVER__TOOL, or mcp__SERVER__* for all tools of a server"


def agent(root: Path, keys: str, project: str = "") -> Catalog:
    (root / ".agents").mkdir(exist_ok=True)
    (root / ".agents/alice.yaml").write_text(f"backend: mock\nmock: [{{ text: x }}]\n{keys}\n")
    if project:
        (root / "moniro.yaml").write_text(project)
    return Catalog(root)


@pytest.mark.promise("CF07")
@pytest.mark.parametrize(
    ("keys", "place", "message", "hint"),
    [
        ("tools: [bsh]", "3:1 tools", "unknown tool 'bsh'", "did you mean bash?"),
        ("tools: [grep]", "3:1 tools", "grep is part of files", "write files"),
        ("tools: [bash, bash]", "3:1 tools", "bash is listed twice", None),
        ("mcp_servers: { a: { command: x, url: 'http://y' } }", "3:21 mcp_servers.a.command", "exactly one of", None),
        ("mcp_servers: { a: {} }", "3:16 mcp_servers.a.command", "exactly one of", None),
        ("mcp_servers: { daemon: { command: x } }", "3:16 mcp_servers.daemon", "is what Daemon MCP is called", None),
        ("mcp_servers: { 'a b': { command: x } }", "3:16 mcp_servers.a b", "is not a server's name", None),
        ("mcp_servers: { a: { url: 'file:///x' } }", "3:21 mcp_servers.a.url", "is not an http://", None),
        ("mcp_servers: { a: { url: 'http://u:p@x' } }", "3:21 mcp_servers.a.url", "is not an http://", None),
        ("mcp_servers: { a: { url: 'http://good.example@x' } }", "3:21 mcp_servers.a.url", "is not an http://", None),
        (
            "mcp_servers: { a: { url: 'http://x', headers: { 'A B': y } } }",
            "3:38 mcp_servers.a.headers",
            "not a valid header name",
            None,
        ),
        ("mcp_servers: { a_: { command: x } }", "3:16 mcp_servers.a_", "is not a server's name", None),
        ("mcp_servers: { a: { command: x, args: ['${K}'] } }", "3:33 mcp_servers.a.args", "other users could", None),
        ("mcp_servers: { a: { url: 'http://x/${K}' } }", "3:21 mcp_servers.a.url", "other users could", None),
        (
            "mcp_servers: { a: { command: x, env: { A: '${AGENT_WORKER_URL}' } } }",
            "3:33 mcp_servers.a.env",
            "internal to the kernel",
            None,
        ),
        (
            "mcp_servers: { a: { command: x, env: { AGENT_WORKER_COOKIE: y } } }",
            "3:40 mcp_servers.a.env.AGENT",
            "cannot be set: it changes",
            None,
        ),
        ("mcp_servers: { a: { command: x, env: { PATH: ./bin } } }", "3:40 mcp_servers.a.env.PATH", "be set", None),
        ("mcp_servers: { a: { command: x, env: { 'A B': y } } }", "3:40 mcp_servers.a.env.A B", "valid variable", None),
        (
            "mcp_servers: { a: { command: x, env: { LD_PRELOAD: ./x.so } } }",
            "3:40 mcp_servers.a.env.LD_PRELOAD",
            "cannot be set: it changes",
            None,
        ),
        (
            "mcp_servers: { a: { command: x, env: { K: '${AGENT_WORKER_TOKEN}' } } }",
            "3:33 mcp",
            "internal to the kernel",
            None,
        ),
        ("mcp_servers: { a: { type: project, command: x } }", "3:21 mcp_servers.a.type", "is set by .mcp.json", None),
        ("mcp_servers: { a: { type: http, command: x } }", "3:21 mcp_servers.a.type", "cannot be used with", None),
        ("mcp_servers: { a: { type: sse, url: 'http://x' } }", "3:27 mcp_servers.a.type", "", None),
        ("mcp_servers: { a: { comand: x } }", "3:21 mcp_servers.a.comand", "unknown key", "did you mean command?"),
        ("mcp_servers: .mcp.yaml", "3:14 mcp_servers", "", None),
        ("read_only: [bash]", "3:1 read_only", "is not a tool of an MCP server", NAMES),
        ("read_only: ['mcp__a__*_x']", "3:1 read_only", "is not a tool of an MCP server", NAMES),
        ("read_only: ['mcp__*']", "3:1 read_only", "is not a tool of an MCP server", NAMES),
        ("read_only: [mcp__a__x]", "3:1 read_only", "MCP server 'a'", "the agent has no mcp_servers"),
        ("read_only: {a: b}", "3:12 read_only", "", None),
        ("read_only: mcp__a__x", "3:12 read_only", "", None),
        ("mcp_servers: [github]", "3:1 mcp_servers", "server github not found in .mcp.json", None),
    ],
)
def test_what_is_wrong_is_told_at_its_place(
    tmp_path: Path, keys: str, place: str, message: str, hint: str | None
) -> None:
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "y"}}}')
    error = raised(BadDefinition, agent(tmp_path, keys).agent, "alice")
    assert error.text.startswith(f".agents/alice.yaml:{place}") and message in error.text
    assert hint is None or error.errors[0].hint == hint


def test_what_is_right_is_taken(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"x": {"command": "y"}}}')
    project = "tools: { count: { description: Count, command: [sh, -c, 'wc ${HOME}'] } }"
    keys = "tools: [bash, files, skills, feedback, count]\nmcp_servers: [x]\napproval: all"
    definition = agent(tmp_path, keys, project).agent("alice").definition
    assert definition.tools == ("bash", "files", "skills", "feedback", "count")
    assert definition.mcp_servers == {"x": McpServer(type="project")}


@pytest.mark.parametrize(
    ("tool", "place", "message"),
    [
        ("Count: { description: x, mock: y }", "tools.Count", "is not a tool's name"),
        ("bash: { description: x, mock: y }", "tools.bash", "bash is built in"),
        ("files: { description: x, mock: y }", "tools.files", "files is built in"),
        ("team_vote: { description: x, mock: y }", "tools.team_vote", "names that begin with team_ are taken"),
        ("mcp__x__y: { description: x, mock: y }", "tools.mcp__x__y", "are taken"),
        ("count: { description: '', mock: y }", "tools.count.description", "is empty"),
        ("count: { description: x }", "tools.count.command", "is missing"),
        ("count: { description: x, command: [wc, '${a}'] }", "tools.count.command", "${a} is not an argument"),
        ("count: { description: x, command: [wc, 'a${b}'] }", "tools.count.command", "contains ${b} as a part"),
        (
            "count: { description: x, command: [sh, -c, 'wc ${a}'], input: { a: string } }",
            "tools.count.command",
            "contains ${a} as a part of a word",
        ),
        ("count: { description: x, command: [wc], input: { a: text } }", "tools.count.input", "'text' is no type"),
        ("count: { description: x, command: wc }", "tools.count.command", ""),
    ],
)
def test_a_tool_of_the_project_has_to_be_one(tmp_path: Path, tool: str, place: str, message: str) -> None:
    error = raised(BadDefinition, agent(tmp_path, "", f"tools: {{ {tool} }}").project)
    assert f" {place}: " in error.text and message in error.text


def test_no_name_of_a_project_s_tool_can_hide_one_of_the_kernel_s() -> None:
    """Whatever Daemon MCP offers begins with a family's name, which no other tool may."""
    assert all(tool_name_fault(name) for name in TOOLS)
    assert all(name.startswith(CONTEXT_FAMILIES) for name in TOOLS)
    assert set(ON_DEMAND) <= set(TOOLS)
    assert not set(BUILT_IN) & set(TOOLS)
