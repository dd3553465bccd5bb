"""Real shells with somebody at the keyboard: on a terminal of their own, with our completion loaded."""

import os
import pty
import re
import select
import signal
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.project import AWK

SECONDS: Final = 20.0
_PROMPT: Final = "READY> "
_ARGV: Final = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-i"]}
_ERASE: Final = b"\x15"
"""Ctrl-U: forget the line."""


class Typist:
    """A shell, and what it has written since we last looked."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._seen = b""

    def type(self, text: str) -> None:
        """Press the keys of ``text``."""
        self._seen = b""
        os.write(self._descriptor, text.encode())

    def sees(self, pattern: str) -> str:
        """Wait until the screen has ``pattern``. Raises TimeoutError with what it has instead."""
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            match = re.search(pattern, self._seen.decode("utf-8", "replace"))
            if match is not None:
                return match[0]
            if select.select([self._descriptor], [], [], 0.2)[0]:
                self._seen += os.read(self._descriptor, 65536)
        raise TimeoutError(f"no {pattern!r} in {self._seen!r}")

    def completes(self, typed: str, to: str) -> None:
        """Type, press Tab, and wait for the line to be ``to``; then forget it."""
        self.type(f"{typed}\t")
        self.sees(re.escape(to))
        os.write(self._descriptor, _ERASE)


@contextmanager
def typing(shell: str, script: Path, cwd: Path, environ: Mapping[str, str]) -> Generator[Typist]:
    """Somebody at a ``shell`` that has sourced ``script``."""
    (script.parent / ".zshrc").write_text(f"autoload -U compinit; compinit -u -D; PROMPT='{_PROMPT}'\n")
    child_environ = {
        **environ,
        "PATH": f"{AWK.parent}:{os.environ['PATH']}",
        "HOME": str(script.parent),
        "PS1": _PROMPT,
        "TERM": "dumb",
        "LANG": "C.UTF-8",
    }
    pid, descriptor = pty.fork()
    if pid == 0:  # pragma: no cover
        os.chdir(cwd)
        os.execvpe(shell, _ARGV[shell], child_environ)
    try:
        typist = Typist(descriptor)
        typist.sees(_PROMPT)
        typist.type(f"source {script}; echo LOAD''ED\n")
        typist.sees("LOADED")
        yield typist
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.close(descriptor)
        os.waitpid(pid, 0)
