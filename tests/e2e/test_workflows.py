"""Workflows: setup, params, what goes wrong before anything has started, what ends them; votes and schedules."""

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
    """The tags under which a workflow runs."""
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


@pytest.mark.promise("TF12", "P27")
def test_two_agents_that_always_answer_each_other_stop_at_the_hop_limit(team: Project) -> None:
    team.agent("ping", 'text: "@bob your turn"')
    team.agent("pong", 'text: "@alice your turn"')
    team.write(
        ".workflows/pingpong.yaml",
        """
        agents:
          alice: { ref: ping }
          bob: { ref: pong }
        kickoff: "@alice begin"
        limits: { hops: 6 }
        """,
    )
    ran = team.awk("run", "pingpong", "--json")
    assert (ran.code, ran.json()["status"]) == (6, "incomplete")
    assert 4 <= ran.json()["instructions"]["done"] <= 8
    assert any("the hop limit of 6 is reached" in one["text"] for one in ran.json()["messages"])


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


@pytest.mark.promise("TF12", "TF13")
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
    assert (ran.code, ran.json()["instructions"]["done"], ran.json()["instructions"]["incomplete"]) == (6, 5, 1)


VOTING = """
agents:
  dora:
    backend: mock
    mock:
      - when: "begin"
        do:
          - tool: team_proposal_create
            args:
              type: decision
              id: database
              title: "Which database?"
              options: [{ id: sqlite, label: SQLite }, { id: postgres, label: Postgres }]
              resolution: { tie_breaker: first }
              timeout_seconds: 6
          - { tool: team_vote, args: { proposal: database, choice: postgres } }
          - { text: "let us see" }
      - when: '\\[RESOLVED:database\\]'
        do:
          - { tool: team_proposal_status, args: { proposal: database } }
          - { text: "decided" }
  bob:
    backend: mock
    mock:
      - when: '\\[PROPOSAL:(?P<id>\\w+)\\]'
        do:
          - { tool: team_vote, args: { proposal: "${{ match.id }}", choice: sqlite, reason: "it is small" } }
          - { tool: team_vote, args: { proposal: "${{ match.id }}", choice: postgres } }
          - { text: "voted" }
  carol:
    backend: mock
    mock:
      - exit: SIGKILL
kickoff: "@dora begin"
"""


@pytest.mark.promise("P24")
def test_a_vote_with_a_dead_voter_ends_at_its_deadline(team: Project) -> None:
    """The run waits for the deadline, the votes that were cast decide, and who asked
    goes on with what came of it; the dead one is told as what failed.
    """
    team.write(".workflows/voting.yaml", VOTING)
    ran = team.awk("run", "voting", "--json", seconds=60)
    assert ran.code == 1, ran.err
    said = [(one["from"], one["kind"], one["text"].partition("\n")[0]) for one in ran.json()["messages"]]
    assert said[1:3] == [
        ("system", "kickoff", "@dora begin"),
        ("dora", "proposal", "[PROPOSAL:database] Which database?"),
    ]
    assert sorted(one for one in said if one[1] == "vote") == [  # whoever was faster
        ("bob", "vote", "[VOTE:database] I vote for sqlite: SQLite (it is small)"),
        ("dora", "vote", "[VOTE:database] I vote for postgres: Postgres"),
    ]
    (end,) = (one for one in ran.json()["messages"] if one["kind"] == "resolved")
    assert (end["from"], end["to"]) == ("system", ["dora"])
    assert end["text"].splitlines()[1:] == [
        "Result: sqlite: SQLite (the time is up; a tie between sqlite, postgres: the first of them wins)",
        "Votes: sqlite=1, postgres=1",
    ]
    assert said.index(("system", "resolved", "[RESOLVED:database] Which database?")) < said.index(
        ("dora", "reply", "decided")
    )
