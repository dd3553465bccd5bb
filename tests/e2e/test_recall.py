"""An agent finds what it was told before a restart; with a real kernel, over Daemon MCP and on the command line."""

import json

import pytest

from tests.project import Project

pytestmark = pytest.mark.promise("P47")

SEARCHES = """\
backend: mock
mock:
  - when: "^where"
    do:
      - { tool: history_search, args: { query: "where do we deploy" } }
      - { text: looked }
  - do: [{ text: noted }]
"""


def test_an_agent_finds_what_it_was_told_before_a_restart(shared_kernel: Project) -> None:
    """And the index, made anew, has the same."""
    shared_kernel.write(".agents/alice.yaml", SEARCHES)
    assert shared_kernel.ended(shared_kernel.send("alice", "we deploy to Lyon"))["status"] == "done"
    assert shared_kernel.awk("restart", "--kernel").code == 0
    asked = shared_kernel.send("alice", "where then?")
    assert shared_kernel.ended(asked)["status"] == "done"
    (call,) = [one for one in shared_kernel.ask("GET", f"/instructions/{asked}/entries")["entries"] if one["tool"]]
    found = json.loads(call["output"])["found"]
    assert "we deploy to Lyon" in {hit["turn"]["text"] for hit in found}
    made = json.loads(shared_kernel.awk("agent", "reindex", "alice", "--json").out)
    assert (made["agent"], made["turns"] >= 4) == ("alice", True)
    assert "turns of" in shared_kernel.awk("agent", "reindex").out


@pytest.mark.long("tests/kernel/inspect/test_memory_eval.py, tests/kernel/services/test_recall.py")
def test_people_search_memory_and_measure_what_is_found(shared_kernel: Project) -> None:
    """The kernel ranks; eval asks it about an agent's own history."""
    shared_kernel.write(".agents/alice.yaml", SEARCHES)
    shared_kernel.awk("agent", "memory", "alice", "set", "office", "the office is in Lyon", "--tier", "core")
    shared_kernel.awk("agent", "memory", "alice", "set", "lunch", "at noon")
    searched = json.loads(shared_kernel.awk("agent", "memory", "alice", "search", "offices", "--json").out)
    assert [one["key"] for one in searched["entries"]] == ["office"]
    sent = json.loads(shared_kernel.awk("send", "alice", "the zebra is striped", "--json").out)
    questions = {"agent": "alice", "questions": [{"question": "zebras?", "evidence": [sent["message_id"]]}]}
    shared_kernel.write("memory-eval.json", json.dumps(questions))
    report = json.loads(shared_kernel.awk("memory", "eval", "--json").out)
    assert report["all"]["recall"]["5"] == 1.0
    assert "R@10" in shared_kernel.awk("memory", "eval").out
    assert shared_kernel.awk("memory", "eval", "none.json").code == 5
