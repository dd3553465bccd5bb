"""awk adopt: what other coding agents know of a project becomes files of ours, by consent, and nothing of it is run."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.interface.conftest import Cli
from tests.interface.hostile import HOSTILE, obeyed

REVIEWER = (
    "---\nname: reviewer\ndescription: Reviews. Use it: often\ntools: Read, Grep, Bash(git diff:*)\n---\nReview.\n"
)
SERVERS = '{"mcpServers": {"docs": {"command": "npx", "args": ["-y", "docs"], "env": {"KEY": "${DOCS_KEY}"}}}}'
HOOKS = '{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "touch %s"}]}]}}'
SKILL = "---\nname: release\ndescription: How to release\n---\nTag it.\n"

Repository = dict[str, str]
REPOSITORIES: dict[str, tuple[Repository, set[str], list[str]]] = {
    "rules of claude": ({"CLAUDE.md": "Be brief."}, {"claude"}, []),
    "rules for all": ({"AGENTS.md": "Be brief."}, {"codex"}, []),
    "subagents": (
        {"CLAUDE.md": "x", ".claude/agents/reviewer.md": REVIEWER, ".claude/agents/Odd Name.md": REVIEWER},
        {"claude", "reviewer"},
        ["tools: Bash(git diff:*) has no counterpart", "'Odd Name' is not a name"],
    ),
    "skills and commands": (
        {
            ".claude/skills/release/SKILL.md": SKILL,
            ".claude/skills/broken/SKILL.md": "no front",
            ".claude/commands/fix-issue.md": "---\ndescription: Fix an issue\n---\nFix $ARGUMENTS.\n",
            ".claude/commands/fix_issue.md": "x",
        },
        {"claude"},
        ["placeholders such as $ARGUMENTS", "not the name of a new skill", "broken"],
    ),
    "permissions": (
        {
            ".claude/settings.json": '{"permissions": {"allow": ["Bash(npm test)"], "ask": ["WebFetch"], "deny": '
            '["Bash", "Read(./.env)"], "defaultMode": "bypassPermissions"}, "model": "opus", "statusLine": {}}',
            ".mcp.json": SERVERS,
        },
        {"claude"},
        ["permissions.allow: Bash(npm test)", "permissions.deny: Read(./.env)", "approval stays ask", "statusLine"],
    ),
    "codex": (
        {
            "AGENTS.md": "x",
            ".codex/config.toml": 'model = "gpt-5.1"\napproval_policy = "never"\nsandbox_mode = "workspace-write"\n'
            'model_reasoning_effort = "high"\n[mcp_servers.docs]\ncommand = "npx"\nargs = ["-y", "docs"]\n'
            '[mcp_servers.bad]\nurl = "ftp://x"\n[profiles.x]\nmodel = "y"\n',
            ".codex/prompts/changelog.md": "Write a changelog.",
        },
        {"codex"},
        ["mcp_servers.bad", "profiles: create an agent"],
    ),
    "opencode": (
        {
            "opencode.json": '{\n// a comment\n"model": "anthropic/claude-sonnet-4-5", "permission": {"edit": "ask"},\n'
            '"agent": {"planner": {"prompt": "Plan.", "mode": "subagent"}, "empty": {}}, "mcp": {"off": {"enabled": '
            'false, "url": "https://x"}, "on": {"type": "remote", "url": "https://mcp.example.com"}}}',
            ".opencode/agent/writer.md": "---\ndescription: writes\nmode: subagent\ntools:\n  bash: false\n---\nWrite.",
        },
        {"opencode", "planner", "writer"},
        ["agent.empty: has no prompt", "MCP server off: is disabled", "permission: has no counterpart"],
    ),
    "gemini": (
        {"GEMINI.md": "x", ".gemini/settings.json": '{"mcpServers": {"g": {"httpUrl": "https://g.example"}}, "a": 1}'},
        {"gemini"},
        ["rename it, or link one to it", "a: has no counterpart"],
    ),
    "all at once": (
        {
            "CLAUDE.md": "x",
            ".claude/agents/codex.md": REVIEWER.replace("reviewer", "codex"),
            ".codex/config.toml": 'model = "x"\nmodel_provider = "azure"\n',
            "GEMINI.md": "x",
        },
        {"claude", "codex", "gemini"},
        ["model: x of azure", "another agent is named codex"],
    ),
    "broken files": (
        {"CLAUDE.md": "x", ".claude/settings.json": "{", ".mcp.json": "[1]", ".codex/config.toml": "= x"},
        {"claude", "codex"},
        [".claude/settings.json: is invalid", ".codex/config.toml: is invalid"],
    ),
}


def laid(cli: Cli, files: Repository) -> None:
    for path, text in files.items():
        file = cli.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode("utf-8", "surrogatepass"))


def all_of(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def agent(cli: Cli, name: str) -> Any:
    return yaml.safe_load((cli.root / f".agents/{name}.yaml").read_text())


@pytest.mark.parametrize("name", REPOSITORIES)
def test_a_repository_is_shown_then_adopted_and_then_left_alone(name: str, cli: Cli) -> None:
    files, agents, lost = REPOSITORIES[name]
    laid(cli, files)
    before = all_of(cli.root)
    shown = cli("adopt", "--json")
    assert (shown.code, all_of(cli.root)) == (0, before), shown.err
    assert "nothing was written" in shown.err
    told = cli("adopt", "--yes", "--json").json()
    written = {row["path"] for row in told["files"] if row["state"] == "written"}
    assert {path for path in written if path.endswith(".yaml")} == {
        *(f".agents/{one}.yaml" for one in agents),
        ".workflows/adopted.yaml",
    }
    reasons = "\n".join(f"{one['source']}: {one['reason']}" for one in told["not_adopted"])
    assert [part for part in lost if part not in reasons] == []
    assert {path: all_of(cli.root)[path] for path in before} == before
    assert [row["text"] for row in told["files"]] == [(cli.root / row["path"]).read_text() for row in told["files"]]
    checked = cli("validate")
    assert checked.code == 0, checked.err
    after = all_of(cli.root)
    again = cli("adopt", "--yes")
    assert (again.code, "nothing new to write" in again.out, all_of(cli.root)) == (0, True, after)


def test_the_written_files_say_what_the_found_ones_said(cli: Cli) -> None:
    for name in ("subagents", "skills and commands", "permissions", "codex", "opencode"):
        laid(cli, REPOSITORIES[name][0])
    assert cli("adopt", "--yes").code == 0
    claude, codex, opencode = agent(cli, "claude"), agent(cli, "codex"), agent(cli, "opencode")
    assert (claude["model"], claude["tools"], claude.get("approval")) == ("opus", ["files", "skills"], None)
    assert claude["skills"] == [".claude/skills/release", ".agents/skills/fix-issue"]
    assert (claude["mcp_servers"], claude["project_rules"]) == (".mcp.json", True)
    assert agent(cli, "reviewer")["soul"] == {"description": "Reviews. Use it: often"}
    assert agent(cli, "reviewer")["tools"] == ["files", "skills"]
    assert (codex["model"], codex["effort"], codex["approval"], codex["sandbox"]) == (
        "openai/gpt-5.1", "high", "auto", "on",
    )  # fmt: skip
    assert codex["mcp_servers"] == {"docs": {"command": "npx", "args": ["-y", "docs"]}}
    assert opencode["mcp_servers"] == {"on": {"url": "https://mcp.example.com"}}
    assert agent(cli, "planner")["prompt"] == {"system": "Plan."}
    flow = yaml.safe_load((cli.root / ".workflows/adopted.yaml").read_text())
    assert (flow["kickoff"], "writer" in flow["agents"]) == ("@claude ${{ params.task }}", True)
    assert "changelog" in (cli.root / ".agents/skills/changelog/SKILL.md").read_text()


def test_what_is_there_is_never_replaced(cli: Cli) -> None:
    laid(cli, {"CLAUDE.md": "x", ".agents/claude.yaml": "backend: mock\nmock: [{text: mine}]\n"})
    (cli.root / ".workflows").mkdir()
    (cli.root / ".workflows/adopted.yaml").symlink_to("/nonexistent")
    before = all_of(cli.root)
    told = cli("adopt", "--yes", "--json").json()
    assert {row["state"] for row in told["files"]} == {"kept"}
    assert all_of(cli.root) == before
    laid(cli, {".agents.yaml": "agents: {codex: {backend: mock, mock: [{text: x}]}}\n", ".codex/config.toml": ""})
    assert cli("adopt", "--yes").code == 0
    assert not (cli.root / ".agents/codex.yaml").exists()


def test_nothing_is_run_and_no_link_is_followed(cli: Cli, tmp_path: Path) -> None:
    """Hooks, links out of the project, pipes, huge, deep and endless files."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text(REVIEWER.replace("Review.", "SECRET"))
    laid(cli, {".claude/settings.json": HOOKS % (tmp_path / "ran"), ".claude/agents/big.md": "---\n" + "x" * 2**21})
    (cli.root / ".claude/agents/link.md").symlink_to(outside / "secret.md")
    (cli.root / ".claude/commands").symlink_to(outside)
    (cli.root / "CLAUDE.md").symlink_to(outside / "secret.md")
    os.mkfifo(cli.root / ".mcp.json")
    laid(cli, {"opencode.json": "[" * 100_000, ".codex/config.toml": "x = " + "[" * 50_000})
    laid(cli, {".opencode/agent/bomb.md": f"---\na: &a [x]\nb: [{'*a,' * 5000}]\n---\nx\n"})
    laid(cli, {f".opencode/agents/a{number}.md": "---\nx: y\n---\nx\n" for number in range(120)})
    ran = cli("adopt", "--yes", "--json")
    assert ran.code == 0, ran.err
    assert not (tmp_path / "ran").exists()
    assert not any(b"SECRET" in text for text in all_of(cli.root / ".agents").values())
    reasons = "\n".join(f"{one['source']}: {one['reason']}" for one in ran.json()["not_adopted"])
    for part in (
        "link.md: cannot be read",
        "larger than",
        "leads outside",
        ".mcp.json: cannot be read",
        "only the first",
    ):
        assert part in reasons
    assert len(list((cli.root / ".agents").glob("a*.yaml"))) == 100
    assert cli("validate").code == 0


DEEP = "[" * 900 + "]" * 900
TOO_DEEP = "cannot be read" if sys.version_info < (3, 13) else "has no counterpart"
"""Later versions limit the recursion of C functions by their stack instead of a number."""


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        ("opencode.json", "\n" * 1_000_000, "is invalid"),
        (".claude/agents/a.md", f"---\ntools: {'a,' * 400_000}\n---\nx\n", "tools: a has no counterpart"),
        (".codex/config.toml", "a." * 400_000 + "a = 1\n", "more than 100 dots"),
        (".codex/config.toml", f"model_reasoning_effort = 0x{'f' * 6000}\n", "cannot be read"),
        ("opencode.json", f'{{"agent": {{"x": {{"prompt": "p", "y": {DEEP}}}}}}}', TOO_DEEP),
    ],
    ids=["blank lines", "commas", "dots", "number", "depth"],
)
def test_values_that_take_forever_or_overflow_are_refused(path: str, text: str, reason: str, cli: Cli) -> None:
    laid(cli, {"CLAUDE.md": "x", path: text})
    ran = cli("adopt", "--json")
    assert ran.code == 0, ran.err
    assert reason in "\n".join(one["reason"] for one in ran.json()["not_adopted"])
    assert ".agents/claude.yaml" in [one["path"] for one in ran.json()["files"]]


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({".claude/skills/release/SKILL.md": SKILL, ".claude/commands/release.md": "x"}, "the name of a new skill"),
        ({".claude/commands/a.md": '---\ndescription: "a\\0b"\n---\nx\0y\n'}, "invalid"),
        ({".claude/agents/a.md": "---\nname: a\n---\n" + "x y\n" * 200_000}, "too large"),
        (
            {f".claude/commands/a{n}.md": "x" for n in range(100)} | {".claude/skills/release/SKILL.md": SKILL},
            "one too many",
        ),
    ],
    ids=["skill and command", "NUL", "large", "many"],
)
def test_what_the_loader_would_refuse_is_not_written(files: Repository, reason: str, cli: Cli) -> None:
    laid(cli, {"CLAUDE.md": "x", **files})
    ran = cli("adopt", "--yes", "--json")
    assert reason in "\n".join(one["reason"] for one in ran.json()["not_adopted"])
    checked = cli("validate")
    assert checked.code == 0, checked.err


@pytest.mark.parametrize(
    ("config", "own", "tools"),
    [
        ('"permission": {"bash": {"*": "deny"}, "edit": "allow"}', "", ["files", "skills"]),
        ('"permission": "ask"', "", ["skills"]),
        ('"tools": {"write": false}', "tools:\n  bash: true\n", ["bash", "skills"]),
        ('"theme": "x"', "tools:\n  bash: false\n", ["files", "skills"]),
        ('"theme": "x"', "permission:\n  bash: deny\n  edit: ask\n", ["skills"]),
    ],
)
def test_what_opencode_may_not_use_stays_unavailable(config: str, own: str, tools: list[str], cli: Cli) -> None:
    laid(cli, {"opencode.json": f"{{{config}}}", ".opencode/agent/a.md": f"---\nmode: all\n{own}---\nx\n"})
    assert cli("adopt", "--yes").code == 0
    assert agent(cli, "a")["tools"] == tools
    assert cli("validate").code == 0


@pytest.mark.parametrize("payload", HOSTILE)
def test_texts_of_a_repository_stay_texts(payload: str, cli: Cli) -> None:
    laid(cli, {"CLAUDE.md": "x", ".claude/agents/eve.md": f"---\ndescription: d\n'{payload}': x\n---\n{payload}x"})
    entry = {"prompt": payload, "description": payload, payload: 1}
    laid(cli, {"opencode.json": json.dumps({"agent": {"mallory": entry, payload: entry}, "mcp": {payload: {}}})})
    shown = cli("adopt")
    assert not obeyed(shown.out + shown.err)
    assert cli("adopt", "--yes").code == 0
    assert cli("validate").code == 0


def test_without_such_files_there_is_nothing_to_adopt(cli: Cli) -> None:
    ran = cli("adopt", "--yes")
    assert (ran.code, ran.out) == (
        0,
        "found: no files of Claude Code, Codex, opencode or Gemini\nnothing new to write\n",
    )


def test_an_example_is_not_written_through_a_link(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (cli.root / ".workflows").symlink_to(tmp_path / "outside")
    assert cli("init").code != 0
    assert list((tmp_path / "outside").iterdir()) == []
