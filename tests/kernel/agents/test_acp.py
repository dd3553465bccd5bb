"""An agent whose file names a program that speaks ACP: what it asks trust for, and what its program is started with."""

from pathlib import Path

import pytest

from kernel.agents.backends import command_of
from kernel.agents.providers import calls_models, check_login, login_demand, resolve
from kernel.agents.resources import resources_of
from protocol.agent import AgentDefinition
from protocol.backends import CLIS, COMMANDED
from protocol.project import ProjectDefinition

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
    """No provider of ours is looked for, and no key; where none is named its program has one of its own."""
    alice = AgentDefinition(name="alice", backend="acp", command=("agent",), model=model)
    assert not calls_models(alice)
    resolved = resolve(alice, ProjectDefinition(), {})
    assert (resolved.provider, resolved.model) == (None, model or "acp")


def test_a_login_is_its_users_whole_home_and_a_demand_in_these_words() -> None:
    """Nobody knows which file of an unknown program is the login."""
    alice = AgentDefinition(name="alice", backend="acp", command=("gemini", "--acp"), login=True)
    check_login(alice, None)
    assert login_demand(ALICE) is None
    assert login_demand(alice) == (
        "alice has your home as it is for gemini: your login of it, and all else that is there"
    )
