"""The key ``cli``: what is demanded for it, what is refused, and what of the owner's an attempt gets."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from kernel.agents.cli_extras import MAX_HOOKS_BYTES, extras_of
from kernel.agents.providers import CauseError
from kernel.agents.resources import NOTHING
from kernel.agents.trust import agent_units
from kernel.source.diagnostics import BadDefinition
from protocol.agent import AgentDefinition, McpServer
from protocol.backends import OWN_SKILLS
from protocol.ipc import NULL
from tests.e2e.engines import fingerprint
from tests.kernel.agents.test_catalog import project

CLAUDE = "backend: claude\nmodel: anthropic/claude-opus-5-5\nprompt: {system: x}\n"
CODEX = "backend: codex\nmodel: openai/gpt-5.5\nprompt: {system: x}\n"
OPENCODE = "backend: opencode\nmodel: anthropic/claude-opus-5-5\nprompt: {system: x}\n"
SKILL = "---\nname: {0}\ndescription: how we do it\n---\nAs the canary does.\n"
HOOKS = {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}
BOX = McpServer(command="box", args=("-v",), env={"DOOR": "sesame", "KEY": "${KEY}"})
FAR = McpServer(url="https://example.com/mcp", headers={"Authorization": "Bearer ${KEY}"})
FILES = {
    ".claude/settings.json": json.dumps({"hooks": HOOKS, "env": {"EVIL": "1"}}),
    ".claude.json": json.dumps(
        {
            "projects": {"/x": {"mcpServers": {"no": {}}}},
            "mcpServers": {
                "box": {"type": "stdio", "command": "box", "args": ["-v"], "env": {"DOOR": "sesame", "KEY": "${KEY}"}},
                "far": {"type": "http", "url": FAR.url, "headers": dict(FAR.headers)},
                "old": {"type": "sse", "url": "https://example.com"},
                "none": {},
                "near": {"command": "bin/box"},
            },
        }
    ),
    ".codex/config.toml": """
        [mcp_servers.box]
        command = "box"
        args = ["-v"]
        env = { DOOR = "sesame" }
        env_vars = ["KEY"]
        [mcp_servers.far]
        url = "https://example.com/mcp"
        bearer_token_env_var = "KEY"
        [mcp_servers.old]
        command = "box"
        cwd = "/tmp"
    """,
    ".config/opencode/opencode.jsonc": """{
        // what I use, "of all": http://x
        "mcp": {
          "box": {"type": "local", "command": ["box", "-v"], "environment": {"DOOR": "sesame", "KEY": "{env:KEY}"}},
          "far": {"type": "remote", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer {env:KEY}"}},
          "old": {"type": "remote", "url": "https://example.com", "headers": {"a": "{file:~/x}"}}, /* no more */
        },
    }""",
    **{
        f"{place}/{name}/SKILL.md": SKILL.format(name)
        for place in (".claude/skills", ".codex/skills", ".config/opencode/skills")
        for name in ("deploy", "other")
    },
}
TEXTS = {"claude": CLAUDE, "codex": CODEX, "opencode": OPENCODE}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with all that its owner has given these programs."""
    for name, text in FILES.items():
        (tmp_path / "home" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "home" / name).write_text(text)
    (tmp_path / "private").mkdir(mode=0o700)
    return tmp_path / "home"


def agent(tmp_path: Path, text: str) -> AgentDefinition:
    return project(tmp_path, alice=text).agent("alice").definition


def found(tmp_path: Path, text: str, environ: Mapping[str, str] | None = None) -> object:
    definition = agent(tmp_path, text)
    return extras_of(definition, environ or {"HOME": str(tmp_path / "home")}, str(tmp_path / "private"))


@pytest.mark.promise("P19")
@pytest.mark.parametrize(
    ("backend", "skills", "servers"),
    [
        ("claude", "~/.claude/skills", "~/.claude.json"),
        ("codex", "~/.codex/skills", "~/.codex/config.toml"),
        ("opencode", "~/.config/opencode/skills", "~/.config/opencode/opencode.json"),
    ],
)
def test_each_thing_is_a_demand_of_its_own(tmp_path: Path, backend: str, skills: str, servers: str) -> None:
    catalog = project(
        tmp_path,
        alice=TEXTS[backend] + "cli: {skills: [deploy], mcp_servers: [box, far]}\n",
        bob=TEXTS[backend],
    )
    (unit,) = agent_units(catalog.agent("alice").definition, catalog.project(), NOTHING)
    said = [demand for demand in unit.demands if " your " in demand]
    assert [demand.split(" of ")[0] for demand in said] == [
        "alice reads your skill deploy",
        "alice uses your MCP server box",
        "alice uses your MCP server far",
    ]
    assert (f"({skills}/deploy)" in said[0], f"({servers})" in said[1]) == (True, True)
    assert " your " not in repr(agent_units(catalog.agent("bob").definition, catalog.project(), NOTHING))


@pytest.mark.promise("P19")
def test_hooks_are_demanded_as_what_they_are(tmp_path: Path) -> None:
    catalog = project(tmp_path, alice=CLAUDE + "cli: {hooks: true}\n")
    (unit,) = agent_units(catalog.agent("alice").definition, catalog.project(), NOTHING)
    said = "alice runs your hooks of Claude Code (~/.claude/settings.json): commands of yours, on what its model does"
    assert said in unit.demands


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("model: anthropic/x\nprompt: {system: x}\ncli: {skills: [a]}", "cli", "is nothing that backend sdk has"),
        ("backend: mock\nmock: [{text: x}]\ncli: {hooks: true}", "cli", "is nothing that backend mock has"),
        (
            "backend: cursor\nmodel: cursor/auto\nprompt: {system: x}\ncli: {mcp_servers: [a]}",
            "cli",
            "is nothing that backend cursor has",
        ),
        (CODEX + "cli: {hooks: true}", "cli.hooks", "cannot be let in: Codex runs a hook that its owner has reviewed"),
        (OPENCODE + "cli: {hooks: true}", "cli.hooks", "cannot be let in: opencode has no hooks"),
        (CLAUDE + "sandbox: 'on'\ncli: {hooks: true}", "cli.hooks", "cannot be with sandbox: on"),
        (CLAUDE + "cli: {skills: [../x]}", "cli.skills", "'../x' is no name of a skill's folder"),
        (CLAUDE + "cli: {mcp_servers: [daemon]}", "cli.mcp_servers", "is what Daemon MCP is called"),
        (
            CLAUDE + "mcp_servers: {box: {command: x}}\ncli: {mcp_servers: [box]}",
            "cli.mcp_servers",
            "is one of the agent's own mcp_servers, too",
        ),
        (CLAUDE + "cli: {plugins: [x]}", "cli.plugins", "unknown key"),
        (CLAUDE + f"cli: {{skills: {[f's{n}' for n in range(21)]}}}", "cli.skills", "names 21, and 20 are the most"),
        (CLAUDE + "cli: {mcp_servers: [box, box]}", "cli.mcp_servers", "names one twice"),
    ],
)
def test_what_cannot_be_let_in_is_refused_with_the_reason(tmp_path: Path, text: str, where: str, message: str) -> None:
    with pytest.raises(BadDefinition) as caught:
        project(tmp_path, alice=text).agent("alice")
    assert [error.where for error in caught.value.errors if message in error.message] == [where]


def test_read_only_may_name_tools_of_a_server_that_is_let_in(tmp_path: Path) -> None:
    assert agent(tmp_path, CLAUDE + "cli: {mcp_servers: [box]}\nread_only: [mcp__box__look]\n").read_only
    with pytest.raises(BadDefinition):
        agent(tmp_path, CLAUDE + "cli: {mcp_servers: [box]}\nread_only: [mcp__far__look]\n")


@pytest.mark.promise("P18")
@pytest.mark.parametrize("backend", TEXTS)
def test_what_is_named_is_let_in_and_nothing_else(home: Path, tmp_path: Path, backend: str) -> None:
    before = fingerprint(home)
    made = extras_of(
        agent(tmp_path, TEXTS[backend] + "cli: {skills: [deploy], mcp_servers: [box, far]}\n"),
        {"HOME": str(home)},
        str(tmp_path / "private"),
    )
    said = {name: (one.command, one.args, one.env, one.url, one.headers) for name, one in made.servers.items()}
    assert said == {
        "box": (BOX.command, BOX.args, BOX.env, None, {}),
        "far": (None, (), {}, FAR.url, FAR.headers),
    }
    (skill,) = made.skills
    copy = tmp_path / "private" / OWN_SKILLS / "deploy"
    assert (skill.name, skill.description, skill.folder) == ("deploy", "how we do it", str(copy))
    assert (copy / "SKILL.md").read_text() == SKILL.format("deploy")
    assert [path.name for path in (tmp_path / "private" / OWN_SKILLS).iterdir()] == ["deploy"]
    assert made.hooks == NULL
    assert fingerprint(home) == before


def test_hooks_are_let_in_without_other_settings(home: Path, tmp_path: Path) -> None:
    made = extras_of(agent(tmp_path, CLAUDE + "cli: {hooks: true}\n"), {"HOME": str(home)}, str(tmp_path / "private"))
    assert (json.loads(bytes(made.hooks)), made.servers, made.skills) == (HOOKS, {}, ())


@pytest.mark.promise("P18")
@pytest.mark.parametrize("backend", TEXTS)
def test_what_is_no_longer_named_is_no_longer_there(home: Path, tmp_path: Path, backend: str) -> None:
    found(tmp_path, TEXTS[backend] + "cli: {skills: [deploy]}\n")
    found(tmp_path, TEXTS[backend])
    assert not (tmp_path / "private" / OWN_SKILLS).exists()
    (tmp_path / "private" / OWN_SKILLS).symlink_to(home)
    before = fingerprint(home)
    found(tmp_path, TEXTS[backend] + "cli: {skills: [deploy]}\n")
    assert fingerprint(home) == before
    assert not (tmp_path / "private" / OWN_SKILLS).is_symlink()


def test_a_copy_is_a_copy(home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "bin").mkdir(parents=True)
    (elsewhere / "SKILL.md").write_text(SKILL.format("linked"))
    (elsewhere / "bin/run").write_text("#!/bin/sh\n")
    (elsewhere / "bin/run").chmod(0o755)
    (home / ".claude/skills/linked").symlink_to(elsewhere)
    text = CLAUDE + "cli: {skills: [linked]}\n"
    found(tmp_path, text)
    copies = tmp_path / "private" / OWN_SKILLS / "linked"
    assert os.access(copies / "bin/run", os.X_OK) and not os.access(copies / "SKILL.md", os.X_OK)
    assert not any(path.is_symlink() for path in (copies, *copies.rglob("*")))
    (elsewhere / "key").symlink_to(home / ".claude.json")
    with pytest.raises(CauseError, match="key is a link, which is not copied"):
        found(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CLAUDE + "cli: {skills: [gone]}", "there is no ~/.claude/skills/gone"),
        (CLAUDE + "cli: {mcp_servers: [gone]}", "gone of ~/.claude.json is not there"),
        (CLAUDE + "cli: {mcp_servers: [old]}", "old of ~/.claude.json cannot be handed on: .*sse"),
        (CLAUDE + "cli: {mcp_servers: [none]}", "it has neither a command nor a url"),
        (CLAUDE + "cli: {mcp_servers: [near]}", "its command, 'bin/box', would be looked for in the project"),
        (CODEX + "cli: {mcp_servers: [old]}", "it has a cwd, and servers start where the agent works"),
        (OPENCODE + "cli: {mcp_servers: [old]}", "keep that in a variable"),
    ],
)
def test_what_is_not_there_or_cannot_be_handed_on_is_told(home: Path, tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CauseError, match=message):
        found(tmp_path, text)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        (".claude/settings.json", "{}", "there are none in ~/.claude/settings.json"),
        (".claude/settings.json", "[", "cannot be read"),
        (".claude/settings.json", None, "there is no ~/.claude/settings.json"),
        (".claude/settings.json", json.dumps({"hooks": {"Stop": ["x" * MAX_HOOKS_BYTES]}}), "more than 256 KiB"),
        (".claude/settings.json", b"\xff", "cannot be read"),
    ],
)
def test_hooks_that_cannot_be_had_stop_the_attempt(
    home: Path, tmp_path: Path, name: str, data: str | bytes | None, message: str
) -> None:
    """An agent that is to be held back by hooks never works without."""
    (home / name).unlink()
    if data is not None:
        (home / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(CauseError, match=message):
        found(tmp_path, CLAUDE + "cli: {hooks: true}")


def test_a_home_that_was_moved_is_found(home: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved/config"
    moved.parent.mkdir()
    (home / ".claude").rename(moved)
    (home / ".claude.json").rename(moved / ".claude.json")
    environ = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(moved)}
    found(tmp_path, CLAUDE + "cli: {skills: [deploy], hooks: true, mcp_servers: [box]}", environ)
    with pytest.raises(CauseError, match="nobody knows where your home is"):
        found(tmp_path, CLAUDE + "cli: {hooks: true}", {"PATH": "/bin"})
