"""awk run --compare solo: which runs are asked for, what is kept of them, and what is said in the end."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interface.cli.commands.compare_arm import figures_of
from interface.cli.context import Context
from interface.cli.exits import Exit, Interrupted
from interface.comparison import order
from protocol.comparison import ComparedRun, ComparedTerms, Coordination, Figures, Rework
from tests.interface.conftest import Cli, Ran

Play = Callable[[ComparedRun, Path], dict[str, Any]]
WORKFLOW = """\
agents:
  coder: {backend: mock, prompt: {system: Write it.}, mock: [{text: done}]}
  tester: {backend: mock, prompt: {system: Test it.}, mock: [{text: fine}]}
kickoff: "@coder go"
"""
BOUNDED = ("--max-tokens", "1000")


class Arms:
    """Runs in place of real ones: ``plays`` says what each comes to. ``seen`` are those that were played."""

    def __init__(self) -> None:
        self.plays: Play = lambda run, _project: won(run.arm == "team")
        self.seen: list[tuple[int, int, str]] = []
        self.terms: ComparedTerms | None = None

    def __call__(
        self,
        context: Context,
        terms: ComparedTerms,
        run: ComparedRun,
        project: str,
        keep: Callable[[ComparedRun], None],
    ) -> "Arms":
        assert context.args.compare == "solo"
        self.terms, self._run, self._project, self._keep = terms, run, project, keep
        return self

    def play(self, _archive: str) -> ComparedRun:
        self.seen.append((self._run.n, self._run.pair, self._run.arm))
        try:
            ended = msgspec.structs.replace(self._run, **self.plays(self._run, Path(self._project)))
        except Interrupted:
            self._keep(msgspec.structs.replace(self._run, state="dropped", figures=Figures(tokens=7)))
            raise
        self._keep(ended)
        return ended

    def stop(self) -> None:
        """Its kernel is none."""

    def remove(self) -> None:
        """It has no state."""


def won(success: bool | None, tokens: int = 100, **more: Any) -> dict[str, Any]:
    """A run that ended."""
    figures = Figures(tokens=tokens, seconds=2.0)
    return {"state": "done", "status": "done", "exit_code": 0, "success": success, "figures": figures, **more}


@pytest.fixture
def arms(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> Arms:
    """Scripted runs, in a project with a workflow of two."""
    made = Arms()
    monkeypatch.setattr("interface.cli.commands.compare.ArmRun", made)
    (cli.root / ".workflows").mkdir()
    (cli.root / ".workflows/w.yaml").write_text(WORKFLOW)
    (cli.root / "data.txt").write_text("as it is\n")
    return made


def compare(cli: Cli, *words: str) -> Ran:
    return cli("run", "w", "--compare", "solo", *words)


def folder(cli: Cli, name: str = "c1") -> Path:
    [found] = cli.home.glob(f"projects/*/comparisons/{name}")
    return found


@pytest.mark.promise("P74")
def test_the_team_wins_and_each_run_had_a_copy_of_its_own(cli: Cli, arms: Arms) -> None:
    """Exit 0 after nine pairs; the order is the seed's; no run sees what another wrote; the record is the answer."""

    def plays(run: ComparedRun, project: Path) -> dict[str, Any]:
        assert (project / "data.txt").read_text() == "as it is\n"
        (project / "data.txt").write_text(f"changed by {run.n}\n")
        assert ("solo:" in (project / ".workflows/w.yaml").read_text()) == (run.arm == "solo")
        assert not [name for name in (cli.root.name, "team", "solo") if name in project.name]
        return won(run.arm == "team")

    arms.plays = plays
    ran = compare(cli, *BOUNDED, "--check", "make test", "--seed", "5", "--json")
    told = ran.json()
    assert (ran.code, told["verdict"], told["ground"], told["state"]) == (0, "team", "success", "decided")
    assert [(pair, arm) for _, pair, arm in arms.seen] == [
        (pair, arm) for pair in range(1, 10) for arm in order(5, pair)
    ]
    assert (told["schema"], told["id"], told["pairs"], told["terms"]["seed"]) == ("awk/compare/1", "c1", 9, 5)
    assert told["differences"]["success"]["low"] > 0
    assert (told["arms"]["team"]["success"], told["arms"]["solo"]["success"]) == (1, 0)
    assert told["spent_tokens"] == 1800
    assert json.loads((folder(cli) / "comparison.json").read_text()) == told
    assert sorted(path.name for path in folder(cli).iterdir()) == ["base", "comparison.json", "lock", "solo"]
    assert (cli.root / "data.txt").read_text() == "as it is\n"
    assert arms.terms is not None
    assert (arms.terms.request.max_tokens, arms.terms.solo.agent) == (1000, "solo")


@pytest.mark.promise("P28")
def test_a_comparison_runs_nothing_of_a_repository_inside_the_project(cli: Cli, arms: Arms, tmp_path: Path) -> None:
    ran, vendor = tmp_path / "RAN", cli.root / "vendor"

    def git(place: Path, *words: str) -> None:
        environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        command = ("git", "-c", "user.name=a", "-c", "user.email=a@b", *words)
        subprocess.run(command, cwd=place, env=environ, check=True)

    vendor.mkdir()
    (vendor / ".gitattributes").write_text("* filter=evil\n")
    (vendor / "a.txt").write_text("one")
    for place, name in ((vendor, "a.txt"), (cli.root, "data.txt")):
        git(place, "init", "--quiet")
        git(place, "add", name)
        git(place, "commit", "--quiet", "-m", "first")
    (vendor / ".git/config").write_text(f'[filter "evil"]\n\tclean = "touch {ran}; cat"\n')
    (vendor / "a.txt").write_text("two")
    with (cli.root / ".git/config").open("a") as config:
        config.write(f'[core]\n\tfsmonitor = "touch {ran}; false"\n')
    assert compare(cli, "--dry-run", *BOUNDED).code == 0
    assert not ran.exists()
    assert compare(cli, "--repeat", "1", "--check", "x", *BOUNDED).code == Exit.INCOMPLETE
    assert (folder(cli) / "base/vendor/a.txt").read_text() == "two"
    assert not (folder(cli) / "base/vendor/.git").exists()
    assert not ran.exists()
    git(vendor, "add", "--all")
    assert ran.exists(), "the attack is one"


def test_one_agent_wins_by_success_or_by_cost(cli: Cli, arms: Arms) -> None:
    """Exit 8; where both succeed alike, the cheaper one is worth it, within the margin that is said."""
    arms.plays = lambda run, _: won(run.arm == "solo")
    ran = compare(cli, *BOUNDED, "--check", "x", "--json")
    assert (ran.code, ran.json()["verdict"], ran.json()["ground"]) == (8, "solo", "success")
    arms.plays = lambda run, _: won(True, 300 if run.arm == "team" else 10)
    ran = compare(cli, *BOUNDED, "--check", "x", "--margin", "0.5", "--repeat", "30")
    assert ran.code == 8
    assert "verdict: solo: one agent costs less, and the team does not succeed more often by 50% of the runs" in ran.out
    assert "SUCCESS" in ran.out


def test_what_is_not_shown_is_undecided(cli: Cli, arms: Arms) -> None:
    """Exit 6, unless nothing is to fail; and with more pairs the same comparison goes on."""
    ran = compare(cli, *BOUNDED, "--check", "x", "--repeat", "2")
    assert ran.code == 6
    assert "verdict: undecided: 2 pairs do not show" in ran.out
    assert compare(cli, *BOUNDED, "--check", "x", "--repeat", "1", "--fail-on", "never").code == 0
    before = len(arms.seen)
    more = compare(cli, "--resume", "c1", "--repeat", "9", "--json")
    assert (more.code, more.json()["pairs"], len(arms.seen) - before) == (0, 9, 14)


def test_without_a_check_quality_is_not_compared(cli: Cli, arms: Arms) -> None:
    arms.plays = lambda run, _: won(None, 500 if run.arm == "team" else 1)
    ran = compare(cli, *BOUNDED, "--repeat", "50", "--json")
    told = ran.json()
    assert (ran.code, told["verdict"], told["cheaper"], told["state"]) == (6, "undecided", "solo", "decided")
    assert "quality was not compared" in told["quality"]
    assert "success" not in told["differences"]
    assert told["arms"]["team"]["success"] is None


def test_it_ends_before_its_budget_does(cli: Cli, arms: Arms) -> None:
    arms.plays = lambda run, _: won(True, 900)
    ran = compare(cli, *BOUNDED, "--total-tokens", "4700", "--check", "x", "--json")
    told = ran.json()
    assert (ran.code, told["state"], told["pairs"], told["spent_tokens"]) == (6, "out_of_money", 2, 3600)
    compare(cli, "--total-tokens", "100", "--repeat", "5", "--check", "x")
    assert arms.terms is not None
    assert arms.terms.request.max_tokens == 10
    assert compare(cli, "--check", "x").code == 2
    (cli.root / ".workflows/w.yaml").write_text(WORKFLOW + "budget: {tokens: 70}\n")
    assert compare(cli, "--max-tokens", "80", "--repeat", "1").code == 6
    assert arms.terms.request.max_tokens == 70


def test_an_interrupted_comparison_is_kept_and_goes_on(cli: Cli, arms: Arms) -> None:
    def plays(run: ComparedRun, _project: Path) -> dict[str, Any]:
        if run.n == 3:
            raise Interrupted(Exit.INTERRUPTED)
        return won(run.arm == "team")

    arms.plays = plays
    ran = compare(cli, *BOUNDED, "--check", "x", "--json")
    assert (ran.code, ran.json()["state"], ran.json()["exit_code"]) == (130, "interrupted", 130)
    assert f"{folder(cli)}; continue with: awk run w --compare solo --resume c1" in ran.err
    told = compare(cli, "--resume", "c1", "--json").json()
    assert (told["verdict"], told["pairs"], told["spent_tokens"]) == ("team", 9, 1807)
    third, fourth = arms.seen[2:4]
    assert (third[1:], fourth[0]) == (fourth[1:], 4)


def test_after_a_kill_the_same_run_goes_on(cli: Cli, arms: Arms) -> None:
    def killed(run: ComparedRun, project: Path) -> dict[str, Any]:
        if run.n == 2:
            (project / "half.txt").write_text("half")
            raise SystemExit(9)
        return won(True)

    arms.plays = killed
    with pytest.raises(SystemExit):
        compare(cli, *BOUNDED, "--check", "x", "--repeat", "1")
    keys = [run["key"] for run in json.loads((folder(cli) / "comparison.json").read_text())["runs"]]
    (folder(cli) / "run-9.new").mkdir()

    def goes_on(run: ComparedRun, project: Path) -> dict[str, Any]:
        assert (run.n, run.key, (project / "half.txt").read_text()) == (2, keys[1], "half")
        return won(True)

    arms.plays = goes_on
    assert compare(cli, "--resume", "c1").code == 6
    assert [seen[0] for seen in arms.seen] == [1, 2, 2]


@pytest.mark.parametrize("code", [4, 7])
def test_a_run_that_could_not_work_says_nothing_of_who_did_it(code: int, cli: Cli, arms: Arms) -> None:
    arms.plays = lambda run, _: won(False, exit_code=code, state="running")
    ran = compare(cli, *BOUNDED, "--check", "x", "--json")
    told = ran.json()
    assert (ran.code, told["state"], told["verdict"], told["pairs"]) == (code, "failed", "undecided", 0)
    assert os.path.isdir(told["runs"][0]["project"])


def test_copies_are_kept_where_that_is_wanted(cli: Cli, arms: Arms) -> None:
    told = compare(cli, *BOUNDED, "--check", "x", "--repeat", "1", "--keep", "--json").json()
    assert all(os.path.isfile(f"{run['project']}/data.txt") for run in told["runs"])


def test_the_teams_trust_is_asked_for_once_and_covers_the_one_agent(cli: Cli, arms: Arms) -> None:
    (cli.root / ".workflows/w.yaml").write_text(WORKFLOW.replace("{text: done}", "{shell: 'true'}, {text: done}"))
    refused = compare(cli, *BOUNDED, "--check", "x")
    assert refused.code == 7
    assert "coder runs: true" in refused.err
    assert arms.seen == []
    assert cli("trust", "--yes").code == 0
    assert compare(cli, *BOUNDED, "--check", "x", "--repeat", "1").code == 6
    assert arms.terms is not None
    assert len(arms.terms.request.agree) == 2
    assert arms.terms.request.trust is False


def test_what_makes_no_sense_is_refused_before_anything_is_made(cli: Cli, arms: Arms) -> None:
    """Exit 2 or 5 with the reason; no folder stays."""
    for words in (
        ("--detach",),
        ("--jsonl",),
        ("--continue",),
        ("--margin", "1"),
        ("--repeat", "0"),
        ("--resume", "c7"),
    ):
        assert compare(cli, *BOUNDED, *words).code in (2, 5), words
    assert cli("run", "github:a/b@main/w.yaml", "--compare", "solo", *BOUNDED).code == 2
    assert cli("run", "nowhere", "--compare", "solo", *BOUNDED).code == 5
    (cli.root / ".workflows/p.yaml").write_text("agents: {bob: {backend: human}}\nkickoff: '@bob go'\n")
    person = cli("run", "p", "--compare", "solo", *BOUNDED)
    assert (person.code, "human members" in person.err) == (2, True)
    dry = compare(cli, *BOUNDED, "--dry-run")
    assert dry.code == 0
    assert "team: coder, tester; one agent: solo" in dry.out
    cli.environ["AGENT_WORKER_URL"] = "http://127.0.0.1:1"
    assert compare(cli, *BOUNDED).code == 2
    assert arms.seen == []
    assert list(folder(cli, "").iterdir()) == []


def test_only_one_goes_on_with_a_comparison_and_with_its_own_workflow(cli: Cli, arms: Arms) -> None:
    shutil.copy(cli.root / ".workflows/w.yaml", cli.root / ".workflows/v.yaml")

    def meanwhile(_run: ComparedRun, _project: Path) -> dict[str, Any]:
        assert "comparison c1 is already running" in compare(cli, "--resume", "c1").err
        return won(True)

    arms.plays = meanwhile
    assert compare(cli, *BOUNDED, "--check", "x", "--repeat", "1").code == 6
    assert "compares w" in cli("run", "v", "--compare", "solo", "--resume", "c1").err


def test_figures_are_counted_out_of_an_archive() -> None:
    def said(sender: str, *to: str, hops: int = 0) -> dict[str, Any]:
        return {"part": "channel", "row": {"from": sender, "to": to, "hops": hops}}

    def step(tokens: int, *tools: str) -> dict[str, Any]:
        calls = [{"tool": tool} for tool in tools]
        return {"part": "transcript", "row": {"entry": {"calls": calls, "usage": {"input_tokens": tokens}}}}

    lines = [
        {"part": "archive"},
        {"part": "run", "row": {"delivery": {"returned_to": ["i4"]}}},
        said("user", "alice"), said("alice", "bob", hops=3), said("bob", "user"), said("bob", "bob"), said("bob"),
        {"part": "votes", "row": {"type": "approval", "winner": "no"}},
        {"part": "votes", "row": {"type": "election", "winner": "no"}},
        {"part": "instructions", "row": {"attempts": [{}, {}, {}]}},
        {"part": "instructions", "row": {"attempts": []}},
        step(30, "channel_send", "bash"), step(60, "bash"), step(10, "team_task_claim"),
        {"part": "end", "rows": {}},
    ]  # fmt: skip
    found = figures_of(Figures(tokens=9), map(json.dumps, lines), frozenset({"alice", "bob"}))
    assert (found.tokens, found.hops, found.messages) == (9, 3, 4)
    assert (found.coordination, found.rework) == (
        Coordination(messages=0.25, tokens=0.4),
        Rework(retries=2, returned=1, rejected=1),
    )
