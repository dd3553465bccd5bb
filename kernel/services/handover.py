"""The handover to the next program of a kernel: the table of its attempts, and the trial of the program.

Each program reads its own table and the one before's.
"""

import os
import subprocess
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec
import trio

from kernel.procs.handle import HandedHandle
from kernel.services.budgets import HandedBudget
from kernel.services.preparation import PreparedAttempt
from kernel.services.start_frame import StartFrame
from kernel.services.worker_link import HandedLine, HandedSession
from kernel.store.transitions.lease import Leased
from protocol.errors import Refused
from protocol.limits import PlaceNeeds
from protocol.text import encode_json


class HandedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt between two frames of its conversation. A field that is added has a default: older ones lack it."""

    leased: Leased
    token: str
    frame: StartFrame
    """Its ``start`` is as it was sent, but for the prompt where the worker has that already."""
    handle: HandedHandle
    session: HandedSession
    budget: HandedBudget
    line: HandedLine = HandedLine()
    prepared: PreparedAttempt = PreparedAttempt()
    provider: str = ""
    """Of the place of its agent: as limits count it."""
    needs: PlaceNeeds = PlaceNeeds()
    """Set aside for it on this machine."""
    identity: bytes = b""
    served: int = 0
    """Of its worker, as kept workers know it."""
    stderr: bytes = b""
    pid: int | None = None
    doing: str = ""
    steps: int = 0
    probing: tuple[str, ...] = ()
    reached_mcp: bool = False
    warned: tuple[str, ...] = ()
    """The paths outside its tree of which it was told."""

    @property
    def descriptors(self) -> tuple[int, ...]:
        """All that have to stay open for it."""
        return (*self.handle.descriptors, *self.prepared.descriptors)


def without_prompt(frame: StartFrame) -> StartFrame:
    """Return ``frame`` without what its worker was told and nobody asks for again. It may be megabytes."""
    start = msgspec.structs.replace(frame.start, system="", messages=(), message="", entries=(), source_text="")
    return msgspec.structs.replace(frame, start=start)


FORMAT: Final = 1
"""Raised where what an older program wrote cannot be read any more."""
OLDEST: Final = 1


class UnreadableHandover(Exception):
    """A handover is of another kind than this program knows. The text is for people."""


class HandedUpgrade(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of an upgrade that are told once it is over."""

    id: str
    before: str
    """The version that hands over."""
    to: str
    """The version that said it could take over."""
    began: float
    """When attempts stopped, in seconds of CLOCK_BOOTTIME."""


class KernelHandover(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. A field that is added has a default."""

    format: int = FORMAT
    upgrade: HandedUpgrade
    attempts: tuple[HandedAttempt, ...] = ()
    children: tuple[int, ...] = ()
    """Processes that are children of this one, and end by themselves."""
    safe_mode: bool = False
    signals: tuple[int, ...] = ()
    """Those that nobody has acted on."""

    @property
    def descriptors(self) -> tuple[int, ...]:
        """All that stay open."""
        return tuple(fd for attempt in self.attempts for fd in attempt.descriptors)


def encode(handover: KernelHandover) -> bytes:
    """The table as bytes."""
    return encode_json(handover)


def decode(table: bytes) -> KernelHandover:
    """Read it. Raises UnreadableHandover."""
    try:
        found = _any.decode(table).format
        if not OLDEST <= found <= FORMAT:
            raise UnreadableHandover(f"it hands over format {found}, and this version reads {OLDEST} to {FORMAT}")
        return _decoder.decode(table)
    except msgspec.MsgspecError as error:
        raise UnreadableHandover(f"what it hands over cannot be read: {error}") from error


class _Format(msgspec.Struct):
    format: int


_any: Final = msgspec.json.Decoder(_Format)
_decoder: Final = msgspec.json.Decoder(KernelHandover)


def children_of(handed: Iterable[HandedAttempt], zygotes: Iterable[int]) -> tuple[int, ...]:
    """Return what is to be reaped: zygotes, and keepers, which are children of ours where they were executed."""
    return (*zygotes, *(attempt.handle.keeper_pid for attempt in handed))


_OUTPUT_BYTES: Final = 64 * 1024
_SAID: Final = 600
_PROGRAMS: Final = ("agent-worker", "awk")


class TrialFailed(Exception):
    """The version cannot take over. The text says why, in its own words."""


class KernelProgram(NamedTuple):
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


async def try_version(program: KernelProgram, table: bytes, patience_seconds: float) -> str:
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
