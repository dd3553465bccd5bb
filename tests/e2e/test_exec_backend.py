"""Backend exec: a program of the user's own as a worker, in a real kernel."""

import re
from typing import Final

from tests.architecture.sources import ROOT
from tests.project import Project

PAGE: Final = (ROOT / "docs/worker-protocol.md").read_text("utf-8")


def page_example() -> str:
    """The worker that docs/worker-protocol.md shows."""
    (example,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return str(example)


def test_the_worker_of_the_page_works_and_a_missing_one_says_how(project: Project) -> None:
    """contracts section 6: any executable that speaks the frames is a worker; its token is good for Daemon MCP."""
    project.write("tools/echo.py", page_example())
    project.write(".agents/echo.yaml", "backend: exec\ncommand: [python3, tools/echo.py]\n")
    project.write(".agents/gone.yaml", "backend: exec\ncommand: [./tools/gone]\n")
    assert project.awk("start", "--trust").code == 0

    asked = project.awk("send", "echo", "good morning", "--wait")
    assert (asked.code, asked.out.strip().splitlines()[-1]) == (0, "You said: good morning"), asked.err
    said = [(one["from"], one["kind"], one["text"]) for one in project.awk("peek", "echo", "--json").json()["messages"]]
    assert ("echo", "said", "echo is on it") in said

    failed = project.awk("send", "gone", "hello", "--wait")
    assert (failed.code, f"no executable './tools/gone' in {project.root}" in failed.out) == (1, True)
    (row,) = project.awk("dead", "--json").json()["instructions"]
    assert (row["class"], row["cause"], row["attempts"]) == ("permanent", "spawn_permanent", 1)
