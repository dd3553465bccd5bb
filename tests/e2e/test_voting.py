"""Three agents vote with a real kernel and real workers; one of them is dead."""

import pytest

from tests.project import Project

TEAM = """
agents:
  alice:
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
              timeout_seconds: 3
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
kickoff: "@alice begin"
"""


@pytest.mark.promise("P24")
def test_a_vote_with_a_dead_voter_ends_at_its_deadline(project: Project) -> None:
    """The run waits for the deadline, the votes that were cast decide, and who asked
    goes on with what came of it; the dead one is told as what failed.
    """
    project.write(".workflows/team.yaml", TEAM)
    ran = project.awk("run", "team", "--json", seconds=60)
    assert ran.code == 1, ran.err
    said = [(one["from"], one["kind"], one["text"].partition("\n")[0]) for one in ran.json()["messages"]]
    assert said[1:4] == [
        ("system", "kickoff", "@alice begin"),
        ("alice", "proposal", "[PROPOSAL:database] Which database?"),
        ("alice", "vote", "[VOTE:database] I vote for postgres: Postgres"),
    ]
    votes = [one for one in said if one[1] == "vote"]
    assert votes[1:] == [("bob", "vote", "[VOTE:database] I vote for sqlite: SQLite (it is small)")]
    (end,) = (one for one in ran.json()["messages"] if one["kind"] == "resolved")
    assert (end["from"], end["to"]) == ("system", ["alice"])
    assert end["text"].splitlines()[1:] == [
        "Result: sqlite: SQLite (the time is up; a tie between sqlite, postgres: the first of them wins)",
        "Votes: sqlite=1, postgres=1",
    ]
    assert said.index(("system", "resolved", "[RESOLVED:database] Which database?")) < said.index(
        ("alice", "reply", "decided")
    )
