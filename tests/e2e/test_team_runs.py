"""Runs of teams with a real kernel: rules, spaces below a run, tasks, long texts, and what one leaves for the next."""

import json
from typing import Any

import pytest

from tests.e2e.processes import wait_until
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


SPACES = """
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
    project.write(".workflows/spaces.yaml", SPACES)
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


FILES = "tools: [files]\napproval: auto"


@pytest.fixture
def team(shared_kernel: Project) -> Project:
    """Coder and tester, who do what they are given by a workflow's file."""
    project = shared_kernel
    project.write(
        ".agents/coder.yaml",
        """
        model: mock/x
        mock:
          - when: 'TASK:t1'
            do:
              - { tool: team_task_done, args: { task: api } }
              - { tool: ask_agent, args: { agent: tester, query: please write src/x.txt } }
              - { shell: 'touch made.txt' }
              - { tool: team_task_done, args: { task: t1, result: it is made } }
              - { text: I made it. }
        """,
    )
    project.write(
        ".agents/tester.yaml",
        f"""
        model: mock/x
        {FILES.replace(chr(10), chr(10) + "        ")}
        mock:
          - when: 'please write'
            do:
              - {{ tool: write, args: {{ path: src/x.txt, content: mine }} }}
              - {{ tool: write, args: {{ path: other.txt, content: mine }} }}
              - {{ text: I tried. }}
          - when: 'TASK:t2'
            do:
              - {{ tool: team_task_done, args: {{ task: test }} }}
              - {{ text: I tested it. }}
          - when: 'TASK:t4'
            do:
              - {{ text: I do not know how. }}
        """,
    )
    project.write(
        ".workflows/build.yaml",
        """
        agents: { coder: { ref: coder }, tester: { ref: tester } }
        tasks:
          - { key: api, title: Write the API, for: coder, files: [src/**], check: 'test -f made.txt' }
          - { key: test, title: Test it, for: tester, needs: [api] }
        """,
    )
    project.write(
        ".workflows/stuck.yaml",
        """
        agents: { coder: { ref: coder }, tester: { ref: tester } }
        tasks:
          - { title: Nobody does this }
          - { title: And this needs it, needs: [later] }
          - { key: later, title: Later, needs: [] }
          - { key: mine, title: Nobody can, for: tester }
        """,
    )
    return project


def tasks_in_needs(team: Project) -> list[dict[str, Any]]:
    return [one for one in team.ask("GET", "/needs")["items"] if one["kind"] == "task"]


@pytest.mark.promise("P39", "P40")
def test_tasks_of_a_file_run_in_order_through_their_checks_and_hold_their_files(team: Project) -> None:
    ran = team.awk("run", "build", "--trust", "--json", "--approve", "auto")
    assert ran.code == 0, ran.err
    said = [one["text"].partition("\n")[0] for one in ran.json()["messages"] if one["text"].startswith("[TASK:")]
    assert said == [
        "[TASK:t1] Write the API",
        "[TASK:t1] done: Write the API",
        "[TASK:t2] Test it",
        "[TASK:t2] done: Test it",
    ]
    assert (team.root / "other.txt").read_text() == "mine"
    assert not (team.root / "src").exists()
    (asked,) = (one["instruction"] for one in ran.json()["messages"] if one["text"] == "I tried.")
    steps = team.awk("show", asked, "--steps", "--full").out
    assert "src/x.txt: claimed by coder for task t1" in steps
    assert [one["state"] for one in team.awk("task", "list", "@build", "--json").json()["tasks"]] == ["done", "done"]


@pytest.mark.promise("P39")
def test_a_run_with_tasks_that_nobody_does_is_incomplete_and_a_workflow_that_stays_asks(team: Project) -> None:
    """Exit 6; what is left after it was given out twice is in needs, and its command settles it."""
    ran = team.awk("run", "stuck", "--trust")
    assert ran.code == 6
    assert "4 tasks are not done" in ran.out + ran.err
    assert team.awk("start", "stuck", "--trust").code == 0
    wait_until(lambda: bool(tasks_in_needs(team)))
    (need,) = tasks_in_needs(team)
    assert (need["id"], need["agent"], need["actions"][0]["command"]) == ("t4", "tester", "awk task done @stuck t4")
    assert team.awk(*need["actions"][0]["command"].split()[1:]).out == "t4: done\n"
    assert tasks_in_needs(team) == []
    assert team.awk("task", "graph", "@stuck").out.splitlines() == [
        "t1 ready Nobody does this",
        "t3 ready Later",
        "  t2 open And this needs it (waits for t3)",
        "t4 done Nobody can (@tester)",
    ]


LONG = json.dumps(
    {"lines": [f"{number}: é日 \x1b[31mred" for number in range(1500)], "for": "@bob"}, ensure_ascii=False
)
LONG_ANSWER = """\
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
    project.write(".workflows/long.yaml", LONG_ANSWER)
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
    assert (missing.code, "not found" in missing.err) == (5, True)


BEGINS = """\
backend: mock
max_steps: 1
mock:
  - { tool: handover_write, args: { done: "half of a.py", next: "the other half" } }
  - { tool: my_status_set, args: { task: "a.py", state: working } }
  - { text: done }
"""
GOES_ON = """\
backend: sdk
model: mock/other
prompt: { system: "You are anna." }
mock:
  - { tool: my_status_set, args: { task: "a.py", state: finishing } }
  - { text: finished }
"""


def told(project: Project, instruction: str) -> str:
    """The message that an attempt at ``instruction`` opened with."""
    return str(project.ask("GET", f"/instructions/{instruction}/prompt")["messages"][-1]["text"])


@pytest.mark.promise("P42")
def test_another_backend_is_given_what_the_one_before_left(shared_kernel: Project) -> None:
    shared_kernel.write(".agents/anna.yaml", BEGINS)
    first = shared_kernel.send("anna", "write a.py")
    assert shared_kernel.ended(first)["status"] == "incomplete"
    shown = shared_kernel.awk("show", first).out
    assert "next   the other half" in shown
    shared_kernel.write(".agents/anna.yaml", GOES_ON)
    second = shared_kernel.send("anna", "continue")
    ended = shared_kernel.ended(second)
    assert (ended["status"], ended["continues"]) == ("done", first)
    assert "> done: half of a.py\n> next: the other half" in told(shared_kernel, second)
    table = shared_kernel.awk("ps", env={"COLUMNS": "200"}).out
    assert "finishing: a.py" in table


@pytest.mark.promise("P42")
def test_who_begins_anew_after_crashes_is_told_that_it_is_a_retry(shared_kernel: Project) -> None:
    shared_kernel.agent("ben", "exit: { signal: KILL }")
    work = shared_kernel.send("ben", "go")
    assert shared_kernel.ended(work)["status"] == "dead"
    assert told(shared_kernel, work).startswith("go\n\n(This is a retry: this work was interrupted 2 times before")
