"""awk run --compare solo with real kernels: both verdicts, neither, a check over working trees, and kills."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.e2e.processes import wait_until
from tests.project import Project

pytestmark = [pytest.mark.promise("P74"), pytest.mark.long("tests/interface/test_compare.py")]

# The one agent is told by its name in the kickoff: its script is all of the members' scripts.
WORKFLOW = """\
agents:
  planner:
    backend: mock
    mock:
      - when: "@solo"
        do: [{shell: "%(solo)s"}, {usage: {input_tokens: 50}}, {text: done}]
      - do: [{usage: {input_tokens: 400}}, {text: "@coder write it"}]
  coder:
    backend: mock
    mock:
      - do: [{shell: "%(team)s"}, {usage: {input_tokens: 100}}, {text: done}]
kickoff: "@planner go"
workspace: {git: %(git)s}
"""
GOOD, BAD = "echo good > out.txt", "echo bad > out.txt"
WORDS = ("run", "w", "--compare", "solo", "--trust", "--json")
TERMS = ("--max-tokens", "100000", "--check", "grep -q good out.txt && test ! -e other.txt")
SECONDS = 240.0


def written(project: Project, *, team: str, solo: str, git: str = "none") -> None:
    project.write(".workflows/w.yaml", WORKFLOW % {"team": team, "solo": solo, "git": git})


def record(project: Project) -> Path:
    return project.state / "comparisons/c1/comparison.json"


def as_if_repeated(project: Project, times: int) -> None:
    """The first pair of the record, ``times`` times more: what eight more pairs of the same would have left."""
    seen = json.loads(record(project).read_text())
    first = seen["runs"]
    seen["runs"] += [
        {**run, "n": run["n"] + 2 * time, "pair": run["pair"] + time} for time in range(1, times + 1) for run in first
    ]
    record(project).write_text(json.dumps(seen))


@pytest.mark.parametrize(("arm", "code"), [("team", 0), ("solo", 8)])
def test_each_side_can_win(arm: str, code: int, project: Project) -> None:
    good = {"team": BAD, "solo": BAD} | {arm: GOOD}
    written(project, **good)
    (project.root / "dirty.txt").write_text("not committed anywhere\n")
    first = project.awk(*WORDS, *TERMS, "--repeat", "1", seconds=SECONDS)
    assert first.code == 6, first.err
    told = first.json()
    assert [run["success"] for run in sorted(told["runs"], key=lambda run: run["arm"] != arm)] == [True, False]
    assert told["arms"]["team"]["figures"]["tokens"] == 500
    assert told["arms"]["solo"]["figures"]["tokens"] == 50
    assert told["arms"]["team"]["figures"]["coordination"]["messages"] == 0.5
    assert told["arms"]["team"]["figures"]["hops"] > told["arms"]["solo"]["figures"]["hops"]
    shown = project.awk("show", "r1", "--archive", told["runs"][0]["archive"])
    assert shown.code == 0
    as_if_repeated(project, 7)
    ninth = project.awk(*WORDS, "--resume", "c1", "--repeat", "9", seconds=SECONDS)
    assert (ninth.code, ninth.json()["verdict"], ninth.json()["ground"]) == (code, arm, "success"), ninth.err
    assert not (project.root / "out.txt").exists()
    assert not project.alive()
    assert list(project.state_home.glob("projects/*/daemon.lock")) == []


def test_what_was_done_in_working_trees_is_merged_and_checked(project: Project) -> None:
    written(project, team=GOOD, solo=BAD, git="worktree")
    project.write(".gitignore", ".workspace/\n")
    project.commit()
    ran = project.awk(*WORDS, *TERMS, "--repeat", "1", "--keep", seconds=SECONDS)
    assert ran.code == 6, ran.err
    runs = {run["arm"]: run for run in ran.json()["runs"]}
    assert (runs["team"]["success"], runs["solo"]["success"]) == (True, False), runs
    assert Path(runs["team"]["project"], "out.txt").read_text() == "good\n"
    listed = project.awk("runs", "--project", runs["team"]["project"], "--json")
    assert listed.code == 69  # its kernel has ended; one that is started for it knows the run
    assert project.git("branch", "--all").split() == ["*", "main"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda number: number.name)
def test_a_comparison_that_is_cut_goes_on(project: Project, number: signal.Signals) -> None:
    """After a kill with the run under way; after an interrupt (exit 130) with a new run of that arm."""
    gate = project.home / "gate"
    slow = f"echo step >> {project.home}/steps; while [ ! -e {gate} ]; do sleep 0.05; done; {GOOD}"
    written(project, team=slow, solo=slow)
    with project.spawn(*WORDS, *TERMS, "--repeat", "1") as running:
        wait_until((project.home / "steps").exists, SECONDS)
        running.send_signal(number)
        out, err = running.communicate()
    if number == signal.SIGINT:
        assert running.returncode == 130, err
        assert (json.loads(out)["state"], json.loads(out)["runs"][0]["state"]) == ("interrupted", "dropped")
        assert "--resume c1" in err
        assert list(project.state_home.glob("projects/*/daemon.json")) == []
    else:
        [found] = project.state_home.glob("projects/run-1-*/daemon.json")
        os.kill(json.loads(found.read_text())["pid"], signal.SIGKILL)
    gate.touch()
    ran = project.awk(*WORDS, "--resume", "c1", seconds=SECONDS)
    assert (ran.code, ran.json()["pairs"]) == (6, 1), ran.err
    if number == signal.SIGKILL:
        runs = [(run["n"], run["state"], run["id"]) for run in ran.json()["runs"]]
        assert runs == [(1, "done", "r1"), (2, "done", "r1")]
