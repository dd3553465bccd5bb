"""``project_rules: true``: which files count, what is demanded for them, and how they are told."""

import os
from pathlib import Path

import pytest

from kernel.agents.prompt import assemble
from kernel.agents.resources import resources_of
from kernel.agents.skills import FOLDERS, MAX_RULES_BYTES, nested_rules, rules_of
from kernel.agents.trust import agent_units
from kernel.agents.workspace_prompt import PromptContext
from kernel.source.diagnostics import BadDefinition
from protocol.agent import AgentDefinition
from tests.kernel.agents.test_catalog import project
from tests.kernel.agents.test_prompt import said

ALICE = "backend: mock\nmock: [{text: x}]\nproject_rules: true\n"


def told(root: Path) -> list[tuple[str, str]]:
    return [(one.path, one.text) for one in rules_of(root)]


@pytest.fixture
def inner(tmp_path: Path) -> Path:
    """A project in a folder of a repository."""
    (tmp_path / "repo/.git").mkdir(parents=True)
    (tmp_path / "repo/part/project").mkdir(parents=True)
    return tmp_path / "repo/part/project"


def test_the_nearest_folder_with_rules_counts(inner: Path) -> None:
    (inner / "../../../CLAUDE.md").write_text("outside")
    assert told(inner) == []
    (inner / "../../AGENTS.md").write_text("top")
    assert told(inner) == [("../../AGENTS.md", "top")]
    (inner / "../CLAUDE.md").write_text("nearer")
    assert told(inner) == [("../CLAUDE.md", "nearer")]
    (inner / "CLAUDE.md").write_text("claude")
    (inner / "AGENTS.md").write_text("agents")
    assert told(inner) == [("CLAUDE.md", "claude"), ("AGENTS.md", "agents")]


def test_one_that_is_the_other_is_told_once(inner: Path) -> None:
    (inner / "AGENTS.md").write_text("rules")
    (inner / "CLAUDE.md").symlink_to("AGENTS.md")
    assert told(inner) == [("AGENTS.md", "rules")]
    (inner / "CLAUDE.md").unlink()
    (inner / "CLAUDE.md").write_text("rules")
    assert told(inner) == [("CLAUDE.md", "rules")]


@pytest.mark.promise("P15", "P18")
@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../../../outside", "../../.git/config", ".env", "notes.md", "CLAUDE.md", "AGENTS.md"]
)
def test_no_link_is_followed(inner: Path, target: str) -> None:
    for path in ("../../../outside", "../../.git/config", ".env", "notes.md"):
        (inner / path).write_text("SECRET")
    (inner / "CLAUDE.md").symlink_to(target)
    (inner / "AGENTS.md").symlink_to("CLAUDE.md")
    with pytest.raises(BadDefinition, match=r"CLAUDE.md.*is a symbolic link"):
        rules_of(inner)


def test_without_a_repository_nothing_above_the_project_counts(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "CLAUDE.md").write_text("above")
    assert told(tmp_path / "project") == []


@pytest.mark.promise("P19")
def test_rules_are_a_demand_that_is_pinned_to_their_content(tmp_path: Path) -> None:
    catalog = project(tmp_path, alice=ALICE, bob=ALICE.replace("project_rules: true\n", ""))
    digests = set()
    for text in ("be kind", "be unkind"):
        (tmp_path / "CLAUDE.md").write_text(text)
        alice = catalog.agent("alice").definition
        (found,) = agent_units(alice, catalog.project(), resources_of(alice, catalog.project(), tmp_path))
        (demand,) = found.demands
        assert demand.startswith("alice follows the rules of the project in CLAUDE.md, content sha256:")
        digests.add(found.digest)
    assert len(digests) == 2
    (tmp_path / "CLAUDE.md").unlink()
    (tmp_path / "CLAUDE.md").mkdir()  # nobody could read it
    bob = catalog.agent("bob").definition
    assert agent_units(bob, catalog.project(), resources_of(bob, catalog.project(), tmp_path)) == ()


@pytest.mark.promise("P15")
@pytest.mark.parametrize(
    ("content", "message"),
    [(b"x" * (MAX_RULES_BYTES + 1), "is larger than 64 KiB"), (b"\xff", "UTF-8"), (None, "is not a regular file")],
)
def test_what_cannot_be_told_is_refused(inner: Path, content: bytes | None, message: str) -> None:
    if content is None:
        os.mkfifo(inner / "CLAUDE.md")
    else:
        (inner / "CLAUDE.md").write_bytes(content)
    with pytest.raises(BadDefinition, match=message):
        rules_of(inner)


def test_rules_are_quoted_under_their_path(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("# Where you are\n\nUse tabs.\n")
    made = assemble(
        AgentDefinition(name="alice"),
        "You are Alice.",
        PromptContext(name="alice", space="dm:alice"),
        (),
        said(1, "user", "go"),
        rules=rules_of(tmp_path),
    )
    assert "AGENTS.md:\n\n> # Where you are\n> \n> Use tabs." in made.system
    assert "\n# Where you are" not in made.system
    assert made.system.startswith("You are Alice.\n\n# Rules of this project")
    assert any(line.startswith("rules: ") for line in made.manifest)


@pytest.mark.promise("P19", "P49")
def test_rules_in_folders_are_demands_of_who_has_file_tools(tmp_path: Path) -> None:
    catalog = project(tmp_path, alice=ALICE + "tools: [files]\n", bob=ALICE)
    for path in ("web/forms", "node_modules/x", ".hidden"):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "AGENTS.md").write_text(path)
    (tmp_path / "web/CLAUDE.md").symlink_to("forms/AGENTS.md")
    demands = {}
    for name in ("alice", "bob"):
        definition = catalog.agent(name).definition
        found = resources_of(definition, catalog.project(), tmp_path)
        demands[name] = [one.partition(", content")[0] for one in found.demands]
    assert demands == {"alice": ["alice follows the rules of the project in web/forms/AGENTS.md"], "bob": []}


def test_a_folder_that_changes_is_looked_at_again(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    assert nested_rules(tmp_path) == {}
    (tmp_path / "a/b/AGENTS.md").write_text("one")
    os.utime(tmp_path / "a/b", ns=(1, 1))  # a clock that stands still within one tick
    first = nested_rules(tmp_path)
    assert list(first) == ["a/b/AGENTS.md"]
    (tmp_path / "a/b/AGENTS.md").write_text("two")
    assert nested_rules(tmp_path) != first
    (tmp_path / "a/b/AGENTS.md").write_bytes(b"\xff")
    assert nested_rules(tmp_path) == {}
    (tmp_path / "a/b/AGENTS.md").unlink()
    assert nested_rules(tmp_path) == {}


def test_so_many_folders_are_looked_at_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "z/deep").mkdir(parents=True)
    (tmp_path / "z/AGENTS.md").write_text("upper")
    (tmp_path / "z/deep/AGENTS.md").write_text("deeper")
    for number in range(FOLDERS - 2):
        (tmp_path / f"f{number}").mkdir()
    assert list(nested_rules(tmp_path)) == ["z/AGENTS.md"]
