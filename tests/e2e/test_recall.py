"""An agent finds what it was told before a restart; with a real kernel, over Daemon MCP and on the command line."""

import json

import pytest

from tests.builders.embeddings_api import EmbeddingsApi
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
        assert (failed.code != 0, "there are no vectors" in failed.err) == (True, True), failed.err
        assert project.ask("GET", "/agents/alice/thread/search?query=car%20race")["ranked"] == "words"
