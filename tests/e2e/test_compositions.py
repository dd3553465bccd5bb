"""A team that a rule composes after a vote, and spaces of people, over kill -9 of the kernel."""

from typing import Any

import pytest

from tests.project import Project

TEAM = """
agents:
  lead: { backend: mock, mock: [ { text: done } ] }
rules:
  - name: crew
    params: { task: string }
    then:
      - create_agent: { name: architect, like: lead, prompt: You design. }
      - create_agent: { name: coder, like: lead, prompt: You write code. }
      - open_space: { name: design, members: [architect, coder], message: "@coder begin with ${{ params.task }}" }
  - name: found
    when: { said: { from: user, matches: "^build (.*)" } }
    requires: { grants: 1, from: [user] }
    then:
      - invoke: crew
        params: { task: "${{ match.1 }}" }
      - start_workflow: { workflow: other, params: [--what, "${{ match.1 }}"] }
      - say: "@architect design it"
"""
OTHER = """
params: [ { name: what, type: string } ]
agents:
  bob: { backend: mock, mock: [ { text: checked } ] }
kickoff: "@bob check ${{ params.what }}"
"""


def replies(project: Project, space: str) -> list[tuple[str, str]]:
    found = project.awk("channel", space, "--json").json()["messages"]
    return [(one["from"], one["text"]) for one in found if one["kind"] == "reply"]


def again(project: Project) -> None:
    project.kill()
    assert project.awk("start", "--trust").code == 0


@pytest.mark.promise("P53", "P54")
def test_a_team_is_composed_once_after_a_vote_whenever_the_kernel_is_killed(project: Project) -> None:
    project.write(".workflows/team.yaml", TEAM)
    project.write(".workflows/other.yaml", OTHER)
    assert project.awk("start", "team", "--trust").code == 0
    project.awk("send", "@team", "build a boat")
    again(project)
    members = project.ask("GET", "/spaces/team:main/members")["members"]
    assert [one["name"] for one in members] == ["lead"], "nothing is created before the vote"
    (vote,) = project.awk("proposal", "list", "@team", "--json").json()["proposals"]
    assert "create_agent" in vote["description"]
    assert project.awk("proposal", "vote", f"{vote['id']}@team", "yes").code == 0
    again(project)
    project.until("message", holds=lambda one: one["data"]["text"] == "checked")
    project.until("message", holds=lambda one: "closed: all work" in one["data"]["text"])
    again(project)
    members = project.ask("GET", "/spaces/team:main/members")["members"]
    assert [one["name"] for one in members] == ["architect", "coder", "lead"]
    runs = project.ask("GET", "/runs")["runs"]
    assert len([one for one in runs if one["run"] == "other:main"]) == 1, runs
    assert replies(project, "@other") == [("bob", "checked")]
    assert replies(project, "@team") == [("architect", "done")]
    assert replies(project, "@team~design") == [("coder", "done")]
    kickoff = project.awk("channel", "@other", "--json").json()["messages"][1]
    assert (kickoff["kind"], kickoff["from"], kickoff["text"]) == ("kickoff", "rule:found", "@bob check a boat")


@pytest.mark.promise("P64")
def test_spaces_of_people_outlive_kernels_and_all_agents_can_be_mentioned_in_the_global_one(project: Project) -> None:
    project.agent("alice", "text: I am alice")
    project.agent("dave", "text: I am dave")
    assert project.awk("start", "--trust").code == 0
    made = project.awk("space", "create", "lab", "--member", "alice", "--json")
    assert made.code == 0, made.err
    assert {name: made.json()[name] for name in ("space", "opener", "members", "state")} == {
        "space": "lab:main",
        "opener": "user",
        "members": ["alice"],
        "state": "open",
    }
    refused = project.awk("space", "create", "lab")
    assert (refused.code != 0, "space 'lab' already exists" in refused.err) == (True, True), refused.err
    again(project)
    batch = project.write("batch.jsonl", '{"to": "@global", "text": "@alice first"}\n{"to": "alice", "text": "more"}\n')
    assert project.awk("send", "--batch", str(batch), "--json").json()["accepted"] == 2

    def answered(to: str, text: str) -> Any:
        sent = project.awk("run", to, text, "--json") if "@" not in to else project.awk("send", to, text, "--json")
        assert sent.code == 0, sent.err
        return project.ended(sent.json()["instruction_ids"][0])["text"]

    assert answered("@lab", "@alice hello @dave") == "I am alice"
    assert answered("@global", "@dave hello") == "I am dave"
    rule = project.write(
        "rule.yaml", "{ name: greet, when: { said: { matches: ^hi } }, then: [ { say: '@dave hi' } ] }"
    )
    assert project.awk("rule", "add", str(rule), "@global").code == 0
    own = "{ name: more, when: { said: { from: user, matches: ^more } }, then: [ { assign: alice, message: again } ] }"
    assert project.awk("rule", "add", str(project.write("own.yaml", own)), "alice").code == 0
    again(project)
    project.awk("send", "@global", "hi all")
    project.awk("send", "alice", "more")
    project.until("instruction.ended", holds=lambda one: one["agent"] == "dave" and one["instruction"] != "i2")
    listed = project.awk("rule", "list", "--all", "--json").json()
    assert [one["name"] for one in listed["rules"]] == ["greet"]
    assert {one["name"] for one in listed["core"]} >= {"workflow", "routing", "rules"}
    assert [one["name"] for one in project.awk("rule", "list", "alice", "--json").json()["rules"]] == ["more"]
    assert [one["space"] for one in project.awk("space", "list", "--json").json()["spaces"]] == [
        "lab:main",
        "global:main",
    ]
    assert project.awk("space", "members", "@lab", "--add", "dave", "--remove", "alice").code == 0
    assert project.awk("space", "close", "@lab").code == 0
    assert project.awk("send", "@lab", "@dave hello").code != 0
