"""The trial of another version before it takes over: it is started as a child that imports everything, reads what is
to be handed over, opens the database without changing it, and says its version.
"""

import os
import subprocess
from typing import Final, NamedTuple

import msgspec
import trio

from protocol.errors import Refused

_OUTPUT_BYTES: Final = 64 * 1024
_SAID: Final = 600
_PROGRAMS: Final = ("agent-worker", "awk")


class TrialFailed(Exception):
    """The version cannot take over. The text says why, in its own words."""


class Program(NamedTuple):
    """An installed version: its interpreter, and the words that every start of it has."""

    python: str
    words: tuple[str, ...]

    @property
    def command(self) -> tuple[str, ...]:
        """The command line of a kernel."""
        return (self.python, "-I", "-m", "kernel", *self.words)


class TriedVersion(msgspec.Struct, frozen=True):
    """The answer of a version that could take over."""

    version: str


def interpreter_at(path: str) -> str:
    """Return the interpreter of a virtual environment, named by its folder or by its agent-worker. Raises Refused."""
    if not os.path.isabs(path):
        raise Refused("bad_request", f"{path[:200]} is not an absolute path", "name a virtual environment")
    folder = os.path.join(path, "bin") if os.path.isdir(path) else os.path.dirname(path)
    python = os.path.join(folder, "python")
    named = os.path.isdir(path) or os.path.basename(path) in (*_PROGRAMS, "python")
    if not named or not os.access(python, os.X_OK):
        lacking = f"there is no {python[:200]}" if os.path.lexists(path) else "it is not there"
        text = f"{path[:200]} is neither a virtual environment nor its agent-worker: {lacking}"
        raise Refused("bad_request", text, "name the folder that python -m venv made")
    return python


async def try_version(program: Program, table: bytes, patience_seconds: float) -> str:
    """Return the version of ``program`` where it can take ``table`` over. Raises TrialFailed. Changes nothing."""
    with os.fdopen(os.memfd_create("agent-worker-trial", os.MFD_CLOEXEC), "r+b") as file:
        file.write(table)
        file.flush()
        said = await _run((*program.command, "--trial", str(file.fileno())), file.fileno(), patience_seconds)
    try:
        return msgspec.json.decode(said, type=TriedVersion).version
    except msgspec.MsgspecError as error:
        raise TrialFailed(f"{program.python} does not say its version: it said {said[:200]!r}") from error


async def _run(command: tuple[str, ...], given: int, patience_seconds: float) -> bytes:
    """Return the last line of what it prints. Raises TrialFailed where it ends with anything but 0, or not in time."""
    out, err = bytearray(), bytearray()
    code: int | None = None
    try:
        process = await trio.lowlevel.open_process(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=(given,)
        )
    except OSError as error:
        raise TrialFailed(f"{command[0]} cannot be executed: {error.strerror}") from error
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        with trio.move_on_after(patience_seconds):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_keep, process.stdout, out)
                nursery.start_soon(_keep, process.stderr, err)
                code = await process.wait()
                nursery.cancel_scope.deadline = trio.current_time() + 1.0  # what it left may hold its pipes
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdout.aclose()
            await process.stderr.aclose()
    if code is None:
        raise TrialFailed(f"{command[0]} said nothing for {patience_seconds:g} s")
    if code:
        words = " ".join(bytes(err).decode("utf-8", "replace").split())[-_SAID:]
        if words.endswith("No module named kernel"):
            raise TrialFailed(f"there is no agent-worker beside {command[0]}: install it in that environment first")
        raise TrialFailed(f"{command[0]} cannot take over (exit code {code}): {words or 'it does not say why'}")
    return (bytes(out).strip().splitlines() or [b""])[-1]


async def _keep(stream: trio.abc.ReceiveStream, kept: bytearray) -> None:
    async for chunk in stream:
        kept += chunk
        del kept[:-_OUTPUT_BYTES]
