"""The descriptors between the kernel and a new child: three pipes."""

import os
from contextlib import ExitStack
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ends:
    """One side of the child's standard streams."""

    stdin: int
    stdout: int
    stderr: int

    def close(self) -> None:
        """Close all three."""
        for fd in (self.stdin, self.stdout, self.stderr):
            os.close(fd)


def open_pipes() -> tuple[Ends, Ends]:
    """Ours and theirs, all close-on-exec. Raises OSError, and then none is left open."""
    with ExitStack() as undo:

        def pipe() -> tuple[int, int]:
            read, write = os.pipe()
            undo.callback(os.close, read)
            undo.callback(os.close, write)
            return read, write

        stdin_read, stdin_write = pipe()
        stdout_read, stdout_write = pipe()
        stderr_read, stderr_write = pipe()
        undo.pop_all()
    return (
        Ends(stdin_write, stdout_read, stderr_read),
        Ends(stdin_read, stdout_write, stderr_write),
    )
