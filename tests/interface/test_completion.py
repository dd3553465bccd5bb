"""Completion: scripts made from the table of commands, tried in the shells themselves."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from interface.cli.command_table import BY_WORD, HIDDEN
from interface.cli.commands.completion import KINDS, SHELLS
from interface.cli.completion.spec import OF_ARGUMENT, OF_METAVAR, all_specs
from protocol.names import NAME
from tests.interface.conftest import Cli
from tests.interface.kernel_double import Answer, Handler, KernelDouble, problem
from tests.interface.shells import typing
from tests.project import AWK

RUNNING: Final[dict[str, Answer | Handler]] = {
    "GET /agents": {"agents": [{"name": "alice"}, {"name": "agent-1"}]},
    "GET /workflows": {
        "workflows": [
            {"name": "review", "tag": "main", "members": ["alice"]},
            {"name": "review", "tag": "pr-7", "members": ["bob"]},
        ]
    },
    "GET /dead": {"instructions": [{"id": "i3"}]},
    "GET /instructions": {"instructions": [{"id": "i12"}]},
    "GET /runs": {"runs": [{"id": "r12", "run": "review:main"}]},
    "GET /proposals": {
        "proposals": [
            {"id": "release", "space": "review:main", "options": [{"id": "yes"}, {"id": "no"}]},
            {"id": "p1", "space": "review:pr-7", "options": [{"id": "yes"}, {"id": "tabs"}]},
        ]
    },
}


@pytest.fixture
def team(cli: Cli) -> Cli:
    """Two agents and a workflow in files."""
    (cli.root / ".workflows").mkdir()
    for name in (".agents/alice.yaml", ".agents/bob.yaml", ".agents/Not a name.yaml", ".workflows/review.yaml"):
        (cli.root / name).write_text("")
    return cli


def _lines(cli: Cli, kind: str) -> list[str]:
    ran = cli("_complete", kind)
    assert (ran.code, ran.err) == (0, "")
    return ran.out.splitlines()


def test_without_a_kernel_the_files_are_known_and_nothing_is_said(team: Cli) -> None:
    assert _lines(team, "target") == ["alice", "bob"]
    assert _lines(team, "workflow") == ["review"]
    assert _lines(team, "named") == ["alice", "bob", "review"]
    assert _lines(team, "instruction") == _lines(team, "channel") == _lines(team, "nonsense") == []
    assert not list(team.home.iterdir())


def test_what_runs_is_offered_as_it_is_written(team: Cli, kernel: KernelDouble) -> None:
    """contracts 2: agents, workflows with their tags, agents in them; instructions and runs by id."""
    kernel.answers.update(RUNNING)
    in_workflows = ["@review", "@review:pr-7", "alice@review", "bob@review:pr-7"]
    assert _lines(team, "target") == sorted(["agent-1", "alice", "bob", *in_workflows])
    assert _lines(team, "channel") == ["@review", "@review:pr-7"]
    assert _lines(team, "instruction") == ["i12", "i3"]
    assert _lines(team, "shown") == ["i12", "i3", "r12", "review:main"]
    assert _lines(team, "exported") == ["@review", "@review:pr-7", "agent-1", "alice", "bob", "r12"]
    assert _lines(team, "proposal") == _lines(team, "any_proposal") == ["p1@review:pr-7", "release@review"]
    assert _lines(team, "choice") == ["no", "tabs", "yes"]
    assert [asked.query for asked in kernel.of("GET", "/proposals")] == [{"state": "open"}, {}, {"state": "open"}]


ODD: Final[list[Answer]] = [None, problem(500, "internal", "?"), {"agents": 3}, {"agents": [3]}, {"agents": [{}]}, {}]


@pytest.mark.parametrize("answer", ODD)
def test_a_kernel_that_answers_oddly_is_left_out(answer: Answer, team: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /agents"] = answer
    assert _lines(team, "agent") == ["alice", "bob"]


def test_a_record_of_a_kernel_that_is_gone_is_silent_too(team: Cli) -> None:
    with KernelDouble().running() as double:
        double.publish(team.home, team.root)
    assert _lines(team, "agent") == ["alice", "bob"]


def test_every_argument_knows_where_its_values_come_from() -> None:
    values = [*OF_METAVAR.values(), *OF_ARGUMENT.values()]
    assert {value.live for value in values if value.live} <= KINDS
    assert {command for command, _ in OF_ARGUMENT} <= set(BY_WORD)
    assert {takes.path[0] for takes in all_specs("awk")} == set(BY_WORD) - {command.word for command in HIDDEN}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_can_read_the_script(shell: str, cli: Cli, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(cli("completion", shell).out)
    for word in set(BY_WORD) - {command.word for command in HIDDEN}:
        assert word in script.read_text()
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell} here")
    assert subprocess.run([program, "-n", script], capture_output=True, check=False).stderr == b""


def _script(cli: Cli, shell: str) -> Path:
    path = cli.home.parent / f"completion.{shell}"
    path.write_text(cli("completion", shell).out)
    return path


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_somebody_at_a_terminal_presses_tab(shell: str, team: Cli, kernel: KernelDouble) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    kernel.answers.update(RUNNING)
    with typing(shell, _script(team, shell), team.root, team.environ) as typist:
        typist.completes("agent-worker valid", "agent-worker validate ")
        typist.completes("agent-worker agent inf", "agent-worker agent info ")
        typist.completes("agent-worker run --det", "agent-worker run --detach ")
        typist.completes("agent-worker completion z", "agent-worker completion zsh ")
        typist.completes("agent-worker run --tag x re", "agent-worker run --tag x review ")
        typist.completes("awk send alice@r", "awk send alice@review ")
        typist.completes("awk send bob@review:", "awk send bob@review:pr-7 ")
        typist.completes("awk retry i1", "awk retry i12 ")
        typist.completes("awk proposal vote rel", "awk proposal vote release@review ")
        typist.completes("awk proposal vote release@review t", "awk proposal vote release@review tabs ")


def test_fish_completes(team: Cli, kernel: KernelDouble) -> None:
    """As above; fish says what it would offer."""
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("no fish here")
    kernel.answers.update(RUNNING)
    wanted = {
        "agent-worker valid": ["validate"], "agent-worker agent inf": ["info"], "agent-worker run --det": ["--detach"],
        "agent-worker completion z": ["zsh"], "agent-worker run re": ["review"], "awk send bob@": ["bob@review:pr-7"],
        "awk retry i1": ["i12"], "awk send alice ": [],
    }  # fmt: skip
    asked = "; ".join(f"echo '{line}'; complete -C '{line}'; echo" for line in wanted)
    environ = {**team.environ, "PATH": f"{AWK.parent}:{os.environ['PATH']}", "HOME": str(team.home), "LANG": "C.UTF-8"}
    command = [fish, "--no-config", "-c", f"source {_script(team, 'fish')}; {asked}"]
    done = subprocess.run(command, cwd=team.root, env=environ, capture_output=True, text=True, timeout=30, check=False)
    assert done.stderr == ""
    blocks = [block.splitlines() for block in done.stdout.strip("\n").split("\n\n")]
    assert {block[0]: [line.partition("\t")[0] for line in block[1:]] for block in blocks} == wanted


def test_names_in_the_project_cannot_become_code(cli: Cli) -> None:
    for name in ("$(touch x).yaml", "a b.yaml", "*.yaml", "-rf.yaml"):
        (cli.root / ".agents" / name).write_text("")
    assert _lines(cli, "agent") == []
    assert NAME.fullmatch("$(touch") is None
