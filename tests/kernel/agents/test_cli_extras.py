"""The key ``cli``: what is demanded for it, what is refused, and what of the owner's an attempt gets."""

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import pytest

from kernel.agents.backends import check_trusted_files, command_of
from kernel.agents.cli_extras import MAX_HOOKS_BYTES, Extras, counts_tokens, extras_of
from kernel.agents.prices import has_price
from kernel.agents.providers import CauseError, calls_models, check_login, login_demand, resolve
from kernel.agents.resources import NOTHING, resources_of
from kernel.agents.trust import agent_units
from kernel.inspect.programs import program_rows
from kernel.inspect.validate import validate
from kernel.source.diagnostics import BadDefinition
from protocol.agent import AgentDefinition, McpServer
from protocol.backends import ACP_PROGRAMS, BACKENDS, CLIS, COMMANDED, OWN_SKILLS
from protocol.ipc import NULL
from protocol.project import ProjectDefinition
from tests.e2e.engines import fingerprint
from tests.kernel.agents.test_catalog import project
from tests.kernel.inspect.files import write
from tests.kernel.refusals import faults, raised
from tests.worker.backends.test_contract import PROGRAMS
from tests.worker.fake_kernel import make_start

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
    write(tmp_path / "home", FILES)
    (tmp_path / "private").mkdir(mode=0o700)
    return tmp_path / "home"


def agent(tmp_path: Path, text: str) -> AgentDefinition:
    return project(tmp_path, alice=text).agent("alice").definition


def found(tmp_path: Path, text: str, environ: Mapping[str, str] | None = None) -> Extras:
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
        tmp_path, alice=TEXTS[backend] + "cli: {skills: [deploy], mcp_servers: [box, far]}\n", bob=TEXTS[backend]
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
        ("model: anthropic/x\nprompt: {system: x}\ncli: {skills: [a]}", "cli", "is not supported by backend sdk"),
        ("backend: mock\nmock: [{text: x}]\ncli: {hooks: true}", "cli", "is not supported by backend mock"),
        (
            "backend: cursor\nmodel: cursor/auto\nprompt: {system: x}\ncli: {mcp_servers: [a]}",
            "cli",
            "is not supported by backend cursor",
        ),
        (CODEX + "cli: {hooks: true}", "cli.hooks", "is not supported: Codex runs a hook that its owner has reviewed"),
        (OPENCODE + "cli: {hooks: true}", "cli.hooks", "is not supported: opencode has no hooks"),
        (CLAUDE + "sandbox: 'on'\ncli: {hooks: true}", "cli.hooks", "cannot be combined with sandbox: on"),
        (CLAUDE + "cli: {skills: [../x]}", "cli.skills", "'../x' is not a folder name of a skill"),
        (CLAUDE + "cli: {mcp_servers: [daemon]}", "cli.mcp_servers", "is what Daemon MCP is called"),
        (
            CLAUDE + "mcp_servers: {box: {command: x}}\ncli: {mcp_servers: [box]}",
            "cli.mcp_servers",
            "is also the name of a server in mcp_servers",
        ),
        (CLAUDE + "cli: {plugins: [x]}", "cli.plugins", "unknown key"),
        (CLAUDE + f"cli: {{skills: {[f's{n}' for n in range(21)]}}}", "cli.skills", "names 21; the limit is 20"),
        (CLAUDE + "cli: {mcp_servers: [box, box]}", "cli.mcp_servers", "names an item twice"),
    ],
)
def test_what_cannot_be_let_in_is_refused_with_the_reason(tmp_path: Path, text: str, where: str, message: str) -> None:
    found = faults(project(tmp_path, alice=text).agent, "alice")
    assert [error.where for error in found if message in error.message] == [where]


def test_read_only_may_name_tools_of_a_server_that_is_let_in(tmp_path: Path) -> None:
    assert agent(tmp_path, CLAUDE + "cli: {mcp_servers: [box]}\nread_only: [mcp__box__look]\n").read_only
    with pytest.raises(BadDefinition):
        agent(tmp_path, CLAUDE + "cli: {mcp_servers: [box]}\nread_only: [mcp__far__look]\n")


@pytest.mark.promise("P18")
@pytest.mark.parametrize("backend", TEXTS)
def test_what_is_named_is_let_in_and_nothing_else(home: Path, tmp_path: Path, backend: str) -> None:
    before = fingerprint(home)
    made = found(tmp_path, TEXTS[backend] + "cli: {skills: [deploy], mcp_servers: [box, far]}\n")
    said = {name: (one.command, one.args, one.env, one.url, one.headers) for name, one in made.servers.items()}
    assert said == {"box": (BOX.command, BOX.args, BOX.env, None, {}), "far": (None, (), {}, FAR.url, FAR.headers)}
    (skill,) = made.skills
    copy = tmp_path / "private" / OWN_SKILLS / "deploy"
    assert (skill.name, skill.description, skill.folder) == ("deploy", "how we do it", str(copy))
    assert (copy / "SKILL.md").read_text() == SKILL.format("deploy")
    assert [path.name for path in (tmp_path / "private" / OWN_SKILLS).iterdir()] == ["deploy"]
    assert made.hooks == NULL
    assert fingerprint(home) == before


def test_hooks_are_let_in_without_other_settings(home: Path, tmp_path: Path) -> None:
    made = found(tmp_path, CLAUDE + "cli: {hooks: true}\n")
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
    with pytest.raises(CauseError, match="key is a link, and links cannot be copied"):
        found(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CLAUDE + "cli: {skills: [gone]}", "~/.claude/skills/gone not found"),
        (CLAUDE + "cli: {mcp_servers: [gone]}", "gone of ~/.claude.json not found"),
        (CLAUDE + "cli: {mcp_servers: [old]}", "old of ~/.claude.json is not valid: .*sse"),
        (CLAUDE + "cli: {mcp_servers: [none]}", "the entry has neither a command nor a url"),
        (CLAUDE + "cli: {mcp_servers: [near]}", "the command 'bin/box' is relative to the project"),
        (CODEX + "cli: {mcp_servers: [old]}", "cwd is not supported: servers start in the agent's working directory"),
        (OPENCODE + "cli: {mcp_servers: [old]}", "use a variable"),
    ],
)
def test_what_is_not_there_or_cannot_be_handed_on_is_told(home: Path, tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CauseError, match=message):
        found(tmp_path, text)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        (".claude/settings.json", "{}", "no hooks found in ~/.claude/settings.json"),
        (".claude/settings.json", "[", "cannot be read"),
        (".claude/settings.json", None, "~/.claude/settings.json not found"),
        (".claude/settings.json", json.dumps({"hooks": {"Stop": ["x" * MAX_HOOKS_BYTES]}}), "larger than 256 KiB"),
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
    with pytest.raises(CauseError, match="the home directory is unknown"):
        found(tmp_path, CLAUDE + "cli: {hooks: true}", {"PATH": "/bin"})


ALICE = AgentDefinition(name="alice", backend="acp", command=("./agent", "--acp"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "agent").write_text("#!/bin/sh\n")
    (tmp_path / "agent").chmod(0o755)
    return tmp_path


def test_its_program_is_that_of_its_file_and_needs_trust(root: Path) -> None:
    """P19: the command, and the file that it names as it was when it was trusted."""
    assert command_of(ALICE, root, "/usr/bin") == (str(root / "agent"), "--acp")
    found = resources_of(ALICE, ProjectDefinition(), root)
    assert set(found.pinned) == {"./agent"}
    assert "is run by: ./agent --acp" in " ".join(str(one) for one in found.demands)
    assert "acp" in COMMANDED & CLIS


@pytest.mark.parametrize("model", ["", "gemini-2.5-pro", "anything/at/all"])
def test_its_model_is_a_word_of_the_programs(model: str) -> None:
    alice = AgentDefinition(name="alice", backend="acp", command=("agent",), model=model)
    assert not calls_models(alice)
    resolved = resolve(alice, ProjectDefinition(), {})
    assert (resolved.provider, resolved.model) == (None, model or "acp")


def test_a_login_is_its_users_whole_home_and_a_demand_in_these_words() -> None:
    alice = AgentDefinition(name="alice", backend="acp", command=("gemini", "--acp"), login=True)
    check_login(alice, None)
    assert login_demand(ALICE) is None
    assert login_demand(alice) == (
        "alice has your home as it is for gemini: your login of it, and all else that is there"
    )


@pytest.mark.promise("P19", "P63")
@pytest.mark.parametrize(
    ("program", "path"),
    [
        ("claude-agent-acp", ".claude/settings.json"),
        ("claude-agent-acp", ".mcp.json"),
        ("gemini", ".gemini/extensions/x/gemini-extension.json"),
        ("opencode", "opencode.json"),
        ("opencode", ".opencode/plugin/x.js"),
        ("npx", ".codex/config.toml"),
        ("./agent", ".claude/settings.local.json"),
    ],
)
def test_settings_that_its_program_may_load_need_trust_by_content(root: Path, program: str, path: str) -> None:
    alice = AgentDefinition(name="alice", backend="acp", command=(program,))
    file, tree = root / path, root / "tree"
    file.parent.mkdir(parents=True, exist_ok=True)
    tree.mkdir()
    (before,) = resources_of(alice, ProjectDefinition(), root).demands
    for text in ("one", "two"):
        file.write_text(text)
        run, demand = resources_of(alice, ProjectDefinition(), root).demands
        assert run == before and f"alice lets {program} load settings, hooks and servers of {path}" in demand
        assert sha256(text.encode()).hexdigest() in demand
    pinned = dict(resources_of(alice, ProjectDefinition(), root).pinned)
    start = make_start(command=(str(root / program),), pinned=pinned, cwd=str(tree))
    check_trusted_files(alice, start)  # less than was trusted
    copy = tree / path
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text("two")
    check_trusted_files(alice, start)
    beside = [] if copy.parent == tree else [copy.with_name("more.json")]
    for changed in (*beside, copy):
        changed.write_text("mine")
        with pytest.raises(CauseError, match="content is not trusted") as caught:
            check_trusted_files(alice, start)
        assert caught.value.cause == "untrusted"
        changed.unlink()


@pytest.mark.parametrize("name", [".claude", ".claude/settings.json", ".mcp.json"])
def test_settings_behind_a_link_are_refused(root: Path, name: str) -> None:
    alice = AgentDefinition(name="alice", backend="acp", command=("claude-agent-acp",))
    place = root / name
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(root / "agent")
    with pytest.raises(BadDefinition, match="link"):
        resources_of(alice, ProjectDefinition(), root)
    start = make_start(command=("claude-agent-acp",), cwd=str(root))
    assert raised(CauseError, check_trusted_files, alice, start).cause == "untrusted"


def test_settings_of_other_programs_and_backends_demand_nothing(root: Path) -> None:
    write(root, {".claude/settings.json": "{}"})
    for alice in (
        AgentDefinition(name="alice", backend="acp", command=("gemini",)),
        AgentDefinition(name="alice", backend="exec", command=("./agent",)),
        AgentDefinition(name="alice", backend="claude", model="sonnet"),
    ):
        assert not any(".claude" in one for one in resources_of(alice, ProjectDefinition(), root).demands)
        check_trusted_files(alice, make_start(command=("/bin/true",), cwd=str(root)))


@pytest.mark.promise("P27", "P63")
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("command: [./agent]\napproval: all\n", "approval: all cannot be enforced"),
        ("command: [gemini]\napproval: all\n", None),
        ("command: [./agent]\nbudget: {tokens: 1000}\n", "cannot be metered"),
        ("command: [./agent]\nbudget: {instruction: {tokens: 1000}}\n", "cannot be metered"),
        ("command: [opencode, acp]\nbudget: {tokens: 1000}\n", "cannot be metered"),
        ("command: [opencode, acp]\nmodel: anthropic/x\nbudget: {tokens: 1000}\n", None),
        ("command: [gemini]\nbudget: {tokens: 1000}\n", None),
        ("command: [gemini]\nlogin: true\nbudget: {tokens: 1000}\n", "cannot be metered"),
        ("command: [claude-agent-acp]\nbudget: {instruction: {tokens: 1000}}\n", None),
        ("command: [gemini]\nbudget: {instruction: {usd: 1}}\n", "in USD cannot be enforced"),
        ("command: [./agent]\nbudget: {wall_time: 5m}\n", None),
    ],
)
def test_what_its_program_cannot_keep_to_is_a_mistake_of_the_file(root: Path, text: str, fault: str | None) -> None:
    write(root, {".agents/alice.yaml": f"backend: acp\nprompt: {{system: x}}\n{text}"})
    (checked,) = validate(root, root, (".agents/alice.yaml",)).files
    told = " ".join(f"{error.where}: {error.message}" for error in checked.errors)
    assert (fault in told) if fault is not None else told == ""


def test_a_limit_of_a_run_that_no_program_keeps_to_is_refused(root: Path) -> None:
    unmetered = AgentDefinition(name="alice", backend="acp", command=("agent",))
    metered = AgentDefinition(name="alice", backend="acp", command=("gemini",))
    assert not has_price(unmetered, ProjectDefinition()) and not has_price(metered, ProjectDefinition())
    assert (counts_tokens(unmetered), counts_tokens(metered)) == (False, True)


def test_a_missing_program_of_an_own_server_is_seen_before_it_runs(root: Path) -> None:
    files = {
        ".mcp.json": '{"mcpServers": {"far": {"command": "./gone"}, "near": {"command": "./agent"}}}',
        ".agents/alice.yaml": "model: mock/x\nmock: [{text: hi}]\nprompt: {system: x}\n"
        "mcp_servers: {own: {command: no-such-program}, shell: {command: sh}, far: {type: project}, near: "
        "{type: project}, web: {url: 'http://localhost:1'}}\n",
    }
    write(root, files)
    (checked,) = validate(root, root, (".agents/alice.yaml",), {"PATH": "/usr/bin:/bin"}).files
    assert sorted((one.where, one.message.split(":")[0][:40]) for one in checked.warnings) == [
        ("mcp_servers.far.command", f"program './gone' not found in {root}"[:40]),
        ("mcp_servers.own.command", "program 'no-such-program' not found on t"),
    ]
    assert checked.ok


def test_doctor_looks_at_the_program_of_an_agent_and_runs_none(root: Path) -> None:
    (root / "bin").mkdir()
    (root / "bin/gemini").symlink_to(root / "agent")
    agents = [AgentDefinition(name="a", backend="acp", command=(word,)) for word in ("gemini", "./agent", "gone")]
    found = list(program_rows([*agents, AgentDefinition(name="m", backend="mock")], root, str(root / "bin")))
    assert [(row.ok, row.detail) for row in found[:2]] == [
        (True, f"a runs {root}/bin/gemini, tested with version {ACP_PROGRAMS['gemini'].tested}"),
        (True, f"a runs {root}/agent"),
    ]
    assert (found[2].ok, "executable 'gone' not found" in found[2].detail, len(found)) == (False, True, 3)


def test_the_versions_that_are_told_are_those_that_were_tested() -> None:
    """The contract suite names them, and is run against them."""
    for subject in PROGRAMS:
        told = ACP_PROGRAMS.get(subject.binary) if subject.talks else BACKENDS[subject.name]
        assert ("" if told is None else told.tested) == subject.version
