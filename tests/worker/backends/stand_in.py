"""An executable that stands where a program is looked for: it plays a recording, or runs the real one and records it.

Written into a folder on PATH with a CONFIG on top, and run by an interpreter without site packages: standard library
only. It leaves word of each process it was (``1.json``, ``2.json``: pid, argv, environment, standard input), and can
tamper with what is said, as programs do in bad days.

A recording is the lines of standard output; the last line (``{"recorded": ...}``) says how the process ended.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

GARBAGE = (
    b"Warning: something happened\n",
    b"{not json\n",
    b'{"type": 7}\n',
    b"\xff\xfe\n",
    b"[1, 2]\n",
    b"x" * 200_000,
)
"""Lines that are none of any format; the last one has no end of its own."""


def main(config: dict[str, Any]) -> None:
    """Be the program once, as ``config`` says."""
    number = _leave_word(Path(config["notes"]))
    tamper = config["tamper"]
    source = _Recording(config, number) if config["real"] is None else _Real(config, number)
    lines = list(source.lines()) if tamper == "mute" else source.lines()
    if tamper == "garbage":
        _say(b"\n".join(GARBAGE) + b"\n")
    for line in lines[:-1] if isinstance(lines, list) else lines:
        _say(line)
        if tamper == "garbage":
            _say(GARBAGE[1])
    if tamper == "stay":
        _wait()
    os._exit(0) if tamper == "mute" else source.leave()


class _Recording:
    """What a process said once. Files: ``<scenario>.<number>.jsonl``."""

    def __init__(self, config: dict[str, Any], number: int) -> None:
        *self._lines, last = Path(f"{config['recorded']}.{number}.jsonl").read_bytes().splitlines(keepends=True)
        self._ended = json.loads(last)["recorded"]

    def lines(self) -> Iterator[bytes]:
        return iter(self._lines)

    def leave(self) -> None:
        """End as it ended: by itself, or when it was told to."""
        sys.stderr.write(self._ended["stderr"])
        sys.stderr.flush()
        if self._ended["told"]:
            _wait()
        if self._ended["code"] < 0:
            os.kill(os.getpid(), -self._ended["code"])
        os._exit(self._ended["code"])


class _Real:
    """The real program, under the same arguments, environment and input."""

    def __init__(self, config: dict[str, Any], number: int) -> None:
        self._record = None if config["record"] is None else Path(f"{config['record']}.{number}.jsonl")
        self._replace = config["replace"]
        self._told = False
        if self._record is None and config["tamper"] is None:
            os.execv(config["real"][0], [*config["real"], *sys.argv[1:]])
        signal.signal(signal.SIGTERM, self._tell)
        self._process = subprocess.Popen(
            [*config["real"], *sys.argv[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ)
        )
        self._said: list[bytes] = []

    def lines(self) -> Iterator[bytes]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.append(line)
            yield line

    def leave(self) -> None:
        """End as it ends, and keep what it said."""
        assert self._process.stderr is not None
        stderr = self._process.stderr.read().decode("utf-8", "replace")
        code = self._process.wait()
        ended = {"recorded": {"code": code, "stderr": stderr, "told": self._told}}
        if self._record is not None:
            text = b"".join([*self._said, json.dumps(ended).encode() + b"\n"]).decode("utf-8", "replace")
            for place, name in self._replace.items():
                text = text.replace(place, name)
            self._record.write_text(text, "utf-8")
        sys.stderr.write(stderr)
        sys.stderr.flush()
        os._exit(code if code >= 0 else 128 - code)

    def _tell(self, number: int, _frame: object) -> None:
        self._told = True
        self._process.send_signal(number)


def _leave_word(notes: Path) -> int:
    """Write down who we are, and return which process of the scenario that is. Input that is a file is read twice."""
    number = len(list(notes.glob("*.json"))) + 1
    stdin = sys.stdin.buffer.read().decode("utf-8", "replace")
    if sys.stdin.buffer.seekable():
        os.lseek(0, 0, os.SEEK_SET)
    word = {"pid": os.getpid(), "argv": sys.argv[1:], "env": dict(os.environ), "stdin": stdin}
    (notes / f"{number}.part").write_text(json.dumps(word), "utf-8")
    (notes / f"{number}.part").rename(notes / f"{number}.json")
    return number


def _say(line: bytes) -> None:
    os.write(1, line)


def _wait() -> None:
    """Stay until somebody says SIGTERM."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: os._exit(143))
    while True:
        signal.pause()
