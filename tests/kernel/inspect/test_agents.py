"""Agents without a kernel: listed, shown, and a text judged as if it were a file."""

from pathlib import Path

import msgspec
import pytest

from kernel.inspect.agents import agent_info, agent_list, check_agent_text, workflows_using
from kernel.source.diagnostics import BadDefinition
from protocol.errors import Refused
from tests.kernel.inspect.files import write

GOOD = "backend: mock\nmock: [{text: hi}]\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, {".agents/alice.yaml": GOOD, ".agents/bad.yaml": "moc: 1\n"})
    return tmp_path


def test_agents_are_listed_and_shown(root: Path) -> None:
    assert [(row.name, row.state, row.file) for row in agent_list(root).agents] == [
        ("alice", "stopped", ".agents/alice.yaml"),
        ("bad", "error", ".agents/bad.yaml"),
    ]
    definition = agent_info(root, "alice").definition
    assert definition.backend == "mock"
    assert "entry" not in msgspec.json.decode(msgspec.json.encode(definition)), "what is stored is not what is shown"
    with pytest.raises(BadDefinition):
        agent_info(root, "bad")
    with pytest.raises(Refused, match="agent 'bob' not found"):
        agent_info(root, "bob")


def test_a_text_is_judged_as_the_file_it_would_be(root: Path) -> None:
    """Its errors have places in that file; what lies there now does not matter, unless a new agent is meant."""
    assert check_agent_text(root, "bad", GOOD, new=False).ok
    found = check_agent_text(root, "alice", "backend: mock\nname: bob\nmock: [{text: hi}]\n", new=False)
    assert [(error.path, error.line, error.where) for error in found.errors] == [(".agents/alice.yaml", 2, "name")]
    with pytest.raises(Refused, match="alice already"):
        check_agent_text(root, "alice", GOOD, new=True)
    with pytest.raises(Refused, match="is not a name"):
        check_agent_text(root, "../alice", GOOD, new=True)


def test_an_agent_is_used_by_workflows_whatever_else_is_wrong_with_them(root: Path) -> None:
    write(root, {".workflows/review.yaml": "agents:\n  a: {ref: alice}\n  b: {ref: gone}\nnonsense: 1\n"})
    (root / ".workflows/own.yaml").write_text("agents: {alice: {backend: mock}}\n")
    (root / ".workflows/torn.yaml").write_text("agents: {a: {ref: alice\n")
    (root / "far.yaml").write_text("agents: {eve: {ref: alice}}\n")
    (root / "moniro.yaml").write_text("workflows: {far: far.yaml}\n")
    assert workflows_using(root, "alice") == ("far.yaml", ".workflows/review.yaml")
    assert workflows_using(root, "bob") == ()


def test_a_mistake_in_the_project_file_is_not_the_agents(root: Path) -> None:
    (root / "moniro.yaml").write_text("provider: 1\n")
    assert check_agent_text(root, "bob", GOOD, new=True).ok
