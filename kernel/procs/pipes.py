"""The descriptors between the kernel and a new child: three pipes, and the keeper's socket."""

import os
import socket
from contextlib import ExitStack
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ends:
    """One side: of the child's standard streams, and of the socket between kernel and keeper."""

    stdin: int
    stdout: int
    stderr: int
    link: socket.socket

    def close(self) -> None:
        """Close all four."""
        for fd in (self.stdin, self.stdout, self.stderr):
            os.close(fd)
        self.link.close()


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
        ours, theirs = socket.socketpair()
        undo.pop_all()
    return (
        Ends(stdin_write, stdout_read, stderr_read, ours),
        Ends(stdin_read, stdout_write, stderr_write, theirs),
    )
