"""What goes on with a program that talks (``Launch.talks``), beside what it says: leave that it asks for, and its end.

Leave is asked of the kernel like every permission prompt does it: the call waits there until somebody has decided, and
the program goes on meanwhile. Where nobody can be asked, the answer is no.
"""

import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec
import trio

from protocol.ipc import Start
from protocol.tools import AUTH_REQUEST, SENDING
from worker.backends.backend import Ask, CliBackend, LastEvent, Parting, Say, Spent
from worker.backends.entry_recorder import EntryRecorder
from worker.backends.process import Process
from worker.daemon_mcp import DaemonMcp
from worker.entry_limits import TooLarge
from worker.io.trio_io import TrioIO
from worker.kernel_link import LinkLost
from worker.models.errors import Failed

PART_SECONDS: Final = 2.0
"""For a program that is to end early to stop what it does, and to say what that has cost."""


class _Answer(msgspec.Struct, frozen=True):
    decision: str = ""
    reason: str = ""


class Dialogue:
    """Tells ``process`` what its backend wants it told, and asks for leave in ``nursery``."""

    def __init__(self, process: Process, start: Start, nursery: trio.Nursery) -> None:
        self._process = process
        self._start = start
        self._nursery = nursery
        self._origin = secrets.token_hex(8)
        self._asked = 0
        self._words: Callable[[], bytes] = bytes

    def take(self, event: Say | Ask | Parting) -> None:
        """Do what ``event`` says. Raises Failed where the program does not read."""
        match event:
            case Say(data=data):
                self._process.say(data)
            case Ask():
                self._asked += 1
                # Known again by a later attempt by what it says, as calls are of every client that names none.
                self._nursery.start_soon(self._ask, event, f"{SENDING}{self._origin}.{self._asked}")
            case Parting(words=words):
                self._words = words

    async def part(self, program: CliBackend, teller: EntryRecorder) -> None:
        """Tell a program that is to end early to stop, and book what it says that it has spent. Bounded."""
        words = self._words()
        if not words or teller.over:
            return
        with trio.move_on_after(PART_SECONDS, shield=True), suppress(Failed, LinkLost, TooLarge):
            self._process.say(words)
            while (line := await self._process.line()) is not None:
                for event in () if callable(line) else program.read(line):
                    if isinstance(event, Spent):
                        await teller.tell(event)
                    elif isinstance(event, LastEvent):
                        return

    async def _ask(self, ask: Ask, key: str) -> None:
        """Ask, and slip what follows from the answer in between what the program says."""
        kernel = DaemonMcp(self._start.mcp.url, self._start.token, TrioIO())
        granted, words = False, "nobody could be asked"
        try:
            asked = await kernel.run(AUTH_REQUEST, {"tool": ask.tool, "input": ask.input}, key)
            answer = msgspec.json.decode(asked.text, type=_Answer) if not asked.is_error else _Answer(reason=asked.text)
            granted = answer.decision == "granted"
            words = answer.reason
        except (Failed, msgspec.DecodeError, RecursionError) as error:
            words = f"{words}: {error}"
        finally:
            await kernel.aclose()
        self._process.slip(partial(ask.then, granted, words))
