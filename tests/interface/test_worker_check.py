"""``awk worker check``: what a program does wrong as a worker is found and named, and what is right is not."""

import sys
from pathlib import Path

import pytest

from interface import worker_check
from interface.worker_check import FIXES, WorkerCheck
from tests.architecture.sources import ROOT
from tests.pages import blocks

WORKER = """
import json, os, sys
def say(**frame): print(json.dumps(frame), flush=True)
def hear(*kinds):
    for line in sys.stdin:
        frame = json.loads(line)
        if frame["t"] == "ping" and {pongs}: say(t="pong", n=frame["n"])
        elif frame["t"] == "stop" and {stops}: sys.exit(0)
        elif frame["t"] in kinds: return frame
{before}
say(t="ready", pid=os.getpid(), version="1", protocol={protocol})
start = hear("start")
k = {k}
for left in range({entries} - len(start.get("entries", []))):
    say(t="entry", k=k + left, kind="reply", text="hi", stop_reason="end_turn")
    if {waits} and hear("go", "yield")["t"] == "yield" and {yields}:
        sys.exit(say(t="result", status="yielded"))
{ends}
"""
RIGHT = {
    "pongs": "True", "stops": "True", "before": "", "protocol": "[1, 0]", "k": 'len(start.get("entries", []))',
    "entries": "2", "waits": "True", "yields": "True",
    "ends": 'hear_all = say(t="result", status="done", text="hi")',
}  # fmt: skip


def failed(tmp_path: Path, **wrong: str) -> list[str]:
    """What is found wrong with a worker that is right but for this."""
    program = tmp_path / "worker.py"
    program.write_text(WORKER.format(**RIGHT | wrong))
    rows = WorkerCheck((sys.executable, str(program)), str(tmp_path), "Say hello.", 3.0).rows()
    assert [row.check for row in rows] == list(FIXES)
    assert all(bool(row.fix) != row.ok and row.detail for row in rows)
    return [row.check for row in rows if not row.ok and row.detail != "not reached"]


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        ({}, []),
        ({"entries": "0"}, []),
        ({"before": 'print("hello")'}, ["frames"]),
        ({"before": 'say(t="news", text="of a kind that nobody knows")'}, []),
        ({"before": "sys.exit(3)"}, ["ready"]),
        ({"protocol": "[2, 0]"}, ["ready"]),
        ({"k": "7"}, ["entries"]),
        ({"k": "0"}, []),
        ({"waits": "False"}, ["waits", "yields"]),
        ({"yields": "False"}, ["yields"]),
        ({"ends": 'say(t="error", cause="auth", text="no key")'}, ["result"]),
        ({"ends": 'say(t="result", status="finished")'}, ["frames", "result"]),
        ({"ends": ""}, ["result"]),
        ({"ends": 'say(t="result", status="done"); import time; time.sleep(60)'}, ["leaves"]),
    ],
)
def test_what_a_program_does_wrong_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, str], found: list[str]
) -> None:
    if found == ["leaves"]:
        monkeypatch.setattr(worker_check, "LEAVE_SECONDS", 1.0)
    assert failed(tmp_path, **wrong) == found


def test_a_program_whose_interpreter_takes_seconds_to_end_leaves(tmp_path: Path) -> None:
    """Large libraries do, on a busy machine; what never ends is found in any case."""
    slow = 'import atexit, time; atexit.register(time.sleep, 2.5); say(t="result", status="done")'
    assert failed(tmp_path, ends=slow) == []


def test_who_hears_no_ping_and_no_stop_is_told(tmp_path: Path) -> None:
    busy = (
        'import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); start["messages"] or __import__("time").sleep(1)'
    )
    assert "pong" in failed(tmp_path, pongs="False", entries="1", ends=f'{busy}\nsay(t="result", status="done")')


def test_the_worker_of_the_documentation_is_right(tmp_path: Path) -> None:
    """docs/contributing/worker-protocol.md, as it stands there; its call of a tool finds a stub."""
    page = blocks((ROOT / "docs/contributing/worker-protocol.md").read_text("utf-8"))
    (example,) = (block.text for block in page if block.kind == "python")
    program = tmp_path / "echo.py"
    program.write_text(example)
    rows = WorkerCheck((sys.executable, str(program)), str(tmp_path), "Say hello.", 10.0).rows()
    assert [(row.check, row.detail) for row in rows if not row.ok] == []
