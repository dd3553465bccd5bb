"""A command on a terminal of its own, with somebody who reads and types."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

Typed = bytes | Callable[[int], object]
"""Keys, or what is done meanwhile (with the terminal's descriptor)."""


def resize(leader: int, columns: int, rows: int = 30) -> None:
    """Give the window another size."""
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
