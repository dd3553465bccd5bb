"""What its owner has given a program, let into a real kernel's attempts one by one (``cli:``): the real programs."""

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from kernel.services.working_directory import folder_name
from protocol.backends import OWN_SKILLS
from protocol.discovery import SESSIONS
from tests.e2e.engines import BY_NAME, KEY, fingerprint, place
from tests.e2e.test_logins import opened
from tests.project import Project
from tests.worker.backends.subject import CLIS
from tests.worker.scripted_api import Call, Say, ScriptedApi

SERVER: Final = str(Path(__file__).parents[1] / "worker" / "stdio_server.py")
SECRET: Final = "sesame-open-4711"
SKILL: Final = "---\nname: {0}\ndescription: how we {0}\n---\nAs the canary of {0} does.\n"
SKILLS: Final = {
    "claude": ".claude/skills", "codex": ".codex/skills", "opencode": ".config/opencode/skills",
}  # fmt: skip
MODELS: Final = {"claude": "anthropic/claude-sonnet-4-5", "codex": "openai/gpt-5.5", "opencode": "openai/gpt-5.5"}
NAMED: Final = {
    "claude": {".claude/settings.json", ".claude.json"},
    "codex": {".codex/config.toml"},
    "opencode": {".config/opencode/opencode.json"},
}


def furnish(home: Path, notes: Path) -> None:
    """A home where each program has two skills, two servers and hooks; ``notes`` tell what ran."""
    words = [sys.executable, "-I", "-S", SERVER]
    other = ["touch", str(notes / "other")]
    hook = {"hooks": [{"type": "command", "command": f"cat >> {notes}/hooked"}]}
    evil = {"hooks": {"PreToolUse": [hook]}, "env": {"EVIL": "1"}, "permissions": {"deny": ["Read"]}}
    servers = {"own": words, "other": other}
    files = {
        ".claude/settings.json": json.dumps(evil),
        ".claude/CLAUDE.md": "the user's own words",
        ".claude.json": json.dumps(
            {
                "mcpServers": {
                    name: {"command": it[0], "args": it[1:], "env": {"DOOR": SECRET}} for name, it in servers.items()
                }
            }
        ),
        ".codex/config.toml": "".join(
            f"[mcp_servers.{name}]\ncommand = {json.dumps(it[0])}\nargs = {json.dumps(it[1:])}\n"
            f"env = {{ DOOR = {json.dumps(SECRET)} }}\n"
            for name, it in servers.items()
        ),
        ".config/opencode/opencode.json": json.dumps(
            {
                "mcp": {
                    name: {"type": "local", "command": it, "environment": {"DOOR": SECRET}}
                    for name, it in servers.items()
                }
            }
        ),
        **{
            f"{place}/{name}/SKILL.md": SKILL.format(name) for place in SKILLS.values() for name in ("deploy", "review")
        },
    }
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)


def reads(name: str, path: Path) -> Call:
    program = BY_NAME[name].program
    assert program is not None
    if name == "codex":
        return program.shell(f"cat {path}")
    tool, key = ("Read", "file_path") if name == "claude" else ("read", "filePath")
    return Call(tool, json.dumps({key: str(path)}), id="call_read")


@pytest.mark.promise("P18", "P19")
@pytest.mark.parametrize(
    ("name", "approval", "let_in"),
    [
        ("claude", "auto", True),
        ("claude", "ask", True),
        ("claude", "auto", False),
        ("codex", "auto", True),
        ("opencode", "auto", True),
        ("opencode", "ask", True),
        ("opencode", "ask", False),
    ],
)
def test_the_real_ones_have_what_was_let_in_and_nothing_else(
    name: str, approval: str, let_in: bool, project: Project, tmp_path: Path
) -> None:
    engine = BY_NAME[name]
    if engine.missing or engine.program is None:
        pytest.skip(f"{name} is not installed: AGENT_WORKER_TEST_CLIS")
    notes = tmp_path / "notes"
    notes.mkdir()
    furnish(project.home, notes)
    hooks = ", hooks: true" if name == "claude" else ""
    cli = f"cli: {{ skills: [deploy], mcp_servers: [own]{hooks} }}\nread_only: [mcp__own__look]\n" if let_in else ""
    project.write("moniro.yaml", "conversations: false\n")
    project.write(
        ".agents/alice.yaml",
        f"backend: {name}\nmodel: {MODELS[name]}\nprompt: {{ system: hi }}\napproval: {approval}\n"
        f"retry: {{ attempts: 1 }}\n{cli}",
    )
    copies = project.state / SESSIONS / "alice" / folder_name("dm:alice") / name / OWN_SKILLS
    look = Call(engine.program.own_tool("look"), json.dumps({"name": "DOOR"}), id="call_look")
    calls = [Say(calls=(reads(name, copies / "deploy/SKILL.md"),)), Say(calls=(look,))] if let_in else []
    before = fingerprint(project.home)
    with ScriptedApi([engine.tells("hello"), *calls, Say(text="done")]) as api, opened(project.home) as found:
        environ = {
            "PATH": f"{CLIS}/{name}/node_modules/.bin:{os.environ['PATH']}",
            "ANTHROPIC_BASE_URL": api.anthropic_url,
            "OPENAI_BASE_URL": api.openai_url,
            "ANTHROPIC_API_KEY": KEY,
            "OPENAI_API_KEY": KEY,
        }
        assert project.awk("start", "--trust", env=environ).code == 0
        asked = project.awk("send", "alice", "go", "--wait", seconds=120)
        assert (asked.code, asked.out.strip().splitlines()[-1:]) == (0, ["done"]), asked
        shown = project.awk("show", "i1", "--steps", "--full").out
        kept: list[dict[str, Any]] = project.awk("show", "i1", "--steps", "--json").json()["entries"]
        assert project.awk("stop", "--yes").code == 0
    told = json.dumps([request.body for request in api.requests])
    assert SECRET not in shown and SECRET not in json.dumps(kept)
    assert "canary of review" not in told and "the user's own words" not in told
    assert not (notes / "other").exists()
    assert fingerprint(project.home) == before
    if not let_in:
        assert (found, (notes / "hooked").exists(), "how we deploy" in told) == (set(), False, False)
        return
    assert "how we deploy" in told and "canary of deploy" in told
    assert SECRET in told, "the server has its key"
    assert "[secret]" in shown
    assert found == {*NAMED[name], f"{SKILLS[name]}/deploy/SKILL.md"}
    if name == "claude":
        ran = (notes / "hooked").read_text()
        assert "mcp__own__look" in ran and "Read" in ran


GIVEN: Final = """
for word; do case "$last" in --settings | --mcp-config) cp "$word" NOTES;; esac; last=$word; done
cp -R "$CLAUDE_CONFIG_DIR/own-skills" NOTES
exit 1
"""
"""A stand-in for claude that keeps what it was given, and does nothing."""
ALICE: Final = (
    "backend: claude\nmodel: sonnet\nprompt: { system: hi }\nretry: { attempts: 1 }\n"
    "cli: { skills: [deploy], hooks: true, mcp_servers: [own] }\n"
)


def test_its_program_is_given_what_was_let_in(project: Project, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    for folder in (notes, tmp_path / "bin"):
        folder.mkdir()
    furnish(project.home, notes)
    place(tmp_path / "bin/claude", GIVEN.replace("NOTES", str(notes)))
    environ = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "ANTHROPIC_API_KEY": KEY}
    project.write(".agents/alice.yaml", ALICE)
    project.write(".agents/bob.yaml", f"{ALICE}mcp_servers: .mcp.json\n")
    project.write(".mcp.json", json.dumps({"mcpServers": {"own": {"command": "true"}}}))
    assert project.awk("start", "--trust", env=environ).code == 0
    project.awk("send", "alice", "go", "--wait")
    refused = project.ended(project.send("bob"))
    assert project.awk("stop", "--yes").code == 0
    given = json.loads((notes / "mcp.json").read_text())["mcpServers"]
    assert given.keys() == {"own", "daemon"} and given["own"]["env"] == {"DOOR": SECRET}
    assert list(json.loads((notes / "settings.json").read_text())["hooks"]) == ["PreToolUse"]
    assert [path.name for path in (notes / OWN_SKILLS).iterdir()] == ["deploy"]
    assert "name own is already used by a server of the project" in refused["text"]


@pytest.mark.promise("P19")
@pytest.mark.long("tests/kernel/agents/test_cli_extras.py")
def test_without_consent_nothing_of_it_is_opened(project: Project, tmp_path: Path) -> None:
    """Exit 7, with each thing in its own words."""
    furnish(project.home, tmp_path)
    project.write(".agents/alice.yaml", ALICE)
    with opened(project.home) as found:
        assert project.awk("start", env={"ANTHROPIC_API_KEY": KEY}).code == 0
        asked = project.awk("send", "alice", "go")
        assert project.awk("stop", "--yes").code == 0
    assert asked.code == 7
    for words in ("reads your skill deploy", "runs your hooks of Claude Code", "uses your MCP server own"):
        assert words in asked.err
    assert found == set()
