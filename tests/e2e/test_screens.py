"""What a person sees and answers in a real terminal program, tmux, and that no agent has a hand in it."""

import os
import shutil
import sys
from functools import partial

import pytest

from tests.architecture.sources import ROOT
from tests.e2e.screens import QUESTION, at_a_terminal, expected, normal, situations
from tests.project import Project

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


def is_shown(wanted: str, rows: list[str]) -> bool:
    """Whether a screen is that, but for what time and chance decide."""
    return normal(rows) == wanted


@pytest.mark.promise("P16", "P34")
def test_ten_screens_are_what_they_were(kernel_process: Project) -> None:
    screens = expected()
    with at_a_terminal(kernel_process) as tmux:
        for name, _ in situations(kernel_process, tmux):
            tmux.until(partial(is_shown, screens.pop(name)))
        assert tmux.told("#{alternate_on} #{pane_title}") == f"0 {os.uname().nodename}"
    assert screens == {}
    assert (kernel_process.root / "bad.log").read_text().count("nothing to see") == 2
    assert (kernel_process.root / "notes.md").read_text() == "one\nthree\n"


FORGED = r"\u001b[2J\u001b[1;1H\u001b]0;owned\u0007\rApprove a1? [y once] \u4dc0\u4dc0\u202e"
"""Clears the window, moves the cursor, names the window, and is wider than it looks."""


@pytest.fixture
def noise(kernel_process: Project) -> Project:
    """A workflow of one who asks, and one who makes noise once a gate is open, and then asks for something worse."""
    kernel_process.write(
        ".workflows/noise.yaml",
        f"""
        agents:
          asker:
            model: mock/a
            tools: [bash]
            mock: [{{ tool: bash, args: {{ command: "echo '{FORGED}' > asked" }} }}, {{ text: done }}]
          noisy:
            model: mock/n
            tools: [bash]
            mock:
              - shell: cat gate
              - tool: channel_send
                args: {{ message: "{FORGED}" }}
              - tool: "{FORGED}"
              - tool: bash
                args: {{ command: "touch worse; echo '{FORGED}'" }}
              - text: "{FORGED}"
        kickoff: "@asker @noisy go"
        """,
    )
    os.mkfifo(kernel_process.root / "gate")
    return kernel_process


def make_noise(project: Project) -> None:
    """Open the gate, and wait until the noisy one has said it all and asks for its call."""
    project.until("approval.requested", holds=lambda event: event["agent"] == "asker")
    (project.root / "gate").write_text("open\n")
    project.until("approval.requested", holds=lambda event: event["agent"] == "noisy")


@pytest.mark.promise("P16")
def test_nothing_another_agent_does_is_seen_while_run_asks(noise: Project) -> None:
    with at_a_terminal(noise, columns=60) as tmux:
        tmux.until(lambda rows: rows == ["0 $"])
        tmux.command("awk run noise --trust")
        tmux.type("y")
        asked = tmux.until(QUESTION)
        assert not any("was granted" in row for row in asked)
        make_noise(noise)
        assert tmux.screen() == asked
        tmux.type("y")
        second = tmux.until("Approve a2?")
        assert any("a1 was granted" in row for row in second)
        tmux.type("n")
        tmux.until(lambda rows: rows[-1:] == ["0 $"])
        seen = tmux.history()
        assert tmux.told("#{pane_title}") == os.uname().nodename
    assert [row for row in seen if row.startswith("Approve a1? ")] == [f"{asked[-1]} y"]
    assert ((noise.root / "asked").exists(), (noise.root / "worse").exists()) == (True, False)


MEASURE = """
import os, re, termios, tty
from interface.cli.output import escape, width
before = termios.tcgetattr(0)
tty.setraw(0)
wider = []
for code in (*range(0x20, 0xD800), *range(0xE000, 0x20000)):
    if escape(chr(code)) == chr(code):
        text = f"a{chr(code)}b"
        os.write(1, f"\\r\\x1b[K{text}\\x1b[6n".encode())
        answer = b""
        while not answer.endswith(b"R"):
            answer += os.read(0, 64)
        if int(re.search(rb";([0-9]+)R", answer)[1]) - 1 > width(text):
            wider.append(f"{code:x}")
termios.tcsetattr(0, termios.TCSANOW, before)
print("\\r\\x1b[Kwider than we think:", *(wider or ["none"]))
"""


@pytest.mark.long("tests/interface/test_escape.py")
def test_no_character_is_wider_than_we_think(project: Project) -> None:
    project.write("measure.py", MEASURE)
    with at_a_terminal(project) as tmux:
        tmux.until(lambda rows: rows == ["0 $"])
        tmux.command(f"PYTHONPATH={ROOT} {sys.executable} measure.py")
        shown = tmux.until(lambda rows: rows[-1:] == ["0 $"], seconds=120)
    assert shown[1:] == ["wider than we think: none", "0 $"]
