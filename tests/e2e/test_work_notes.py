"""Who goes on is told what was left for them, and that it is a retry; with a real kernel and real workers."""

import pytest

from tests.project import Project

BEGINS = """\
backend: mock
max_steps: 1
mock:
  - { tool: handover_write, args: { done: "half of a.py", next: "the other half" } }
  - { tool: my_status_set, args: { task: "a.py", state: working } }
  - { text: done }
"""
GOES_ON = """\
backend: sdk
model: mock/other
prompt: { system: "You are alice." }
mock:
  - { tool: my_status_set, args: { task: "a.py", state: finishing } }
  - { text: finished }
"""


def told(project: Project, instruction: str) -> str:
    """The message that an attempt at ``instruction`` opened with."""
    return str(project.ask("GET", f"/instructions/{instruction}/prompt")["messages"][-1]["text"])


@pytest.mark.promise("P42")
def test_another_backend_is_given_what_the_one_before_left(shared_kernel: Project) -> None:
    shared_kernel.write(".agents/alice.yaml", BEGINS)
    first = shared_kernel.send("alice", "write a.py")
    assert shared_kernel.ended(first)["status"] == "incomplete"
    shown = shared_kernel.awk("show", first).out
    assert "next   the other half" in shown
    shared_kernel.write(".agents/alice.yaml", GOES_ON)
    second = shared_kernel.send("alice", "continue")
    ended = shared_kernel.ended(second)
    assert (ended["status"], ended["continues"]) == ("done", first)
    assert "> done: half of a.py\n> next: the other half" in told(shared_kernel, second)
    table = shared_kernel.awk("ps", env={"COLUMNS": "200"}).out
    assert "finishing: a.py" in table


@pytest.mark.promise("P42")
def test_who_begins_anew_after_crashes_is_told_that_it_is_a_retry(shared_kernel: Project) -> None:
    shared_kernel.agent("bob", "exit: { signal: KILL }")
    work = shared_kernel.send("bob", "go")
    assert shared_kernel.ended(work)["status"] == "dead"
    assert told(shared_kernel, work).startswith("go\n\n(This is a retry: the work was begun 2 times before")
