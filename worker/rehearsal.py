"""One conversation, played in the zygote before it forks: a scripted one, and one on Trio's loop where that is needed.

What a worker does for the first time costs it: decoders are built, code specialises itself, and each page that this
touches is copied in every worker. Done once before, workers share it.
"""

import os
import socket
from typing import Final

import msgspec

from protocol.agent import Action, MockExit, Rule
from protocol.codec import encode
from protocol.ipc import Go, Start
from worker.attempt import Connect
from worker.blank import BLANK
from worker.conversation import Conversation
from worker.main import serve
from worker.models.model import ListTools, Live, Model, Reply


def rehearse() -> None:
    """Play a script. Touches no environment, no file and no network, and leaves no descriptor behind."""
    _play(None)


def rehearse_on_trio() -> None:
    """The same with a model that is waited for on Trio's loop."""
    _play(_connect)


def _play(connect: Connect | None) -> None:
    # What the kernel would say lies ready, a frame a datagram, so that each is read when it is waited for.
    say, stdin = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    hear, stdout = os.pipe()
    with say:
        for frame in (_START, Go(k=0)):
            say.send(encode(frame))
        serve(stdin.detach(), stdout, {}, die=_die, connect=connect)
    os.close(hear)


class _TwoReplies:
    """A model of which each reply is known."""

    async def reply(self, conversation: Conversation, _allowance: int | None, live: Live) -> Reply:
        await live.delta("-")
        return Reply(stop="end_turn" if conversation.steps else "pause_turn", text="-")

    async def aclose(self) -> None:
        pass


def _connect(_start: Start, _list_tools: ListTools) -> Model:
    return _TwoReplies()


def _die(how: MockExit) -> None:
    raise AssertionError(f"the rehearsal's script has no exit: {how}")


_START: Final = msgspec.structs.replace(BLANK, mock=(Rule(do=(Action(text="-"), Action(text="-"))),))
