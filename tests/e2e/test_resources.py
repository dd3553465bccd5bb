"""Long texts with a real kernel and real workers: said once, read by reference, printed exactly."""

import json

import pytest

from tests.project import Project

LONG = json.dumps(
    {"lines": [f"{number}: é日 \x1b[31mred" for number in range(1500)], "for": "@bob"}, ensure_ascii=False
)
FLOW = """\
agents:
  alice: { ref: writer }
  bob:
    backend: mock
    mock:
      - when: "resource:([0-9a-f]+)"
        do:
          - { tool: resource_read, args: { id: "${{ match.1 }}", offset: 2, limit: 5 } }
          - { tool: resource_create, args: { content: "what bob keeps" } }
          - { text: "read ${{ match.1 }}" }
kickoff: "@alice write it"
output_schema: { type: object, required: [lines] }
"""


@pytest.mark.promise("P41")
def test_a_long_answer_reaches_a_colleague_by_reference_and_a_person_exactly(project: Project) -> None:
    project.agent("writer", f"text: {json.dumps(LONG)}")
    project.write(".workflows/long.yaml", FLOW)
    ran = project.awk("run", "long", "--trust", "--json", "--exit-code-from", "alice")
    report = ran.json()
    assert (ran.code, report["output"]) == (0, json.loads(LONG)), ran.err
    said = {message["from"]: message["text"] for message in report["messages"] if message["kind"] == "reply"}
    name = said["bob"].removeprefix("read ")
    assert f"resource:{name};" in said["alice"]
    assert len(said["alice"]) < 2000
    steps = project.awk("show", "i2", "--steps", "--json").json()["entries"]
    outputs = {entry["tool"]: entry["output"] for entry in steps if entry["kind"] == "tool"}
    assert json.loads(outputs["resource_read"])["content"] == LONG[2:7]
    got = project.awk("resource", "get", name)
    assert (got.code, got.out) == (0, LONG)
    part = project.awk("resource", "get", f"resource:{name}", "--offset", "2", "--limit", "5", "--json").json()
    assert (part["content"], part["next"], part["from"]) == (LONG[2:7], 7, "alice")
    listed = project.awk("resource", "list", "@long").out
    assert name in listed
    added = project.awk("resource", "add", "@long", "-", stdin="what bob keeps")
    kept = project.awk("resource", "list", "@long", "--json").json()["resources"]
    assert [row["from"] for row in kept] == ["bob", "alice"], "the same text is the same resource"
    assert added.out == f"resource:{kept[0]['id']}\n"
    missing = project.awk("resource", "get", "0" * 20)
    assert (missing.code, "no resource" in missing.err) == (5, True)
