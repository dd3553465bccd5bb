"""What agents know, with a real kernel: by tools, commands and files, across restarts, workflows and colleagues."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.sources import ROOT
from tests.builders.embeddings_api import EmbeddingsApi
from tests.project import Project

SECRET = "remember: the gateway listens on port 7001 of the blue machine zyzzogeton77"
IN_INDEX = b"zzogeton77"
"""What an index has of its last word: the beginning of a word may stand with the word before it."""
KEEPS = """backend: mock
mock:
  - when: remember
    do:
      - tool: memory_write
        args: {key: gateway, value: "${{ message.text }}", tier: core}
      - tool: note_write
        args: {content: I was told., title: Told}
      - tool: todo_add
        args: {text: check the gateway}
      - text: kept
  - do: [{text: hi}]
"""


def _holding(project: Project, *words: bytes) -> list[Path]:
    return [
        path
        for folder in (project.root, project.state_home, project.home)
        for path in folder.rglob("*")
        if path.is_file() and any(word in path.read_bytes() for word in words)
    ]


@pytest.mark.promise("P45", "P46")
def test_tools_commands_and_files_agree_and_a_purge_leaves_nothing(shared_kernel: Project) -> None:
    project = shared_kernel
    project.write(".agents/holder.yaml", KEEPS)
    assert project.until("agent.changed", holds=lambda event: event["agent"] == "holder")
    assert project.awk("ask", "holder", SECRET).out == "kept\n"
    with_kernel = {what: project.awk("agent", what, "holder", "--json") for what in ("memory", "notes", "todo")}
    (entry,) = with_kernel["memory"].json()["entries"]
    assert (entry["value"], entry["trust"], entry["file"]) == (SECRET, "user", "core.yaml")
    assert entry["source"]["messages"]
    assert project.awk("agent", "memory", "holder", "get", "gateway").out == f"{SECRET}\n"
    assert project.awk("agent", "memory", "holder", "get", "nothing").code == 5
    assert project.awk("agent", "notes", "holder", "show", "1").out == "# Told\n\nI was told.\n"
    assert project.awk("agent", "todo", "holder", "done", "1").out == "  1  [x] check the gateway\n"
    assert project.awk("agent", "memory", "holder", "search", "GATEWAY").out.splitlines()[1].startswith("gateway ")
    assert [path.name for path in _holding(project, IN_INDEX) if path.name.startswith("recall-index")]
    purged = project.awk("agent", "memory", "holder", "purge", "--source", entry["source"]["messages"][0])
    assert (purged.code, purged.out.startswith("purged 1 entries")) == (0, True), purged.err
    assert _holding(project, SECRET.encode(), IN_INDEX) == []
    assert project.awk("agent", "memory", "holder", "get", "gateway").code == 5


SEARCHES = """\
backend: mock
mock:
  - when: "^where"
    do:
      - { tool: history_search, args: { query: "where do we deploy" } }
      - { text: looked }
  - do: [{ text: noted }]
"""


@pytest.mark.promise("P47")
def test_an_agent_finds_what_it_was_told_before_a_restart(shared_kernel: Project) -> None:
    shared_kernel.write(".agents/ada.yaml", SEARCHES)
    assert shared_kernel.ended(shared_kernel.send("ada", "we deploy to Lyon"))["status"] == "done"
    assert shared_kernel.awk("restart", "--kernel").code == 0
    asked = shared_kernel.send("ada", "where then?")
    assert shared_kernel.ended(asked)["status"] == "done"
    (call,) = [one for one in shared_kernel.ask("GET", f"/instructions/{asked}/entries")["entries"] if one["tool"]]
    found = json.loads(call["output"])["found"]
    assert "we deploy to Lyon" in {hit["turn"]["text"] for hit in found}
    made = json.loads(shared_kernel.awk("agent", "reindex", "ada", "--json").out)
    assert (made["agent"], made["turns"] >= 4) == ("ada", True)
    assert "turns of" in shared_kernel.awk("agent", "reindex").out


@pytest.mark.promise("P47")
@pytest.mark.long("tests/kernel/services/test_embeddings.py")
def test_a_measured_gain_turns_vectors_on_for_the_agent(project: Project) -> None:
    with EmbeddingsApi(("car", "automobile"), ("ship", "boat")) as api:
        project.write(
            ".agents.yaml",
            f"""
            providers: {{ own: {{ base_url: "{api.url}", api_key: $EMBED_KEY }} }}
            embeddings: {{ model: own/small, provider: own }}
        """,
        )
        project.agent("alice", "text: noted")
        assert "what agents said, were told and search for is sent to" in project.awk("trust", "--json").out
        assert project.awk("start", "--trust", env={"EMBED_KEY": "sk-own"}).code == 0
        sent = project.awk(
            "send", "alice", "there was a long race, with an automobile, in town back then", "--wait", "--json"
        ).json()["message_id"]
        for number in range(14):
            assert project.awk("send", "alice", f"ship race {number}", "--wait").code == 0
        questions = [{"question": f"car race {chr(97 + n)}{chr(97 + n)}", "evidence": [sent]} for n in range(20)]
        project.write("memory-eval.json", json.dumps({"agent": "alice", "questions": questions}))
        assert api.requests == []
        measured = project.awk("memory", "eval", "--json", seconds=120)
        assert measured.code == 0, (measured.out, measured.err)
        report = measured.json()
        vectors = report["vectors"]
        assert (vectors["model"], vectors["on"]) == ("small", True)
        assert report["all"]["recall"]["10"] < vectors["all"]["recall"]["10"] == 1.0
        assert {key for _, key, _ in api.requests} == {"Bearer sk-own"}
        asked = len(api.requests)
        found = project.ask("GET", "/agents/alice/thread/search?query=car%20race")
        assert (found["ranked"], found["found"][0]["turn"]["id"], len(api.requests)) == ("vectors", sent, asked + 1)
        assert "searches use them from now on" in project.awk("memory", "eval", seconds=120).out
        api.answer = lambda _asked: (500, {"error": {"message": "down"}})
        failed = project.awk("memory", "eval", seconds=120)
        assert (failed.code != 0, "Embeddings unavailable" in failed.err) == (True, True), failed.err
        assert project.ask("GET", "/agents/alice/thread/search?query=car%20race")["ranked"] == "words"


ALICE = """\
backend: mock
mock:
  - { when: "write down", do: [
      { tool: memory_write, args: { key: deploys, value: "deploys by CANARY-SHARED", visibility: shareable } },
      { tool: memory_write, args: { key: deploy-key, value: "the deploy key is CANARY-PRIVATE" } },
      { tool: soul_suggest, args: { observation: "I always name the risk", value: "Name the risk" } },
      { text: written } ] }
  - { do: [{ text: hello }] }
"""
BOB = """\
backend: mock
mock:
  - { tool: memory_ask, args: { agent: alice, query: "which deploys and which deploy key are there?" } }
  - { text: asked }
"""
ITEM = {
    "for": "alice",
    "kind": "decision",
    "key": "rollback",
    "value": "Nobody rolls back on a Friday CANARY-TRAY, since nobody is there on a Saturday",
    "messages": ["m2"],
}
GUARDED = """\
agents: { alice: { ref: alice }, bob: { ref: bob } }
kickoff: "@alice write down what you know. Never roll back on a Friday."
guard: { model: mock/guard, auto_store: true, mock: [{ text: %s }] }
"""


def tray(project: Project) -> list[Any]:
    return list(json.loads(project.awk("agent", "memory", "alice", "tray", "--json").out)["rows"])


@pytest.mark.promise("P51", "P52")
def test_a_colleague_a_soul_and_a_tray_come_through_the_command_line(project: Project) -> None:
    """A colleague is given what is shareable and no byte of the rest; a person takes a trait, takes it back, and takes
    what the guard proposes."""
    project.write(".agents/alice.yaml", ALICE)
    project.write(".agents/bob.yaml", BOB)
    project.write(".workflows/team.yaml", GUARDED % json.dumps(json.dumps({"items": [ITEM]})))
    ran = project.awk("run", "team")
    assert ran.code == 0, ran.err

    project.awk("start", "team")
    asked = project.send("bob@team", "ask alice")
    assert project.ended(asked)["status"] == "done"
    entries = json.dumps(project.ask("GET", f"/instructions/{asked}/entries"))
    assert "CANARY-SHARED" in entries
    assert "CANARY-PRIVATE" not in entries
    told = project.awk("audit", "--agent", "bob", "--json")
    (row,) = json.loads(told.out)["rows"]
    assert ([one["key"] for one in row["given"]], row["owner"]) == (["deploys"], "alice")
    assert "deploys" in project.awk("audit").out

    assert "Name the risk" in project.awk("agent", "soul", "alice").out
    assert project.awk("agent", "soul", "alice", "approve", "p1").code == 0
    assert "Name the risk" in (project.root / ".agents/alice/soul.yaml").read_text()
    prompt = project.send("alice", "hello")
    project.ended(prompt)
    assert "Name the risk" in str(project.ask("GET", f"/instructions/{prompt}/prompt"))
    back = project.awk("agent", "soul", "alice", "rollback", "1", "--reason", "not it")
    assert back.code == 0, back.err
    assert "not it" in project.awk("agent", "soul", "alice", "history").out
    after = project.send("alice", "hello")
    project.ended(after)
    assert "Name the risk" not in str(project.ask("GET", f"/instructions/{after}/prompt"))

    project.until("memory.proposed")
    assert "CANARY-TRAY" not in str(project.ask("GET", f"/instructions/{after}/prompt"))
    needs = json.loads(project.awk("needs", "--json").out)["items"]
    (command,) = [one["actions"][0]["command"] for one in needs if one["kind"] == "memory"]
    taken = project.awk(*command.split()[1:])
    assert taken.code == 0, taken.err
    assert "CANARY-TRAY" in project.awk("agent", "memory", "alice").out
    assert [one["state"] for one in tray(project)] == ["approved"]


@pytest.mark.long("tests/e2e/test_memory_prompts.py, tests/kernel/api/mcp/test_mediation.py")
@pytest.mark.promise("P45", "P49", "P51")
def test_what_was_learned_in_one_workflow_is_known_in_another_and_given_as_far_as_it_may_be(
    shared_kernel: Project,
) -> None:
    shutil.copytree(ROOT / "examples/memory", shared_kernel.root, dirs_exist_ok=True)
    ran = shared_kernel.awk("run", "learn")
    assert ran.code == 0, ran.err
    kept = {one["key"]: one for one in shared_kernel.awk("agent", "memory", "keeper", "--json").json()["entries"]}
    assert (kept["blue host"]["value"], kept["blue host"]["trust"]) == ("the blue host is down on Fridays", "user")
    assert "blue host:" in (shared_kernel.root / ".agents/keeper/memory/core.yaml").read_text()
    ran = shared_kernel.awk("run", "deploy", "--jsonl")
    assert ran.code == 0, ran.err
    ended = [one for one in map(json.loads, ran.out.splitlines()) if one.get("type") == "instruction.ended"]
    here = {one["agent"]: one["instruction"] for one in ended}
    system = str(shared_kernel.ask("GET", f"/instructions/{here['keeper']}/prompt")["system"])
    assert "\n- blue host: the blue host is down on Fridays" in system
    assert "> 1: ask whether the blue host is up again" in system
    given = json.dumps(shared_kernel.ask("GET", f"/instructions/{here['deployer']}/entries"))
    assert "the blue host is down on Fridays" in given
    assert "in the safe" not in given
    rows = [one for one in shared_kernel.awk("audit", "--json").json()["rows"] if one["receiver"] == "deployer"]
    assert [[one["key"] for one in row["given"]] for row in rows] == [["blue host"]]
