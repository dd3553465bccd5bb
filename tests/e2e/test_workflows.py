"""Workflows: what goes wrong before anything has started, what ends a run, and what the next run has of it."""

import json
import signal
from typing import Any

import pytest

from tests.project import Project

TWO = """
agents:
  alice: { ref: alice }
  helper:
    backend: mock
    mock:
      - text: "helped: ${{ message.text }}"
"""


@pytest.fixture(scope="module")
def team(shared_kernel: Project) -> Project:
    """A project with alice and a kernel. Tests share it: each has workflows of its own name."""
    shared_kernel.agent("alice", "text: looked at it")
    return shared_kernel


def workflow(project: Project, name: str, text: str, agent: str = "alice") -> None:
    """Write a workflow with ``agent`` as alice and an inline helper, and ``text`` below."""
    project.write(f".workflows/{name}.yaml", TWO.lstrip().replace("ref: alice", f"ref: {agent}") + text)


def running(project: Project, name: str) -> list[str]:
    return [one["tag"] for one in project.awk("status", "--json").json()["workflows"] if one["name"] == name]


@pytest.mark.promise("CF05", "CF07", "CF10")
def test_every_mistake_in_a_file_is_told_with_its_place(team: Project) -> None:
    workflow(team, "mistaken", 'agents2: {}\nkickof: "@alice hi"\nlimits: { hops: many }\nkickof: again\n')
    ran = team.awk("run", "mistaken", "--trust")
    assert ran.code == 78
    for part in (".workflows/mistaken.yaml:", "kickoff", "hops", "kickof"):
        assert part in ran.err, ran.err
    assert running(team, "mistaken") == []


def test_a_run_without_a_kickoff_or_of_one_that_runs_is_refused(team: Project) -> None:
    """contracts 7: exit 2 with a hint."""
    workflow(team, "standing", "")
    assert team.awk("run", "standing").code == 2
    assert team.awk("start", "standing").code == 0
    again = team.awk("start", "standing")
    assert again.code == 2
    assert "awk stop" in again.err


def test_the_exit_code_tells_the_worst_that_happened(team: Project) -> None:
    """contracts 7: 1 where an instruction failed, 124 where the time was up."""
    team.agent("crashing", "exit: 3")
    workflow(team, "crashes", 'kickoff: "@alice hi"\n', "crashing")
    failed = team.awk("run", "crashes", "--json")
    assert (failed.code, failed.json()["exit_code"], failed.json()["status"]) == (1, 1, "failed")
    team.agent("sleeper", "sleep: 60")
    workflow(team, "late", 'kickoff: "@alice hi"\n', "sleeper")
    late = team.awk("run", "late", "--timeout", "1s", "--json")
    assert (late.code, late.json()["status"]) == (124, "timeout")


def test_ctrl_c_cancels_the_run_reaps_its_workers_and_still_reports(team: Project) -> None:
    """contracts 7: 130, and the report is written."""
    team.agent("stuck", "sleep: 60")
    workflow(team, "stopped", 'kickoff: "@alice hi"\n', "stuck")
    with team.spawn("run", "stopped", "--json") as stopped:
        team.until("attempt.started", holds=lambda event: event["space"] == "stopped:main")
        stopped.send_signal(signal.SIGINT)
        out, err = stopped.communicate(timeout=20)
    assert stopped.returncode == 130, err
    assert '"status":"cancelled"' in out.replace(" ", "")
    assert running(team, "stopped") == []


def test_a_call_of_a_tool_that_is_not_there_is_in_the_report(team: Project) -> None:
    team.agent("alice", "tool: team_doc_write, args: { text: x }", "tool: team_doc_write, args: {}", "text: done")
    workflow(team, "calling", 'kickoff: "@alice hi"\n')
    ran = team.awk("run", "calling", "--trust")
    assert (ran.code, "; calls that failed: 2 of team_doc_write; " in ran.err) == (0, True), ran.err
    report = team.awk("run", "calling", "--trust", "--json").json()
    assert report["failed_calls"] == {"team_doc_write": 2}


STEP = "      - usage: {input_tokens: 800, output_tokens: 200, cost_usd: 0.01}\n"
PONG = """\
agents:
  ann: { backend: mock, mock: [{ text: "@bob @ann your turn" }] }
  bob: { backend: mock, mock: [{ text: "@ann @bob your turn" }] }
limits: { hops: 4 }
kickoff: "@ann begin"
"""


def spenders(kickoff: str = "@ann @bob @cid @dan go") -> str:
    """Four agents that each spend ten times 1,000 tokens and a cent."""
    agents = "".join(f"  {name}:\n    backend: mock\n    mock:\n{STEP * 10}" for name in ("ann", "bob", "cid", "dan"))
    return f'agents:\n{agents}kickoff: "{kickoff}"\n'


def total(report: dict[str, Any]) -> int:
    return int(report["usage"]["input_tokens"]) + int(report["usage"]["output_tokens"])


@pytest.mark.promise("TF12", "TF13", "P27")
def test_money_and_loops_end_whatever_the_agents_do(team: Project) -> None:
    """--max-tokens, --max-cost: four in parallel, within one call of each; exit 6."""
    team.write(".workflows/pong.yaml", PONG)
    team.write(".workflows/four.yaml", spenders())
    report = team.awk("run", "four", "--max-tokens", "10500", "--json")
    assert report.code == 6, report.err
    assert 10_500 <= total(report.json()) <= 14_500
    counts = report.json()["instructions"]
    assert counts["incomplete"] + counts["done"] == 4
    assert counts["incomplete"] > 0
    costly = team.awk("run", "four", "--max-cost", "0.105", "--json")
    assert costly.code == 6, costly.err
    assert 0.105 <= costly.json()["usage"]["cost_usd"] < 0.1451
    free = team.awk("run", "four", "--json")
    assert (free.code, total(free.json())) == (0, 40_000)
    ran = team.awk("run", "pong", "--json")
    counts = ran.json()["instructions"]
    assert (ran.code, ran.json()["status"], counts["done"], counts["incomplete"]) == (6, "incomplete", 5, 1)
    assert any("the hop limit of 4 is reached" in one["text"] for one in ran.json()["messages"])


CANARY = "canary-5d1e"
LOOKING = """\
agents:
  alice: {ref: alice}
  bob:
    model: mock/m
    prompt: {system: "be bob"}
    mock:
      - {tool: channel_read, args: {limit: 200}}
      - {tool: my_inbox, args: {}}
      - {tool: team_members, args: {}}
      - {tool: team_proposal_status, args: {}}
      - {text: looked}
workspace: {provider: PLACE}
params: [{name: word, type: string, required: true}]
setup: [{shell: 'printf %s "${{ params.word }}"', as: out}]
kickoff: "@alice @bob mind ${{ out }}"
"""


@pytest.mark.promise("P30")
@pytest.mark.long("tests/kernel/store, tests/kernel/services/test_runs.py")
def test_nothing_of_the_first_run_reaches_the_second(shared_kernel: Project) -> None:
    shared_kernel.agent("alice", "text: fine")
    for place in ("sqlite", "file", "memory"):
        run_twice(shared_kernel, place)
    assert shared_kernel.awk("stop", "--yes").code == 0  # what is still to be written is written then
    workspaces = shared_kernel.root / ".workspace"
    files = [path for path in workspaces.rglob("*") if path.is_file()]
    assert {path.relative_to(workspaces).parts[0] for path in files} >= {"look-file"}
    assert not any(CANARY in path.read_text() for path in files)
    assert not {"look-sqlite", "look-memory"} & {path.name for path in workspaces.iterdir()}


def run_twice(project: Project, place: str) -> None:
    """Run a workflow with such a workspace, once with the canary and once without, and look at both."""
    name = f"look-{place}"
    project.write(f".workflows/{name}.yaml", LOOKING.replace("PLACE", place))
    first = project.awk("run", name, "--trust", "--json", "--", "--word", CANARY)
    assert first.code == 0, first.err
    second = project.awk("run", name, "--trust", "--json", "--", "--word", "other")
    assert second.code == 0, second.err
    assert CANARY not in second.out
    ids = [first.json()["id"], second.json()["id"]]
    texts = [message["text"] for message in second.json()["messages"]]
    assert "@alice @bob mind other" in texts
    rows = project.awk("runs", f"@{name}", "--json").json()
    assert ([row["id"] for row in rows["runs"]], rows["total"], rows["next"]) == (ids[::-1], 2, None)
    of_second = [message["instruction"] for message in second.json()["messages"] if message["instruction"]]
    for instruction in sorted(set(of_second)):
        prompt = project.awk("show", instruction, "--prompt")
        assert (prompt.code, CANARY in prompt.out) == (0, False)
        assert CANARY not in json.dumps(project.ask("GET", f"/instructions/{instruction}"))
    assert CANARY in project.awk("show", ids[0]).out
    assert CANARY in project.awk("channel", f"@{name}", "--run", ids[0]).out
    assert CANARY not in project.awk("channel", f"@{name}").out


@pytest.mark.promise("P30")
def test_the_files_of_a_run_are_there_when_it_returns(project: Project) -> None:
    text = """
    agents: { k: { backend: mock, mock: [{ text: hi }] } }
    kickoff: "@k go"
    workspace: { provider: file }
    """
    project.write(".workflows/f.yaml", text)
    for tag in ("a", "b", "c"):
        assert project.awk("run", "f", "--tag", tag, "--trust").code == 0
        lines = (project.root / f".workspace/f/{tag}/channel.jsonl").read_text().splitlines()
        assert "ended: all work is done" in lines[-1]


@pytest.mark.promise("P30")
@pytest.mark.long("tests/kernel/store")
def test_a_run_that_continues_knows_what_was_said(shared_kernel: Project) -> None:
    project = shared_kernel
    project.agent("alice", "text: fine")
    project.write(".workflows/talk.yaml", 'agents: {alice: {ref: alice}}\nkickoff: "@alice go"\n')
    assert project.awk("run", "talk").code == 0
    second = project.awk("run", "talk", "--continue", "--json").json()["id"]
    assert project.awk("start", "talk", "--continue").code == 0
    said = project.awk("channel", "@talk", "--json").json()["messages"]
    assert [one["text"] for one in said].count("@alice go") == 3
    only = project.awk("channel", "@talk", "--run", second, "--json").json()["messages"]
    assert [one["text"] for one in only].count("@alice go") == 1
    assert project.awk("run", "talk").code == 2
