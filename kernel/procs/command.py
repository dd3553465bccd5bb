"""Running a command to its end: setup steps and git. Bounded in time and output, and nothing of it is left."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from kernel.procs.launcher import Launcher
from kernel.procs.spec import Spec
from protocol.ipc import Exited, Sandbox

STDERR_TAIL_BYTES: Final = 64 * 1024
_CHUNK_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class CommandResult:
    """``stdout`` is whole unless ``truncated``, which means that the limit was passed and the command killed for it."""

    exit: Exited
    stdout: bytes
    stderr_tail: bytes
    timed_out: bool
    truncated: bool

    @property
    def ok(self) -> bool:
        """Whether it ended by itself, with 0, in time and within its output limit."""
        return self.exit.code == 0 and not self.timed_out and not self.truncated


class _Output:
    def __init__(self, limit_bytes: int) -> None:
        self.kept = bytearray()
        self._limit = limit_bytes

    async def read_head(self, stream: trio.abc.ReceiveStream) -> bool:
        """Keep the first bytes; True as soon as there are more."""
        async for chunk in stream:
            self.kept += chunk
            if len(self.kept) > self._limit:
                del self.kept[self._limit :]
                return True
        return False

    async def read_tail(self, stream: trio.abc.ReceiveStream) -> None:
        """Keep the last bytes."""
        async for chunk in stream:
            self.kept += chunk
            del self.kept[: -self._limit]


async def run_command(
    launcher: Launcher,
    attempt: str,
    argv: tuple[str, ...],
    *,
    cwd: str,
    env: dict[str, str],
    timeout_seconds: float,
    output_limit_bytes: int,
    given: bytes | Path = b"",
    sandbox: Sandbox | None = None,
) -> CommandResult:
    """Run ``argv`` in exactly ``env``, with ``given`` (or a file) to read; return when its whole tree is gone.

    ``sandbox`` confines it as it does what an agent starts. A process that the command leaves behind is killed when it
    ends. A command that cannot be executed is a result too (``exit.failed``). Raises SpawnTransient. Cancellation kills
    the tree.
    """
    handle = await launcher.spawn(Spec(attempt=attempt, argv=argv, cwd=cwd, env=env, sandbox=sandbox))
    head, tail = _Output(output_limit_bytes), _Output(STDERR_TAIL_BYTES)
    truncated = False
    async with handle, trio.open_nursery() as nursery:
        nursery.start_soon(tail.read_tail, handle.stderr)
        nursery.start_soon(_give, handle.stdin, given)
        with trio.move_on_after(timeout_seconds) as patience:
            truncated = await head.read_head(handle.stdout)
            if not truncated:
                await handle.wait()
        await handle.kill()
        exited = await handle.wait()
    return CommandResult(exited, bytes(head.kept), bytes(tail.kept), patience.cancelled_caught, truncated)


async def _give(stdin: trio.abc.SendStream, given: bytes | Path) -> None:
    with suppress(trio.BrokenResourceError):  # it may not want to read
        if isinstance(given, bytes):
            await stdin.send_all(given)
        else:
            async with await trio.open_file(given, "rb") as file:
                while chunk := await file.read(_CHUNK_BYTES):
                    await stdin.send_all(chunk)
    await stdin.aclose()
