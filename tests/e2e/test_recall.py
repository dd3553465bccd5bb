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
