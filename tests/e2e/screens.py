"""Ten situations of a person at a terminal; ``python -m tests.e2e.screens`` writes their screens anew."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.project import AWK, Project, empty_project
from tests.terminal import Tmux

SCREENS: Final = Path(__file__).parent / "screens.txt"
HOSTILE: Final = r"echo '\u001b[2J\u001b[1;1H\rnothing to see\u202e' >> bad.log"
TEAM: Final = {
    ".agents/writer.yaml": f"""
        model: mock/w
        prompt: {{ system: You write. }}
        tools: [bash]
        mock: [{{ tool: bash, args: {{ command: "{HOSTILE}" }} }}, {{ text: finished }}]
        """,
    ".agents/editor.yaml": """
        model: mock/e
        prompt: { system: You edit. }
        tools: [files]
        mock: [{ tool: edit, args: { path: notes.md, old: two, new: three } }, { text: edited }]
        """,
    ".agents/waiter.yaml": """
        model: mock/s
        approval: auto
        tools: [bash]
        mock: [{ tool: bash, args: { command: cat gate } }, { text: "@sweeper it is open" }]
        """,
    ".agents/sweeper.yaml": f"""
        model: mock/s
        tools: [bash]
        mock: [{{ tool: bash, args: {{ command: "{HOSTILE}" }} }}, {{ text: swept }}]
        """,
    ".workflows/gate.yaml": """
        agents: { waiter: { ref: waiter }, sweeper: { ref: sweeper } }
        kickoff: "@waiter go"
        """,
    "notes.md": "one\ntwo\n",
}
QUESTION: Final = "Enter: later]"
VOLATILE: Final = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "2026-01-01T00:00:00.000Z"),
    (r"\b\d+(\.\d)? s\b", "0.0 s"),
    (r"\bfor \d+[smh]\b", "for 0s"),
)


def at_a_terminal(project: Project, columns: int = 100) -> Tmux:
    """A terminal in the project, where our commands come first."""
    return Tmux(project.root, {**project.environ, "PATH": f"{AWK.parent}:{os.environ['PATH']}"}, columns)


def ask(project: Project, agent: str) -> None:
    """Have it want to make the one call of its script."""
    project.send(agent)
    project.until("approval.requested", holds=lambda event: event["agent"] == agent)


def ended(project: Project, agent: str) -> None:
    project.until("instruction.ended", holds=lambda event: event["agent"] == agent)


def normal(rows: list[str]) -> str:
    """What stands on a screen, but for what time and chance decide."""
    text = "\n".join(rows) + "\n"
    for pattern, always in VOLATILE:
        text = re.sub(pattern, always, text)
    return text


def situations(project: Project, tmux: Tmux) -> Iterator[tuple[str, str]]:
    """Ten of them with their names, each with a text that its screen has: who looks comes back when it is there."""
    for path, text in TEAM.items():
        project.write(path, text)
    os.mkfifo(project.root / "gate")
    for agent in ("writer", "editor"):
        ask(project, agent)
    tmux.until(lambda rows: rows == ["0 $"])
    tmux.command("awk top")
    yield "top, 100 columns", "? help"
    tmux.resize(60)
    yield "top, 60 columns", "? help"
    tmux.press("?")
    yield "the keys of top", "quit"
    tmux.resize(100)
    tmux.press("Escape")
    tmux.until("? help")
    tmux.press(*"/wri", "Enter")
    yield "top, filtered", "/wri |"
    tmux.press("Enter")
    yield "top, the work of an agent", "writer: i1"
    tmux.press("Escape")
    tmux.until("? help")
    tmux.press("a")
    yield "top, a call to approve", "Approve a1? [y once"
    tmux.press("y")
    tmux.until("a1 was granted")
    ended(project, "writer")
    tmux.press("q")
    tmux.until(lambda rows: rows[-1:] == ["0 $"])
    tmux.resize(120)
    tmux.command("awk needs")
    yield "needs", "7 $"
    tmux.resize(100)
    tmux.command("awk attach editor")
    tmux.until(QUESTION)
    tmux.type("d")
    yield "attach, where it asks and shows the change", "+three"
    tmux.type("y")
    tmux.until("edited")
    tmux.press("C-c")
    tmux.until("130 $")
    tmux.command("awk run gate --trust")
    yield "run, while somebody works", "bash"
    (project.root / "gate").write_text("open\n")
    yield "run, where it asks", QUESTION
    tmux.type("y")
    tmux.until("swept")
    tmux.until(lambda rows: rows[-1:] == ["0 $"])


def expected() -> dict[str, str]:
    parts = SCREENS.read_text("utf-8").split("== ")[1:]
    return {name: text for name, _, text in (part.partition("\n") for part in parts)}


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        made = empty_project(Path(folder))
        assert made.awk("start").code == 0
        try:
            with at_a_terminal(made) as terminal:
                shown = []
                for name, mark in situations(made, terminal):
                    terminal.until(mark)
                    with suppress(AssertionError):
                        terminal.until(lambda _: False, seconds=2)
                    shown.append(f"== {name}\n{normal(terminal.screen())}")
        finally:
            made.stop()
    SCREENS.write_text("".join(shown), "utf-8")
