"""Documents with a real kernel and real workers: an election, a suggestion, its acceptance, and a person's edit."""

import json

import pytest

from tests.e2e.processes import wait_until
from tests.project import Project

TEAM = """\
agents:
  scribe:
    backend: mock
    mock:
      - when: 'DOC_SUGGEST\\] (s\\d+) for'
        do: [{tool: team_doc_accept, args: {suggestion: '${{ match.1 }}'}}, {text: taken}]
      - when: 'PROPOSAL:document-owner'
        do: [{tool: team_vote, args: {proposal: document-owner, choice: scribe}}]
  coder:
    backend: mock
    mock:
      - when: 'write the plan'
        do:
          - {tool: team_doc_write, args: {content: mine alone}}
          - {tool: team_doc_suggest, args: {suggestion: "# Plan\\n- write it\\n", reason: a start}}
          - {text: suggested}
      - when: 'PROPOSAL:document-owner'
        do: [{tool: team_vote, args: {proposal: document-owner, choice: scribe}}]
workspace: {provider: file, document: plan.md, document_owner: elect}
kickoff: '@coder write the plan'
"""


@pytest.mark.promise("P37", "P38")
@pytest.mark.long("tests/kernel/api/mcp/test_documents.py")
def test_a_team_elects_an_owner_who_takes_a_suggestion_and_a_person_edits_the_file(project: Project) -> None:
    """contracts-2 F: nothing is written before the election ends; every line knows who brought it."""
    project.write(".workflows/team.yaml", TEAM)
    assert project.awk("start", "team").code == 0
    wait_until(lambda: project.awk("doc", "read", "@team", "--json").json()["version"] == 1)
    kinds = [message["kind"] for message in project.awk("channel", "@team", "--json").json()["messages"]]
    assert kinds.index("kickoff") > kinds.index("resolved") > kinds.index("proposal")
    read = project.awk("doc", "read", "@team", "--json").json()
    assert {key: read[key] for key in ("file", "content", "version", "owner", "author")} == {
        "file": "plan.md", "content": "# Plan\n- write it\n", "version": 1, "owner": "scribe", "author": "coder",
    }  # fmt: skip
    plan = project.root / ".workspace/team/main/documents/plan.md"
    wait_until(plan.exists)
    plan.write_text("# Plan\n- write it\n- and ship it\n")
    wait_until(lambda: project.awk("doc", "read", "@team", "--json").json()["version"] == 2)
    blamed = json.loads(project.awk("doc", "blame", "@team", "plan.md", "--json").out)["lines"]
    assert [(line["text"], line["author"], line["version"]) for line in blamed] == [
        ("# Plan", "coder", 1), ("- write it", "coder", 1), ("- and ship it", "user", 2),
    ]  # fmt: skip
    assert blamed[0]["instruction"] is not None
    assert blamed[2]["instruction"] is None
    late = project.awk("doc", "write", "@team", "plan.md", "# Other\n- write it\n", "--if-version", "1")
    assert late.out == "plan.md: version 3 (merged with what had changed)\n"
    assert project.awk("doc", "read", "@team").out == "# Other\n- write it\n- and ship it\n"
