"""An agent whose file names a program that speaks ACP: what it asks trust for, and what its program is started with."""

from hashlib import sha256
from pathlib import Path

import pytest

from kernel.agents.acp import counts_tokens
from kernel.agents.backends import check_trusted_files, command_of
from kernel.agents.prices import has_price
from kernel.agents.providers import CauseError, calls_models, check_login, login_demand, resolve
from kernel.agents.resources import resources_of
from kernel.inspect.backends import program_rows
from kernel.inspect.validate import validate
from kernel.source.diagnostics import BadDefinition
from protocol.agent import AgentDefinition
from protocol.backends import ACP_PROGRAMS, BACKENDS, CLIS, COMMANDED
from protocol.project import ProjectDefinition
from tests.kernel.inspect.files import write
from tests.worker.backends.test_contract import PROGRAMS
from tests.worker.fake_kernel import make_start

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
        with pytest.raises(CauseError, match="is not what was trusted") as caught:
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
    with pytest.raises(CauseError) as caught:
        check_trusted_files(alice, make_start(command=("claude-agent-acp",), cwd=str(root)))
    assert caught.value.cause == "untrusted"


def test_settings_of_other_programs_and_backends_demand_nothing(root: Path) -> None:
    (root / ".claude").mkdir()
    (root / ".claude/settings.json").write_text("{}")
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
        ("command: [./agent]\napproval: all\n", "approval: all cannot hold"),
        ("command: [gemini]\napproval: all\n", None),
        ("command: [./agent]\nbudget: {tokens: 1000}\n", "cannot be counted"),
        ("command: [./agent]\nbudget: {instruction: {tokens: 1000}}\n", "cannot be counted"),
        ("command: [opencode, acp]\nbudget: {tokens: 1000}\n", "cannot be counted"),
        ("command: [opencode, acp]\nmodel: anthropic/x\nbudget: {tokens: 1000}\n", None),
        ("command: [gemini]\nbudget: {tokens: 1000}\n", None),
        ("command: [gemini]\nlogin: true\nbudget: {tokens: 1000}\n", "cannot be counted"),
        ("command: [claude-agent-acp]\nbudget: {instruction: {tokens: 1000}}\n", None),
        ("command: [gemini]\nbudget: {instruction: {usd: 1}}\n", "in USD cannot hold"),
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
    write(
        root,
        {
            ".mcp.json": '{"mcpServers": {"far": {"command": "./gone"}, "near": {"command": "./agent"}}}',
            ".agents/alice.yaml": "model: mock/x\nmock: [{text: hi}]\nprompt: {system: x}\n"
            "mcp_servers: {own: {command: no-such-program}, shell: {command: sh}, far: {type: project}, near: "
            "{type: project}, web: {url: 'http://localhost:1'}}\n",
        },
    )
    (checked,) = validate(root, root, (".agents/alice.yaml",), {"PATH": "/usr/bin:/bin"}).files
    assert sorted((one.where, one.message.split(":")[0][:40]) for one in checked.warnings) == [
        ("mcp_servers.far.command", f"there is no program './gone' in {root}"[:40]),
        ("mcp_servers.own.command", "there is no program 'no-such-program' on"[:40]),
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
    assert (found[2].ok, "no executable 'gone'" in found[2].detail, len(found)) == (False, True, 3)


def test_the_versions_that_are_told_are_those_that_were_tested() -> None:
    """The contract suite names them, and is run against them."""
    for subject in PROGRAMS:
        told = ACP_PROGRAMS.get(subject.binary) if subject.talks else BACKENDS[subject.name]
        assert ("" if told is None else told.tested) == subject.version
