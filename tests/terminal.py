"""A command on a terminal of its own, with somebody who reads and types."""

import fcntl
import os
import pty
import select
import shlex
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Self

PROMPT: Final = "$? $ "
"""Of a shell: how the last command ended, first."""
Typed = bytes | Callable[[int], object]
"""Keys, or what is done meanwhile (with the terminal's descriptor)."""


def resize(leader: int, columns: int, rows: int = 30) -> None:
    fcntl.ioctl(leader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def on_a_terminal(
    command: Sequence[str], cwd: Path, environ: Mapping[str, str], script: Sequence[tuple[bytes, Typed]],
    columns: int = 150, seconds: float = 30,
) -> tuple[bytes, int]:  # fmt: skip
    """Run it on a pty; wait for each text behind the one before, then type what goes with it.

    Returns what was drawn, and the exit code.
    """
    leader, follower = pty.openpty()
    resize(leader, columns)
    with subprocess.Popen(
        command, cwd=cwd, env={**environ, "TERM": "xterm"}, stdin=follower, stdout=follower, stderr=follower
    ) as process:
        os.close(follower)
        seen, place = b"", 0
        for text, keys in script:
            while (found := seen.find(text, place)) < 0:
                seen += os.read(leader, 65536)
            place = found + len(text)
            if callable(keys):
                keys(leader)
            else:
                os.write(leader, keys)
        with suppress(OSError):  # EIO: the other end is closed and all of it is read (pty(7))
            while True:
                seen += os.read(leader, 65536)
        code = process.wait(timeout=seconds)
    os.close(leader)
    return seen, code


class Tmux:
    """A window of a real terminal program, in which a shell runs: what stands in it is read, and keys are pressed.

    tmux tells over its control mode whenever something is drawn: nobody looks before that, and nobody sleeps.
    """

    def __init__(self, cwd: Path, environ: Mapping[str, str], columns: int = 100, rows: int = 24) -> None:
        self._folder = TemporaryDirectory(prefix="awk-tmux-")  # the path of a socket has to be short
        command = ("tmux", "-u", "-S", f"{self._folder.name}/socket", "-f", "/dev/null", "-C", "new-session")
        self._process = subprocess.Popen(
            (*command, "-x", str(columns), "-y", str(rows), f"exec env PS1='{PROMPT}' sh"),
            cwd=cwd,
            env={**environ, "TERM": "xterm"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._received = b""
        self._ask("set-option -g destroy-unattached on")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(b"kill-server\n")
            self._process.stdin.flush()
        self._process.communicate(timeout=10)
        self._folder.cleanup()

    def screen(self) -> list[str]:
        """What stands in the window now, without blanks at the ends and empty lines below."""
        rows = [row.rstrip() for row in self._ask("capture-pane -p")]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def styled(self) -> list[str]:
        """What stands in the window now, with its colours as ANSI escapes."""
        return self._ask("capture-pane -e -p")

    def history(self) -> list[str]:
        """All that stood in the window since it was emptied last, and what stands there."""
        return self._ask("capture-pane -p -S -")

    def until(self, holds: str | Callable[[list[str]], bool], seconds: float = 60) -> list[str]:
        """The first screen that holds a text, or of which something holds. Raises AssertionError with the last one."""
        deadline = time.monotonic() + seconds
        while True:
            rows = self.screen()
            if any(holds in row for row in rows) if isinstance(holds, str) else holds(rows):
                return rows
            left = deadline - time.monotonic()
            shown = "\n".join(rows)
            assert left > 0, f"not on the screen: {holds}\n{shown}"
            self._await_output(left)

    def press(self, *keys: str) -> None:
        """Press keys by their names in tmux: ``y``, ``Enter``, ``Escape``, ``C-c``."""
        self._ask(f"send-keys {' '.join(keys)}")

    def type(self, text: str) -> None:
        self._ask(f"send-keys -l {shlex.quote(text)}")
        self.press("Enter")

    def command(self, line: str) -> None:
        """In a window that is empty but for it, run a command; the shell has to wait for one."""
        self._ask("send-keys -R")
        self._ask("clear-history")
        self.type(line)

    def resize(self, columns: int, rows: int = 24) -> None:
        self._ask(f"resize-window -x {columns} -y {rows}")

    def told(self, form: str) -> str:
        """What tmux says of the window, in a format of its own: ``#{pane_title}``."""
        return "\n".join(self._ask(f"display-message -p {shlex.quote(form)}"))

    def _ask(self, command: str) -> list[str]:
        """Send a command, and return what it answers. Raises AssertionError where tmux refuses it."""
        assert self._process.stdin is not None
        self._process.stdin.write(command.encode() + b"\n")
        self._process.stdin.flush()
        # What is drawn meanwhile is told before it; the session's own first answer has the flag 0.
        while not (line := self._line()).startswith("%begin ") or not line.endswith(" 1"):
            pass
        which, answer = line.removeprefix("%begin"), list[str]()
        while (line := self._line()) not in (f"%end{which}", f"%error{which}"):
            answer.append(line)
        assert line.startswith("%end"), f"{command}: {answer}"
        return answer

    def _line(self) -> str:
        while b"\n" not in self._received:
            self._read(10)
        line, _, self._received = self._received.partition(b"\n")
        return line.decode("utf-8", "replace")

    def _await_output(self, seconds: float) -> None:
        if not self._received:
            self._read(seconds)
        while select.select([self._stdout], [], [], 0)[0]:
            self._read(0)
        self._received = b"" if self._received.endswith(b"\n") else self._received.rpartition(b"\n")[2]

    def _read(self, seconds: float) -> None:
        if select.select([self._stdout], [], [], seconds)[0]:
            read = os.read(self._stdout, 65536)
            assert read, "tmux is gone"
            self._received += read

    @property
    def _stdout(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()
