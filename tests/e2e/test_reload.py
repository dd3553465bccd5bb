"""Files edited beside a kernel that runs."""

from tests.project import Project


def test_an_agent_may_come_break_and_be_mended_while_the_kernel_runs(kernel_process: Project) -> None:
    """Live reload; a broken file is shown with its line, and what it said before stays in effect."""
    project = kernel_process
    project.agent("alice", "text: old")
    assert project.until("agent.changed")["agent"] == "alice"
    assert project.awk("ask", "alice", "hi").out == "old\n"
    project.write(".agents/alice.yaml", "backend: mock\nmok: []\n")
    told = project.until("definition.broken")["data"]
    assert (told["path"], told["line"]) == (".agents/alice.yaml", 2)
    listed = project.awk("agent", "list")
    assert ".agents/alice.yaml:2:1 mok: unknown key" in listed.out
    assert project.awk("ask", "alice", "hi").out == "old\n"
    project.agent("alice", "text: mended")
    assert project.awk("ask", "alice", "hi").out == "mended\n"
