"""Running a command for a tool: bounded in time and output, its process group gone when the call is over.

What left the group is the keeper's to end. Standard output and error are one stream, as a terminal would show them.
"""

import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import trio

from worker.subprocesses import Subprocesses, end
from worker.tool import UNKNOWN, Outcome

HEAD_BYTES: Final = 16 * 1024
"""Of an output that is too long, the beginning: what was run, and the first mistake."""
TAIL_BYTES: Final = 32 * 1024
"""And its end: what it came to."""
LINGER_SECONDS: Final = 1.0
"""How long the pipe may stay open after the command ended: a process that left the group may hold it for ever."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A command to run. ``stdin`` is what it reads; ``env`` is added to what every program of the attempt sees."""

    words: Sequence[str]
    env: Mapping[str, str]
    seconds: float
    stdin: bytes = b""
    head_bytes: int = HEAD_BYTES
    tail_bytes: int = TAIL_BYTES


class Excerpt:
    """A stream of bytes of which the beginning and the end are kept."""

    def __init__(self, head_bytes: int, tail_bytes: int) -> None:
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, chunk: bytes) -> None:
        """Take in what comes next."""
        room = self._head_bytes - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        over = len(self._tail) - self._tail_bytes
        if over > 0:
            del self._tail[:over]
            self._dropped += over

    def text(self) -> str:
        """Return what is kept, and the size of the rest in its place."""
        if not self._dropped:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = self._head.decode("utf-8", "ignore"), self._tail.decode("utf-8", "replace")
        return f"{head}\n[... {self._dropped} bytes left out ...]\n{tail}"


async def run(programs: Subprocesses, command: Command) -> Outcome:
    """Run ``command`` to its end, or to that of its time. A failure is a result too.

    Cancellation kills its group.
    """
    try:
        process = await programs.open(
            command.words,
            env=command.env,
            stdin=subprocess.PIPE if command.stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except (OSError, ValueError) as error:
        return Outcome(f"{command.words[0]} could not be started: {error}", True)
    said = Excerpt(command.head_bytes, command.tail_bytes)
    # Feed it and hear it until it has ended. Returns whether it did so by itself.
    async with trio.open_nursery() as nursery:
        heard = trio.Event()
        nursery.start_soon(_hear, process, said, heard)
        nursery.start_soon(_feed, process, command.stdin)
        try:
            with trio.move_on_after(command.seconds) as scope:
                await process.wait()
        finally:
            await end(process)
        with trio.move_on_after(LINGER_SECONDS):
            await heard.wait()
        nursery.cancel_scope.cancel()
    in_time = not scope.cancelled_caught
    text = said.text()
    if not in_time:
        return Outcome(f"{text}[ended after {command.seconds:g} s, and all it had started: {UNKNOWN}]", True)
    if process.returncode == 0:
        return Outcome(text)
    code = process.returncode
    if code is None:
        how = "killed, and not gone yet"
    elif code > 0:
        how = f"exit {code}"
    else:
        try:
            how = f"killed by {signal.Signals(-code).name}"
        except ValueError:
            how = f"killed by signal {-code}"
    return Outcome(f"{text}[{how}]", True)


async def _hear(process: trio.Process, said: Excerpt, heard: trio.Event) -> None:
    assert process.stdout is not None, "it was asked for"
    async with process.stdout as stream:
        async for chunk in stream:
            said.add(bytes(chunk))
    heard.set()


async def _feed(process: trio.Process, data: bytes) -> None:
    if process.stdin is None:
        return
    async with process.stdin as stream:
        try:
            await stream.send_all(data)
        except trio.BrokenResourceError:
            return  # it does not want to know
