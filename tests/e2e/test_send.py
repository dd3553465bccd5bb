"""A message, from the command line to the durable reply."""

from tests.e2e.processes import survivors
from tests.project import Project


def test_a_message_is_answered_and_nothing_is_left_running(project: Project) -> None:
    project.agent("alice", 'text: "looked at ${{ message.text }}"')
    assert project.awk("start").code == 0
    kernel = project.kernel()
    sent = project.awk("send", "alice", "X", "--wait", "--json")
    assert sent.code == 0, sent.err
    assert [(r["agent"], r["status"], r["text"]) for r in sent.json()["results"]] == [("alice", "done", "looked at X")]
    tree = [kernel, *kernel.children(recursive=True)]
    assert project.awk("stop", "--yes").code == 0
    assert survivors(tree, seconds=5) == []
    assert project.awk("ps").code == 69, "no kernel, for commands that do not start one"
