"""Runs with a real kernel: the second one of a name and tag has nothing of the first, wherever an agent looks."""

import json

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
workspace: {provider: PLACE}
params: [{name: word, type: string, required: true}]
setup: [{shell: 'printf %s "${{ params.word }}"', as: out}]
kickoff: "@alice @bob mind ${{ out }}"
"""


@pytest.mark.long("tests/kernel/store, tests/kernel/services/test_runs.py")
def test_nothing_of_the_first_run_reaches_the_second(shared_kernel: Project) -> None:
    shared_kernel.agent("alice", "text: fine")
    for place in ("sqlite", "file", "memory"):
        run_twice(shared_kernel, place)
    assert shared_kernel.awk("stop", "--yes").code == 0  # what is still to be written is written then
    workspaces = shared_kernel.root / ".workspace"
    files = [path for path in workspaces.rglob("*") if path.is_file()]
    assert {path.relative_to(workspaces).parts[0] for path in files} >= {"look-file"}
    assert not any(CANARY in path.read_text() for path in files)
    assert not {"look-sqlite", "look-memory"} & {path.name for path in workspaces.iterdir()}


def run_twice(project: Project, place: str) -> None:
    """Run a workflow with such a workspace, once with the canary and once without, and look at both."""
    name = f"look-{place}"
    project.write(f".workflows/{name}.yaml", LOOKING.replace("PLACE", place))
    first = project.awk("run", name, "--trust", "--json", "--", "--word", CANARY)
    assert first.code == 0, first.err
    second = project.awk("run", name, "--trust", "--json", "--", "--word", "other")
    assert second.code == 0, second.err
    assert CANARY not in second.out
    ids = [first.json()["id"], second.json()["id"]]
    texts = [message["text"] for message in second.json()["messages"]]
    assert "@alice @bob mind other" in texts
    rows = project.awk("runs", f"@{name}", "--json").json()
    assert ([row["id"] for row in rows["runs"]], rows["total"], rows["next"]) == (ids[::-1], 2, None)
    of_second = [message["instruction"] for message in second.json()["messages"] if message["instruction"]]
    for instruction in sorted(set(of_second)):
        prompt = project.awk("show", instruction, "--prompt")
        assert (prompt.code, CANARY in prompt.out) == (0, False)
        assert CANARY not in json.dumps(project.ask("GET", f"/instructions/{instruction}"))
    assert CANARY in project.awk("show", ids[0]).out
    assert CANARY in project.awk("channel", f"@{name}", "--run", ids[0]).out
    assert CANARY not in project.awk("channel", f"@{name}").out


def test_the_files_of_a_run_are_there_when_it_returns(project: Project) -> None:
    text = """
    agents: { k: { backend: mock, mock: [{ text: hi }] } }
    kickoff: "@k go"
    workspace: { provider: file }
    """
    project.write(".workflows/f.yaml", text)
    for tag in ("a", "b", "c"):
        assert project.awk("run", "f", "--tag", tag, "--trust").code == 0
        lines = (project.root / f".workspace/f/{tag}/channel.jsonl").read_text().splitlines()
        assert "ended: nothing is left to do" in lines[-1]


@pytest.mark.long("tests/kernel/store")
def test_a_run_that_continues_knows_what_was_said(shared_kernel: Project) -> None:
    project = shared_kernel
    project.agent("alice", "text: fine")
    project.write(".workflows/talk.yaml", 'agents: {alice: {ref: alice}}\nkickoff: "@alice go"\n')
    assert project.awk("run", "talk").code == 0
    second = project.awk("run", "talk", "--continue", "--json").json()["id"]
    assert project.awk("start", "talk", "--continue").code == 0
    said = project.awk("channel", "@talk", "--json").json()["messages"]
    assert [one["text"] for one in said].count("@alice go") == 3
    only = project.awk("channel", "@talk", "--run", second, "--json").json()["messages"]
    assert [one["text"] for one in only].count("@alice go") == 1
    assert project.awk("run", "talk").code == 2
