"""The environment of workers: an allowlist, and a PATH without our commands."""

from pathlib import Path

import pytest

from kernel.agents.environment import name_fault, own_name_fault, worker_environment

KERNEL = {
    "PATH": "/usr/bin:/bin", "HOME": "/home/u", "LANG": "C.UTF-8", "LC_ALL": "C", "ANTHROPIC_API_KEY": "canary",
    "AGENT_WORKER_TOKEN": "canary", "LD_PRELOAD": "canary", "PYTHONPATH": "canary", "GIT_SSH_COMMAND": "canary",
    "NODE_OPTIONS": "canary", "MY_TOKEN": "mine",
}  # fmt: skip


@pytest.mark.promise("P18", "XF22")
def test_nothing_comes_along_by_accident() -> None:
    expected = {"PATH": "/usr/bin:/bin", "HOME": "/home/u", "LANG": "C.UTF-8", "LC_ALL": "C"}
    assert worker_environment(KERNEL) == expected


def test_an_agent_lets_names_through_but_not_all() -> None:
    """contracts 1: env."""
    passed = worker_environment(KERNEL, ("MY_TOKEN", "NOT_SET", "LD_PRELOAD", "AGENT_WORKER_TOKEN", "PATH"))
    assert passed["MY_TOKEN"] == "mine"
    assert "canary" not in passed.values()
    assert "NOT_SET" not in passed


def test_our_commands_are_not_on_the_path(tmp_path: Path) -> None:
    """Workers never see our awk, under whichever name of its folder."""
    ours = tmp_path / "bin"
    ours.mkdir()
    (tmp_path / "link").symlink_to(ours)
    path = f"{ours}:/usr/bin:{tmp_path}/link:relative::.:{ours}/"
    assert worker_environment({"PATH": path}, (), frozenset({str(ours)}))["PATH"] == "/usr/bin"


def test_there_is_always_a_path() -> None:
    assert worker_environment({})["PATH"] == "/usr/local/bin:/usr/bin:/bin"


@pytest.mark.promise("XF22")
@pytest.mark.parametrize("name", ["GIT_DIR", "DYLD_X", "PYTHONHOME", "PATH", "BASH_ENV", "ENV", "1A", "A=B", "É"])
def test_what_changes_how_programs_run_is_never_let_through(name: str) -> None:
    assert name_fault(name) is not None


@pytest.mark.promise("P19")
@pytest.mark.parametrize("name", ["LD_PRELOAD", "PATH", "NODE_OPTIONS", "PYTHONPATH", "AWK_X", "BASH_ENV", "A B"])
def test_what_has_a_program_load_another_is_never_set_for_it(name: str) -> None:
    assert own_name_fault(name) is not None


@pytest.mark.promise("P19")
@pytest.mark.parametrize("name", ["PYTHONUNBUFFERED", "GIT_AUTHOR_NAME", "NODE_ENV", "PATHS", "TOKEN"])
def test_what_a_server_is_told_by_is_set(name: str) -> None:
    assert own_name_fault(name) is None


@pytest.mark.promise("XF22")
@pytest.mark.parametrize("name", ["CI", "ENVIRONMENT", "PATHS", "_X", "GITHUB_TOKEN"])
def test_other_names_are(name: str) -> None:
    assert name_fault(name) is None
