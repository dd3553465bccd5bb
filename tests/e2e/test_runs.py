"""Runs with a real kernel: the second one of a name and tag has nothing of the first, wherever an agent looks."""

import pytest

from tests.project import Project

pytestmark = pytest.mark.promise("P30")

CANARY = "canary-5d1e"
LOOKING = """\
agents:
  alice: {ref: alice}
  bob:
    model: mock/m
    prompt: {system: "be bob"}
    mock:
      - {tool: channel_read, args: {limit: 200}}
      - {tool: my_inbox, args: {}}
      - {tool: team_members, args: {}}
      - {tool: team_proposal_status, args: {}}
      - {text: looked}
workspace: PLACE
params: [{name: word, type: string, required: true}]
setup: [{shell: 'printf %s "${{ params.word }}"', as: out}]
kickoff: "@alice @bob mind ${{ out }}"
"""


@pytest.mark.parametrize("place", ["{provider: sqlite}", "{provider: file}", "{provider: memory}"])
def test_nothing_of_the_first_run_reaches_the_second(project: Project, place: str) -> None:
    """Prompts, tools, files; and the first is still shown by its id."""
    project.agent("alice", "text: fine")
    project.write(".workflows/look.yaml", LOOKING.replace("PLACE", place))
    first = project.awk("run", "look", "--trust", "--json", "--", "--word", CANARY)
    assert (first.code, first.json()["id"]) == (0, "r1"), first.err
    second = project.awk("run", "look", "--trust", "--json", "--", "--word", "other")
    assert (second.code, second.json()["id"]) == (0, "r2"), second.err
    assert CANARY not in second.out
    texts = [message["text"] for message in second.json()["messages"]]
    assert "@alice @bob mind other" in texts
    rows = project.awk("runs", "@look", "--json").json()
    assert ([row["id"] for row in rows["runs"]], rows["total"], rows["next"]) == (["r2", "r1"], 2, None)
    of_second = [message["instruction"] for message in second.json()["messages"] if message["instruction"]]
    for instruction in sorted(set(of_second)):
        prompt = project.awk("show", instruction, "--prompt")
        assert (prompt.code, CANARY in prompt.out) == (0, False)
        assert CANARY not in project.awk("show", instruction, "--json").out
    assert CANARY in project.awk("show", "r1").out
    assert CANARY in project.awk("channel", "@look", "--run", "r1").out
    assert CANARY not in project.awk("channel", "@look").out
    assert project.awk("stop", "--yes").code == 0
    files = [path for path in (project.root / ".workspace").rglob("*") if path.is_file()]
    assert not any(CANARY in path.read_text() for path in files)
    assert bool(files) == ("file" in place)


def test_a_run_that_continues_knows_what_was_said(project: Project) -> None:
    """--continue, of run and of start; each run keeps its id."""
    project.agent("alice", "text: fine")
    project.write(".workflows/talk.yaml", 'agents: {alice: {ref: alice}}\nkickoff: "@alice go"\n')
    assert project.awk("run", "talk").code == 0
    assert project.awk("run", "talk", "--continue", "--json").json()["id"] == "r2"
    assert project.awk("start", "talk", "--continue").code == 0
    said = project.awk("channel", "@talk", "--json").json()["messages"]
    assert [one["text"] for one in said].count("@alice go") == 3
    only = project.awk("channel", "@talk", "--run", "r2", "--json").json()["messages"]
    assert [one["text"] for one in only].count("@alice go") == 1
    assert project.awk("run", "talk").code == 2
