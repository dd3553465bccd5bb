"""The guard's model with a real kernel, real workers and a provider's own client: before a memory is written."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project import Project, empty_project
from tests.worker.scripted_api import Fail, Move, Say, ScriptedApi

ALICE = """\
backend: mock
mock:
  - { tool: memory_write, args: { key: status, value: "the tests CANARY-JUNK are running now" } }
  - { tool: memory_write, args: { key: sprint, value: "this sprint is about the parser and its dates" } }
  - { tool: memory_write, args: { key: deploys, value: "deploys go through staging, never straight" } }
  - { text: "done" }
"""
TEAM = """\
agents: { alice: { ref: alice } }
kickoff: "@alice write down what you know"
"""
SAID: list[Move] = [
    Say(text=json.dumps({"keep": False, "tier": "archive", "why": "junk"})),
    Say(text=json.dumps({"keep": True, "tier": "archive", "why": "temporary"})),
    Fail(401, {"error": {"type": "authentication_error", "message": "no such key"}}),
]


@pytest.fixture
def judged(tmp_path: Path) -> Iterator[tuple[Project, ScriptedApi]]:
    """A project with place for one worker, whose guard has a model behind a server."""
    project = empty_project(tmp_path)
    with ScriptedApi(SAID) as api:
        project.write(".agents/alice.yaml", ALICE)
        project.write(".workflows/team.yaml", TEAM)
        project.write(
            "moniro.yaml",
            f"""
            limits: {{ workers: 1 }}
            providers: {{ cheap: {{ base_url: "{api.anthropic_url}", dialect: anthropic, api_key: $CHEAP_KEY }} }}
            guard: {{ model: cheap/small, llm_curation: true, budget: {{ tokens: 100000 }} }}
            """,
        )
        yield project, api
        project.stop()


@pytest.mark.promise("P67")
def test_a_model_behind_a_server_judges_what_is_written_also_where_one_worker_may_live(
    judged: tuple[Project, ScriptedApi],
) -> None:
    project, api = judged
    assert project.awk("start", "--trust", env={"CHEAP_KEY": "key-of-the-tests"}).code == 0
    ran = project.awk("run", "team", "--trust", "--json")
    assert ran.code == 0, ran.err
    known = {one["key"]: one["tier"] for one in project.awk("agent", "memory", "alice", "--json").json()["entries"]}
    assert known == {"sprint": "archive", "deploys": "working"}
    assert len(api.requests) == 3
    assert all("\n> " in json.dumps(one.body).replace("\\n", "\n") for one in api.requests)
    rows = project.awk("audit", "--json").json()["rows"]
    assert [(one["kind"], one["note"]) for one in rows] == [
        ("moved", "working to archive: temporary"),
        ("refused", "junk"),
    ]
    assert "CANARY-JUNK" not in json.dumps(rows)
    assert project.awk("needs", "--json").json()["total"] == 0


FACT = "Deploys go through the staging cluster, since production has no rollback"
ITEM = {"for": "alice", "kind": "decision", "key": "deploys", "value": FACT, "messages": ["m1"]}
SEEN = {"observation": "It answers about deployments", "instructions": ["i1", "i2", "i3"]}
HABIT = {"trait": "expertise", "value": "Deployments", **SEEN}
QUIET = """
guard:
  model: mock/guard
  auto_store: true
  quiet: 1s
  auto_approve: [decision]
  observe: true
  soul_evolution: auto
  mock: [{ text: %s }]
"""


@pytest.mark.promise("P52", "P69")
def test_what_direct_messages_and_much_work_taught_is_kept_once_however_often_the_kernel_is_killed(
    tmp_path: Path,
) -> None:
    project = empty_project(tmp_path)
    project.agent("alice", "text: noted")
    project.write("moniro.yaml", QUIET % json.dumps(json.dumps({"items": [ITEM], "traits": [HABIT]})))
    try:
        assert project.awk("start").code == 0
        for text in ("we deploy by staging", *(f"task {n}" for n in range(19))):
            assert project.awk("send", "alice", text, "--wait").code == 0
        project.until("instruction.queued", holds=lambda event: event["agent"] == "guard")
        for _ in range(2):
            project.kill()
            assert project.awk("start").code == 0
            project.until("memory.proposed", holds=lambda event: bool(event["data"]["state"] == "approved"))
            project.until("soul.changed")
        (row,) = project.awk("agent", "memory", "alice", "tray", "--json").json()["rows"]
        assert (row["value"], row["decided_by"], row["messages"]) == (FACT, "auto_approve", ["m1"])
        assert (project.root / ".agents/alice/memory/decisions.yaml").read_text().count(FACT) == 1
        soul = project.awk("agent", "soul", "alice", "--json").json()
        (one,) = soul["proposals"]
        assert (one["author"], one["state"], soul["soul"]) == ("guard", "approved", {"expertise": ["Deployments"]})
        assert "i1 done, i2 done, i3 done" in project.awk("agent", "soul", "alice", "history").out
        back = project.awk("agent", "soul", "alice", "rollback", "1")
        assert back.code == 0, back.err
        assert project.awk("agent", "soul", "alice", "--json").json()["soul"] == {}
    finally:
        project.stop()


RECALL = """
guard:
  model: mock/guard
  llm_recall: true
  mock: [{ text: '{"relevant": [%s]}' }]
limits: { workers: 1 }
"""


@pytest.mark.promise("P67")
def test_a_prompt_has_the_entries_that_the_guards_model_chose_and_is_charged_to_the_guard(tmp_path: Path) -> None:
    project = empty_project(tmp_path)
    project.agent("alice", "text: noted")
    entries = "".join(f"deploy{n}: deploys of host {n} go through staging\n" for n in range(1, 4))
    project.write(".agents/alice/memory/working.yaml", entries)
    project.write("moniro.yaml", RECALL % 2)
    try:
        assert project.awk("start").code == 0
        sent = project.awk("send", "alice", "deploys", "--json").json()["instruction_ids"][0]
        assert project.ended(sent)["status"] == "done"
        parts = project.ask("GET", f"/instructions/{sent}/prompt")["parts"]
        (recalled,) = [one["source"] for one in parts if one["name"] == "recalled" and one["trust"] != "system"]
        asked = project.until("instruction.ended", holds=lambda one: one["agent"] == "guard")
        question = project.ask("GET", f"/instructions/{asked['instruction']}/prompt")["messages"][-1]["text"]
        assert f"> - 2:\n> > {recalled.removeprefix('working.yaml ')}:" in question
        project.write("moniro.yaml", RECALL % 9)
        sent = project.awk("send", "alice", "deploys", "--json").json()["instruction_ids"][0]
        assert project.ended(sent)["status"] == "done"
        assert project.ask("GET", f"/instructions/{sent}/prompt")["system"].count("go through staging") == 3
    finally:
        project.stop()
