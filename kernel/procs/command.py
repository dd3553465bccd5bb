"""Commands that run to completion under a keeper (setup steps, git), and cached version queries of programs.

Commands have limits of time and output, and optionally of memory and processes. When a command returns, none of its
processes remains. The output of a version query is cached until the program's file changes (inode, size or time). The
queried program gets an empty private folder as home and working directory, so it reads no files of the user.
"""

import itertools
import os
import signal
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from subprocess import PIPE
from typing import Final

import msgspec
import trio

from kernel.procs.launcher import Launcher
from kernel.procs.process_limits import under_first_limit
from kernel.procs.spec import TRANSIENT, NodeLost, SpawnTransient, Spec
from protocol.ipc import Exited, Sandbox

STDERR_TAIL_BYTES: Final = 64 * 1024
_CHUNK_BYTES: Final = 256 * 1024


class CommandResult(msgspec.Struct, frozen=True):
    """Result of a command. ``truncated``: the command was killed because its output exceeded the limit."""

    exit: Exited
    stdout: bytes
    stderr_tail: bytes
    timed_out: bool
    truncated: bool

    @property
    def ok(self) -> bool:
        """Return whether the command exited with code 0, in time and within its limits."""
        ended_well = self.exit.code == 0 and self.exit.exceeded is None
        return ended_well and not self.timed_out and not self.truncated


async def _keep_head(stream: trio.abc.ReceiveStream, limit_bytes: int, kept: bytearray, into: Path | None) -> bool:
    room = limit_bytes
    async with AsyncExitStack() as stack:
        file = None if into is None else await stack.enter_async_context(await trio.open_file(into, "xb"))
        async for chunk in stream:
            if file is None:
                kept += chunk[:room]
            else:
                await file.write(chunk[:room])
            room -= len(chunk)
            if room < 0:
                return True
    return False


async def keep_tail(stream: trio.abc.ReceiveStream, kept: bytearray, limit_bytes: int = STDERR_TAIL_BYTES) -> None:
    """Read ``stream`` to its end, since a full pipe would block the command; keep its last bytes in ``kept``."""
    async for chunk in stream:
        kept += chunk
        del kept[:-limit_bytes]


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
    into: Path | None = None,
    sandbox: Sandbox | None = None,
    memory_bytes: int | None = None,
    processes: int | None = None,
) -> CommandResult:
    """Run ``argv`` in exactly ``env`` with ``given`` (or a file) as input; return when its whole tree has exited.

    The output is in the result, or in the new file ``into``. ``sandbox`` confines the command like an agent's
    programs. The tree is killed if it exceeds ``memory_bytes`` or ``processes`` (see ``exit.exceeded``), or outlives
    the command. If the command cannot be executed, the result has ``exit.failed``. Raises SpawnTransient; NodeLost if
    the outcome is unknown. Cancellation kills the tree.
    """
    handle = await launcher.spawn(Spec(attempt=attempt, argv=argv, cwd=cwd, env=env, sandbox=sandbox))
    head, tail = bytearray(), bytearray()
    truncated = False
    async with handle, trio.open_nursery() as nursery:
        nursery.start_soon(keep_tail, handle.stderr, tail)
        nursery.start_soon(_give, handle.stdin, given)
        if (memory_bytes, processes) != (None, None):
            await handle.bound(memory_bytes=memory_bytes, processes=processes)
        with trio.move_on_after(timeout_seconds) as patience:
            truncated = await _keep_head(handle.stdout, output_limit_bytes, head, into)
            if not truncated:
                await handle.wait()
        await handle.kill()  # also background processes of a command that has exited
        exited = await handle.wait()
    if exited.lost:
        raise NodeLost("the node was lost")
    return CommandResult(exited, bytes(head), bytes(tail), patience.cancelled_caught, truncated)


async def _give(stdin: trio.abc.SendStream, given: bytes | Path) -> None:
    with suppress(trio.BrokenResourceError):  # the command may not read its input
        if isinstance(given, bytes):
            await stdin.send_all(given)
        else:
            async with await trio.open_file(given, "rb") as file:
                while chunk := await file.read(_CHUNK_BYTES):
                    await stdin.send_all(chunk)
    await stdin.aclose()


PROBE_SECONDS: Final = 15.0
"""Timeout of a version query; the slowest known program takes two seconds on a slow machine."""
PROBE_OUTPUT_BYTES: Final = 64 * 1024

_TAIL: Final = 200
_Key = tuple[str, int, int, int, str]
_numbers: Final = itertools.count(1)
"""Numbers of attempt directories, unique within a kernel. A new kernel removes those of the earlier one."""


class ProbeResult(msgspec.Struct, frozen=True):
    """The output of a version query, or the reason why there is none."""

    text: str
    fault: str | None = None


class VersionProbes:
    """Cache of version queries. ``launcher`` runs the queried programs, below ``run_dir``."""

    def __init__(self, launcher: Launcher, run_dir: Path) -> None:
        self._launcher = launcher
        self._run_dir = run_dir
        self._said: dict[_Key, ProbeResult] = {}
        self._asking: defaultdict[_Key, trio.Lock] = defaultdict(trio.Lock)

    async def ask(self, program: str, flag: str, env: Mapping[str, str]) -> ProbeResult:
        """Return the output of ``program flag``, run in ``env`` with private folders.

        Failures are not cached. Cancellation kills the program.
        """
        try:
            file = os.stat(program)
            key = program, file.st_ino, file.st_size, file.st_mtime_ns, flag
        except OSError as error:
            return ProbeResult("", error.strerror)
        async with self._asking[key]:
            known = self._said.get(key)
            if known is None:
                known = await self._run(program, flag, env)
                if known.fault is None:
                    self._said[key] = known
        return known

    async def _run(self, program: str, flag: str, env: Mapping[str, str]) -> ProbeResult:
        attempt = f"probe-{next(_numbers)}"
        home = str(self._run_dir / attempt)
        try:
            result = await run_command(
                self._launcher,
                attempt,
                (program, flag),
                cwd=home,  # a program may read configuration from its working directory
                env={**env, "HOME": home, "TMPDIR": home},
                timeout_seconds=PROBE_SECONDS,
                output_limit_bytes=PROBE_OUTPUT_BYTES,
            )
        except SpawnTransient as error:
            return ProbeResult("", str(error))
        return _said(result)


def _said(result: CommandResult) -> ProbeResult:
    text = (result.stdout or result.stderr_tail).decode("utf-8", "replace").strip()
    if result.ok:
        return ProbeResult(text)
    if result.exit.failed is not None:
        return ProbeResult("", result.exit.failed)
    if result.timed_out:
        return ProbeResult("", f"no answer in {PROBE_SECONDS:.0f} s")
    error = result.stderr_tail.decode("utf-8", "replace").strip()[-_TAIL:]
    how = f"signal {result.exit.signal}" if result.exit.signal else f"exit code {result.exit.code}"
    return ProbeResult("", f"{how}: {error}" if error else how)


TAIL_BYTES: Final = 4096
"""Size of the stored end of standard error, which explains an exit."""
LINE_CHARACTERS: Final = 300
LEAVE_SECONDS: Final = 2.0
"""Time for the command to exit after the end of its input, and again after SIGTERM."""
_READ_BYTES: Final = 64 * 1024


class CommandMissing(Exception):
    """The program does not exist, or cannot be executed."""


class PipedCommand(trio.abc.Stream):
    """A command whose standard streams are the transport to a node: ssh, srun, kubectl exec.

    It runs without a keeper: that would kill a local node process before this has stopped its own
    trees. The remote node process exits when its input ends, at the latest with its lease.
    """

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
        """Return the command's process id."""
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
        """Return a text about the command's exit, with the last line of its standard error."""
        code = self._process.returncode
        last = [line for line in self._tail.decode("utf-8", "replace").splitlines() if line.strip()][-1:]
        said = "".join(character if character.isprintable() else " " for line in last for character in line)
        if code is None:
            ended = f"{self._program} closed the stream"
        elif code < 0:
            ended = f"{self._program} was killed by signal {-code}"
        else:
            ended = f"{self._program} exited with code {code}"
        return f"{ended}: {said.strip()[:LINE_CHARACTERS]}" if said.strip() else ended

    async def read_tail(self) -> None:
        """Read standard error until it ends, and store its last TAIL_BYTES."""
        assert self._process.stderr is not None
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for chunk in self._process.stderr:
                self._tail += chunk
                del self._tail[:-TAIL_BYTES]  # read to the end: a full pipe would block the program

    async def aclose(self) -> None:
        """Close the command's input; if it does not exit, send SIGTERM, then SIGKILL. Shielded from cancellation."""
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
    """Yield ``argv`` as a running command, and stop it after the block. Raises CommandMissing, SpawnTransient."""
    try:
        process = await trio.lowlevel.open_process(
            under_first_limit(argv),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,  # no Ctrl-C of the kernel's terminal: the node stops in order
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
