"""The examples of the two designs that this program grew from, as its users write them today: they load, and do it.

tests/e2e/examples is one project with all of them; a script plays each agent's part, so that no key is needed.

==============================================  ============================================================
agents as files                                 where
==============================================  ============================================================
an agent's file with everything in it           .agents/alice.yaml (system, soul, context, limits, schedule)
a prompt in a file; a context folder elsewhere  .agents/architect.yaml
how much of a conversation opens the prompt     .agents/alice.yaml (thin_thread)
a workflow of refs, additions, own agents       .workflows/review.yaml
the four ways to name an agent                  .workflows/review.yaml (alice, bob, helper, indexer)
one agent in two workflows                      .workflows/{review,deploy}.yaml
a project file: paths, an inline agent, base    moniro.yaml
a project file with workflows by name           moniro.yaml (release, deploy), flows/ship.yaml
create, edit, delete, memory, notes, todos, new  test_an_agent_is_made_changed_and_removed
run, start, send to one, to all, to one there   test_a_message_goes_to_an_agent_to_a_channel_or_to_an_agent_there
the two refusals of a target                    test_a_target_that_is_not_there_says_what_to_do
what a kernel writes into the project           test_what_is_said_is_kept_where_the_workflow_says
==============================================  ============================================================

==============================================  ============================================================
workflows                                       where
==============================================  ============================================================
two agents, a setup, a kickoff                  flows/code-review.yaml (prompts in files)
one agent that uses the channel                 flows/solo.yaml
one who leads, what is known as JSON            flows/together.yaml
a workspace without a word, in files, bound     flows/{solo,filed,bound}.yaml, moniro.yaml
a workspace in memory, and none                 flows/{sketch,apart}.yaml
variables                                       flows/variables.yaml
a vote whose no is exit code 8 (verdict)        examples/verdict, tests/e2e/test_example_projects.py
run, start, stop, list, send, peek              the sessions below; @instance is @workflow:tag today
==============================================  ============================================================

Memory: examples/memory."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel.inspect.resolve import resolution
from kernel.inspect.validate import validate
from tests.architecture.sources import ROOT
from tests.project import Project

EXAMPLES = ROOT / "tests/e2e/examples"
FLOWS = sorted(path.name for path in (EXAMPLES / "flows").iterdir())
DIFF = (EXAMPLES / "changes.diff").read_text()


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The examples as a project, and its kernel: all tests of this file share it."""
    base = tmp_path_factory.mktemp("examples")
    shutil.copytree(EXAMPLES, base / "project")
    for name in ("state", "home"):
        (base / name).mkdir()
    made = Project(root=(base / "project").resolve(), state_home=base / "state", home=base / "home")
    started = made.awk("start", env={"TEAM": "core"})
    assert started.code == 0, started.err
    yield made
    made.stop()


def run(team: Project, workflow: str, *words: str) -> dict[str, Any]:
    ran = team.awk("run", workflow, "--trust", "--json", *words)
    assert ran.code == 0, ran.err
    report: dict[str, Any] = ran.json()
    return report


def said(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["from"], one["text"]) for one in report["messages"] if one["kind"] in ("said", "reply")]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def prompt(team: Project, instruction: str) -> str:
    return team.awk("show", instruction, "--prompt").out


# -- without a kernel ------------------------------------------------------------------------------------------------


def test_every_example_is_sound() -> None:
    flows = [f"flows/{one}" for one in FLOWS]
    found = [file for asked in ([], flows) for file in validate(EXAMPLES, EXAMPLES, asked).files]
    assert [error for file in found for error in file.errors] == []
    assert {file.path for file in found} >= {"moniro.yaml", "team/tester.yaml", ".workflows/review.yaml", *flows}


def test_definitions_mean_what_they_say() -> None:
    alice = resolution(EXAMPLES, EXAMPLES, "alice").definition
    assert alice["context"] == {"thin_thread": 10, "budget": 8000, "dir": ".agents/alice/"}
    assert (alice["max_tokens"], alice["max_steps"]) == (8000, 20)
    assert (alice["schedule"]["wakeup"], alice["schedule"]["workspace"]) == ("5m", "review:pr-123")
    assert alice["soul"]["principles"] == ["Say what a change would break", "Leave the last word to its author"]
    members = resolution(EXAMPLES, EXAMPLES, "review").definition["agents"]
    assert (members["bob"]["max_tokens"], members["bob"]["max_steps"]) == (16000, 100)
    assert members["bob"]["prompt"]["system"].startswith("You are Bob.")
    assert members["bob"]["prompt"]["append"].startswith("Here you look for what became slower")
    assert members["indexer"]["soul"]["expertise"] == ["postgresql", "indexes"]


# -- with one ---------------------------------------------------------------------------------------------------------


def test_a_review_of_four_begins_with_its_diff_and_ends_by_itself(team: Project) -> None:
    report = run(team, "review", "--tag", "pr-123")
    assert (report["run"], report["instructions"]["done"]) == ("review:pr-123", 4)
    assert f"```changes\n{DIFF}```" in report["messages"][1]["text"]
    assert sorted(said(report)) == [
        ("alice", "approved"), ("alice", "read it"), ("bob", "@alice nothing became slower"),
        ("helper", "ready when needed"),
    ]  # fmt: skip


def test_one_agent_is_the_same_in_two_workflows_and_told_different_things(team: Project) -> None:
    report = run(team, "deploy")
    assert sorted(said(report)) == [("alice", "the tests are green"), ("deployer", "it is out")]
    there = prompt(team, next(one["instruction"] for one in report["messages"] if one["from"] == "alice"))
    assert "Here you only say whether it can go out." in there
    assert "Plain code is worth more to you" in there
    assert "Leave the last word to its author" in there
    sent = team.awk("send", "alice", "are you there?", "--wait", "--json").json()
    alone = prompt(team, sent["instruction_ids"][0])
    assert "Plain code is worth more to you" in alone
    assert "whether it can go out" not in alone


def test_a_message_goes_to_an_agent_to_a_channel_or_to_an_agent_there(team: Project) -> None:
    started = team.awk("start", "review", "--tag", "pr-7", "--trust")
    assert started.code == 0, started.err
    pulled = team.awk("send", "@review:pr-7", "nobody in particular", "--json").json()
    assert pulled["instruction_ids"] == []
    pushed = team.awk("send", "@review:pr-7", "@alice is it ready to ship?", "--wait", "--json").json()
    assert [one["text"] for one in pushed["results"]] == ["the tests are green"]
    direct = team.awk("send", "alice@review:pr-7", "and now?", "--wait", "--json").json()
    assert [one["text"] for one in direct["results"]] == ["read it"]
    there = team.awk("peek", "@review:pr-7").out
    assert "nobody in particular" in there
    assert "user -> alice: and now?" in there
    assert "nobody in particular" not in team.awk("peek", "alice").out
    assert "helper@review:pr-7" in team.awk("ps").out
    assert team.awk("stop", "@review:pr-7").code == 0
    assert "helper@review:pr-7" not in team.awk("ps").out


def test_a_target_that_is_not_there_says_what_to_do(team: Project) -> None:
    asleep = team.awk("send", "alice@review:pr-9", "hi")
    assert (asleep.code, "workflow review:pr-9 is not running" in asleep.err, "awk start review" in asleep.err) == (
        5,
        True,
        True,
    )
    assert team.awk("start", "release", "--", "-v", "2.0").code == 0
    stranger = team.awk("send", "alice@release", "hi")
    assert (stranger.code, "'alice' is not a member of release:main" in stranger.err) == (5, True)
    assert "in flows/ship.yaml" in stranger.err
    assert team.awk("stop", "@release").code == 0


def test_two_agents_of_a_workflow_talk_until_nothing_is_left(team: Project) -> None:
    first, *between, last = said(run(team, "flows/code-review.yaml"))
    assert first == ("reviewer", "@coder that divides by zero when there is one")
    assert sorted(between) == [("coder", "@reviewer mended"), ("reviewer", "one finding")]
    assert last == ("reviewer", "nothing is left")
    together = run(team, "flows/together.yaml")
    assert [who for who, _ in said(together)] == ["coordinator", "reviewer", "coder", "coordinator"]
    assert together["messages"][1]["to"] == ["coordinator"]


@pytest.mark.long("tests/kernel/services/test_mirror.py")
def test_what_is_said_is_kept_where_the_workflow_says(team: Project) -> None:
    reports = {name: run(team, f"flows/{name}.yaml") for name in ("solo", "filed", "bound", "sketch", "apart")}
    assert said(reports["apart"]) == [("reviewer", "nobody heard that")]
    assert team.awk("stop", "--yes").code == 0  # what is still to be written is written then
    kept = {"solo": ".workspace/solo/main", "filed": "talks/main", "bound": "data/review"}
    for name, folder in kept.items():
        assert lines(team.root / folder / "channel.jsonl") == reports[name]["messages"]
    assert not (team.root / ".workspace/sketch").exists()
    assert not (team.root / ".workspace/apart").exists()
    assert team.awk("start", env={"TEAM": "core"}).code == 0


@pytest.mark.long("tests/kernel/workflows/test_params.py")
def test_variables_are_known_where_they_are_used(team: Project) -> None:
    (_, told) = said(run(team, "flows/variables.yaml", "--tag", "t-1"))[0]
    folder = team.root / ".workspace/variables/t-1"
    assert told == f"@reviewer the diff for core in variables t-1, kept in {folder}"
