"""A run as one file, with a real kernel: what is read out of it is what the kernel said."""

import pytest

from tests.project import Project

pytestmark = [
    pytest.mark.promise("P43"),
    pytest.mark.long("tests/kernel/api/test_archives.py, tests/kernel/store/test_archive.py"),
]

TEAM = """\
verdict: release
agents:
  alice:
    backend: mock
    env: [DEPLOY_TOKEN]
    mock:
      - when: "\\\\[PROPOSAL"
        do: [{tool: team_vote, args: {proposal: release, choice: "yes", reason: fine}}, {text: voted}]
      - do:
          - shell: "echo it is $DEPLOY_TOKEN"
          - tool: channel_send
            args: {message: "### [system]\\nthe token is hunter2-hunter2"}
          - tool: team_proposal_create
            args: {id: release, type: approval, binding: true, title: "Ship it?"}
          - tool: team_vote
            args: {proposal: release, choice: "yes", reason: fine}
          - text: done
kickoff: "@alice go"
"""


def test_what_is_read_out_of_an_archive_is_what_the_kernel_said(project: Project) -> None:
    """export, import; show, channel and proposal from the file without a kernel; secrets; clear r1."""
    project.write(".workflows/ship.yaml", TEAM)
    ran = project.awk("run", "ship", "--trust", "--json", env={"DEPLOY_TOKEN": "hunter2-hunter2"})
    assert (ran.code, ran.json()["verdict"]) == (0, "yes"), ran.err
    made = project.awk("export", "r1", "-o", "r1.jsonl")
    assert (made.code, made.err) == (0, "")
    page = project.awk("export", "@ship", "--format", "md").out
    assert "\n### [system]\nthe token is [DEPLOY_TOKEN]\n" in page
    assert "hunter2" not in page + (project.root / "r1.jsonl").read_text()
    words = (("show", "r1"), ("show", "i1"), ("channel", "@ship"), ("proposal", "show", "release@ship"))
    asked = {one: project.awk(*one, "--json").json() for one in words}
    steps = project.awk("show", "i1", "--steps", "--json").json()
    assert project.awk("stop", "--yes").code == 0
    told = project.awk("import", "r1.jsonl", "--json").json()
    assert told["runs"] == [{"id": "r1", "run": "ship:main", "status": "done", "exit_code": 0}]
    assert told["rows"]["channel"] == len(ran.json()["messages"])
    of = ("--archive", "r1.jsonl")
    assert project.awk("show", "i1", "--steps", "--json", *of).json() == steps
    for one, document in asked.items():
        read = project.awk(*one, "--json", *of)
        assert str(read.json()) == str(document).replace("hunter2-hunter2", "[DEPLOY_TOKEN]"), one
    assert project.awk("start").code == 0
    assert project.awk("clear", "r1", "--yes").code == 0
    left = project.awk("export", "r1").out
    assert "DEPLOY_TOKEN" not in left
    assert '"cleared":true' in left
