"""Spaces below a run with a real kernel: some work among themselves, and who asked them goes on with what they say."""

import pytest

from tests.project import Project

FLOW = """
agents:
  lead:
    model: mock/x
    scopes: [default, spaces]
    mock:
      - when: '\\[SPACE\\] design'
        do: [ { text: the design is made } ]
      - do:
          - { tool: space_create, args: { name: design, members: [alice, bob] } }
          - { tool: channel_send, args: { message: '@alice draft it', space: design } }
          - { text: handed out }
  alice:
    model: mock/x
    mock:
      - do:
          - { tool: team_doc_write, args: { file: plan.md, content: ours } }
          - { text: '@bob check plan.md' }
  bob:
    model: mock/x
    mock: [ { tool: team_doc_read, args: { file: plan.md } }, { text: it is fine } ]
  carol:
    model: mock/x
    mock: [ { tool: channel_read, args: { space: design } }, { text: I see nothing of it } ]
kickoff: '@lead have it designed'
"""


@pytest.mark.promise("P64")
def test_a_team_designs_in_a_space_of_its_own_and_its_lead_goes_on_once_it_is_done(shared_kernel: Project) -> None:
    project = shared_kernel
    project.write(".workflows/spaces.yaml", FLOW)
    ran = project.awk("run", "spaces", "--trust", "--json")
    assert ran.code == 0, ran.err
    report = ran.json()
    said = [(one["from"], one["text"]) for one in report["messages"] if one["kind"] == "reply"]
    assert said == [("lead", "handed out"), ("lead", "the design is made")]
    (space,) = project.awk("space", "list", "--run", report["id"], "--json").json()["spaces"]
    assert (space["space"], space["state"], space["members"]) == (
        "spaces:main~design",
        "closed",
        ["alice", "bob", "lead"],
    )
    there = project.awk("channel", "@spaces~design", "--json").json()["messages"]
    assert [(one["from"], one["text"]) for one in there if one["kind"] in ("said", "reply")] == [
        ("lead", "@alice draft it"),
        ("alice", "@bob check plan.md"),
        ("bob", "it is fine"),
    ]
    assert project.awk("doc", "read", "@spaces~design", "plan.md").out.strip() == "ours"
    assert project.awk("doc", "read", "@spaces", "plan.md").code != 0
    archive = project.awk("export", "@spaces~design", "-o", "design.jsonl")
    assert archive.code == 0, archive.err
    assert "it is fine" in (project.root / "design.jsonl").read_text()
    cleared = project.awk("clear", "@spaces", "--yes")
    assert cleared.code == 0, cleared.err
    there = project.awk("channel", "@spaces~design", "--json").json()["messages"]
    assert there
    assert not any(one["text"] for one in there), "its words go with those of its run"
