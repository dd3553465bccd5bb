"""A command whose standard streams are one stream of bytes to somewhere else: ssh, srun, kubectl exec.

It has no keeper: one would kill a node process of this machine before that has ended its own trees. What runs at the
far end ends when its input does, at the latest with its lease.
"""

import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from subprocess import PIPE
from typing import Final

import trio

from kernel.procs.descriptors import under_first_limit
from kernel.procs.spec import TRANSIENT, SpawnTransient

TAIL_BYTES: Final = 4096
"""Of standard error, kept to say why it ended."""
LINE_CHARACTERS: Final = 300
LEAVE_SECONDS: Final = 2.0
"""After the end of its input, and again after SIGTERM."""
_READ_BYTES: Final = 64 * 1024


class CommandMissing(Exception):
    """The program is not there, or cannot be executed."""


class PipedCommand(trio.abc.Stream):
    """Its standard input and output. ``why`` says how it ended, as far as that is known."""

    def __init__(self, program: str, process: trio.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._program = program
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._tail = bytearray()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """See SendStream."""
        await self._stdin.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """See SendStream."""
        await self._stdin.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """See ReceiveStream."""
        return bytes(await self._stdout.receive_some(max_bytes or _READ_BYTES))

    def why(self) -> str:
        """Its end in words, with the last line that it wrote to standard error."""
        code = self._process.returncode
        last = [line for line in self._tail.decode("utf-8", "replace").splitlines() if line.strip()][-1:]
        said = "".join(character if character.isprintable() else " " for line in last for character in line)
        if code is None:
            ended = f"{self._program} closed the stream"
        elif code < 0:
            ended = f"{self._program} was ended by signal {-code}"
        else:
            ended = f"{self._program} ended with exit code {code}"
        return f"{ended}: {said.strip()[:LINE_CHARACTERS]}" if said.strip() else ended

    async def read_tail(self) -> None:
        """Keep the end of what it writes to standard error, until it writes no more."""
        assert self._process.stderr is not None
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for chunk in self._process.stderr:
                self._tail += chunk
                del self._tail[:-TAIL_BYTES]

    async def aclose(self) -> None:
        """End it: no more input, then SIGTERM, then SIGKILL. Shielded from cancellation, and bounded."""
        with trio.CancelScope(shield=True):
            await self._stdin.aclose()
            await self._stdout.aclose()
            for number in (None, signal.SIGTERM, signal.SIGKILL):
                if number is not None and self._process.returncode is None:
                    self._process.send_signal(number)
                with trio.move_on_after(LEAVE_SECONDS):
                    await self._process.wait()
                    break


@asynccontextmanager
async def piped_command(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> AsyncGenerator[PipedCommand]:
    """Run ``argv`` while the block lasts. Raises CommandMissing, SpawnTransient."""
    try:
        process = await trio.lowlevel.open_process(
            under_first_limit(argv),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
        )
    except OSError as error:
        if error.errno in TRANSIENT:
            raise SpawnTransient(f"cannot start {argv[0]}: {error.strerror}") from error
        raise CommandMissing(f"cannot start {argv[0]}: {error.strerror}") from error
    command = PipedCommand(argv[0].rpartition("/")[2], process)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(command.read_tail)
        try:
            yield command
        finally:
            await command.aclose()
            nursery.cancel_scope.cancel()
