"""Rules with a real kernel: a workflow's file hands work over, and `run` waits for it."""

import pytest

from tests.project import Project


@pytest.mark.promise("P53")
def test_a_run_waits_for_the_work_that_its_rules_hand_over(shared_kernel: Project) -> None:
    project = shared_kernel
    for name, reply in (("coder", "built it"), ("reviewer", "APPROVED by me"), ("writer", "noted")):
        project.write(f".agents/{name}.yaml", f"model: mock/x\nmock: [{{text: {reply}}}]\n")
    project.write(
        ".workflows/handover.yaml",
        """
        agents: { coder: { ref: coder }, reviewer: { ref: reviewer }, writer: { ref: writer } }
        kickoff: '@coder build it'
        rules:
          - { on: done, from: coder, assign: reviewer }
          - name: note
            when: { said: { from: reviewer, matches: 'APPROVED (.*)' } }
            then: [ { assign: writer, message: 'Note: ${{ match.1 }}' } ]
        """,
    )
    done = project.awk("run", "handover", "--json")
    assert done.code == 0, done.err
    said = [(one["from"], one["text"]) for one in done.json()["messages"] if one["kind"] in ("said", "reply")]
    assert said == [
        ("coder", "built it"),
        ("system", "coder: built it"),
        ("reviewer", "APPROVED by me"),
        ("system", "Note: by me"),
        ("writer", "noted"),
    ]
    tried = project.awk("rule", "test", "note", "--run", "handover:main", "--json").json()
    assert [one["would"] for one in tried["firings"]] == [["assign writer: Note: by me"]]
