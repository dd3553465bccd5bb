"""One scripted conversation, played in the zygote before it forks.

What a worker does for the first time costs it: decoders are built, code specialises itself, and each page that this
touches is copied in every worker. Done once before, workers share it.
"""

import os
from typing import Final

import msgspec
import trio

from protocol.agent import Action, MockExit, Rule
from protocol.codec import FrameReader, encode
from protocol.ipc import Entry, Go
from worker.blank import BLANK
from worker.main import work

SECONDS: Final = 5.0
"""It takes some 20 ms; whatever keeps it longer must not keep the zygote."""


def rehearse() -> None:
    """Play it. Touches no environment, no file and no network, and leaves no descriptor behind."""
    trio.run(_play)


async def _play() -> None:
    stdin, say = os.pipe()
    hear, stdout = os.pipe()
    with trio.move_on_after(SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_answer, say, hear)
            await work(stdin, stdout, {}, _die)


async def _answer(say_fd: int, hear_fd: int) -> None:
    """The kernel's part: the start, and ``go`` after each entry."""
    frames: FrameReader[Entry] = FrameReader(Entry)
    async with trio.lowlevel.FdStream(say_fd) as say, trio.lowlevel.FdStream(hear_fd) as hear:
        await say.send_all(encode(_START))
        async for chunk in hear:
            for frame in frames.feed(bytes(chunk)):
                if isinstance(frame, Entry):
                    await say.send_all(encode(Go(k=frame.k)))


def _die(how: MockExit) -> None:
    raise AssertionError(f"the rehearsal's script has no exit: {how}")


_START: Final = msgspec.structs.replace(BLANK, mock=(Rule(do=(Action(text="-"), Action(text="-"))),))
