"""Handover to the next kernel process: the table of its attempts, and the trial of the new version.

Each version reads its own table and the table of the previous version.
"""

import os
import subprocess
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec
import trio

from kernel.procs.command import keep_tail
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
    """State of an attempt between two frames; new fields need a default for older tables."""

    leased: Leased
    token: str
    placeholder: str = ""
    """In place of its provider's key; "" in a table of a version without gateway."""
    frame: StartFrame
    """Its ``start`` is unchanged, except that a prompt already sent to the worker is omitted."""
    handle: HandedHandle
    session: HandedSession
    budget: HandedBudget
    line: HandedLine = HandedLine()
    prepared: PreparedAttempt = PreparedAttempt()
    provider: str = ""
    """Provider of the agent's place, as counted for limits."""
    needs: PlaceNeeds = PlaceNeeds()
    """Resources reserved for it on this machine."""
    identity: bytes = b""
    served: int = 0
    """Earlier attempts of its worker (KeptWorkers)."""
    stderr: bytes = b""
    pid: int | None = None
    doing: str = ""
    steps: int = 0
    probing: tuple[str, ...] = ()
    reached_mcp: bool = False
    warned: tuple[str, ...] = ()
    """Paths outside its tree about which it was already warned."""

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Return all descriptors that have to stay open for the attempt."""
        return (*self.handle.descriptors, *self.prepared.descriptors)


def without_prompt(frame: StartFrame) -> StartFrame:
    """Return ``frame`` without the prompt that its worker already has, which may be megabytes."""
    start = msgspec.structs.replace(frame.start, system="", messages=(), message="", entries=(), source_text="")
    return msgspec.structs.replace(frame, start=start)


FORMAT: Final = 1
"""Raised if this version cannot read older tables."""
OLDEST: Final = 1


class UnreadableHandover(Exception):
    """The handover has a format that this version does not know; the text is for people."""


class HandedUpgrade(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of an upgrade that are reported when it is complete."""

    id: str
    before: str
    """Version that hands over."""
    to: str
    """Version that passed the trial."""
    began: float
    """Time at which attempts stopped, in seconds of CLOCK_BOOTTIME."""


class KernelHandover(msgspec.Struct, frozen=True, kw_only=True):
    """Table that one kernel process hands to the next; new fields need a default."""

    format: int = FORMAT
    upgrade: HandedUpgrade
    attempts: tuple[HandedAttempt, ...] = ()
    children: tuple[int, ...] = ()
    """Process ids of children that exit by themselves and have to be reaped."""
    safe_mode: bool = False
    connections: tuple[tuple[int, bytes], ...] = ()
    """Descriptors of connections, each with the complete request that waits on it."""
    signals: tuple[int, ...] = ()
    """Received signals that were not yet handled."""

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Return all descriptors that have to stay open."""
        of_attempts = (fd for attempt in self.attempts for fd in attempt.descriptors)
        return (*of_attempts, *(fd for fd, _ in self.connections))


def encode(handover: KernelHandover) -> bytes:
    """Encode the table."""
    return encode_json(handover)


def decode(table: bytes) -> KernelHandover:
    """Decode the table. Raises UnreadableHandover."""
    try:
        found = _any.decode(table).format
        if not OLDEST <= found <= FORMAT:
            raise UnreadableHandover(f"handover has format {found}, but this version reads {OLDEST} to {FORMAT}")
        return _decoder.decode(table)
    except msgspec.MsgspecError as error:
        raise UnreadableHandover(f"handover is unreadable: {error}") from error


class _Format(msgspec.Struct):
    format: int


_any: Final = msgspec.json.Decoder(_Format)
_decoder: Final = msgspec.json.Decoder(KernelHandover)


def children_of(handed: Iterable[HandedAttempt], zygotes: Iterable[int]) -> tuple[int, ...]:
    """Return the child processes that the next process has to reap: zygotes and keepers."""
    return (*zygotes, *(attempt.handle.keeper_pid for attempt in handed))


_SAID: Final = 600
_PROGRAMS: Final = ("agent-worker", "awk")


class TrialFailed(Exception):
    """The version cannot take over; the text is its own explanation."""


class KernelProgram(NamedTuple):
    """Installed version: its interpreter, and the arguments of each start."""

    python: str
    words: tuple[str, ...]

    @property
    def command(self) -> tuple[str, ...]:
        """Return the command line of a kernel."""
        return (self.python, "-I", "-m", "kernel", *self.words)


class TriedVersion(msgspec.Struct, frozen=True):
    """Answer of a version that can take over."""

    version: str


def interpreter_at(path: str) -> str:
    """Return the interpreter of a virtual environment, given its folder or its agent-worker. Raises Refused."""
    if not os.path.isabs(path):
        raise Refused("bad_request", f"path {path[:200]} is not absolute", "give the path of a virtual environment")
    folder = os.path.join(path, "bin") if os.path.isdir(path) else os.path.dirname(path)
    python = os.path.join(folder, "python")
    named = os.path.isdir(path) or os.path.basename(path) in (*_PROGRAMS, "python")
    if not named or not os.access(python, os.X_OK):
        lacking = f"{python[:200]} is missing" if os.path.lexists(path) else "the path does not exist"
        text = f"path {path[:200]} is neither a virtual environment nor its agent-worker: {lacking}"
        raise Refused("bad_request", text, "give the folder created by python -m venv")
    return python


async def try_version(
    program: KernelProgram, table: bytes, patience_seconds: float, environ: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return the version of ``program`` if it can take over ``table``, without side effects. Raises TrialFailed.

    ``environ`` has no keys of providers.
    """
    with os.fdopen(os.memfd_create("agent-worker-trial", os.MFD_CLOEXEC), "r+b") as file:
        file.write(table)
        file.flush()
        said = await _run((*program.command, "--trial", str(file.fileno())), file.fileno(), patience_seconds, environ)
    try:
        return msgspec.json.decode(said, type=TriedVersion).version
    except msgspec.MsgspecError as error:
        raise TrialFailed(f"{program.python} did not report its version; its output: {said[:200]!r}") from error


async def _run(command: tuple[str, ...], given: int, patience_seconds: float, environ: Mapping[str, str]) -> bytes:
    out, err = bytearray(), bytearray()
    code: int | None = None
    try:
        process = await trio.lowlevel.open_process(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(given,),
            env=dict(environ),
        )
    except OSError as error:
        raise TrialFailed(f"{command[0]} cannot be executed: {error.strerror}") from error
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        with trio.move_on_after(patience_seconds):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(keep_tail, process.stdout, out)
                nursery.start_soon(keep_tail, process.stderr, err)
                code = await process.wait()
                nursery.cancel_scope.deadline = trio.current_time() + 1.0  # its child processes may hold the pipes
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdout.aclose()
            await process.stderr.aclose()
    if code is None:
        raise TrialFailed(f"{command[0]} did not answer within {patience_seconds:g} s")
    if code:
        words = " ".join(bytes(err).decode("utf-8", "replace").split())[-_SAID:]
        if words.endswith("No module named kernel"):
            raise TrialFailed(
                f"agent-worker is not installed beside {command[0]}: install it in that environment first"
            )
        raise TrialFailed(f"{command[0]} cannot take over (exit code {code}): {words or 'no reason given'}")
    return (bytes(out).strip().splitlines() or [b""])[-1]
