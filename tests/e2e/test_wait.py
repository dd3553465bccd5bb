"""awk wait with a real kernel: an agent that works is not idle, wherever it works just now."""

from tests.project import Project


def test_an_agent_that_works_is_waited_for(project: Project) -> None:
    """124 while it is at work, 0 once that is over."""
    project.agent("alice", "sleep: 600")
    assert project.awk("send", "alice", "work").code == 0
    assert project.awk("wait", "alice", "--for", "idle", "--timeout", "1s").code == 124
    assert project.awk("cancel", "i1").code == 0
    assert project.awk("wait", "alice", "--for", "idle").out == "alice: idle\n"
