"""Warm-up in the zygote before it forks: an order to a keeper, a scripted conversation, and one on Trio.

Code that runs for the first time creates decoders, and CPython specializes it after eight runs. Each page
that this writes would be copied in every worker. After a warm-up, workers share these pages.
"""

import os
import socket
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from protocol.agent import Action, MockExit, Rule
from protocol.ipc import Entry, Fork, Go
from protocol.ndjson import encode
from worker.conversation import Conversation
from worker.fork.keeper import Keeper, KernelSocket
from worker.main import serve
from worker.models.model import BLANK, StreamSink
from worker.process_tree import ChildSignal

TIMES: Final = 12
"""Number of runs of a warm-up, a few more than CPython needs to specialize code."""


def warm_up() -> None:
    """Play a script without environment, files and network; leave no descriptor open."""
    for _ in range(TIMES):
        _play(_START, _GO)
        rehearse()


def rehearse() -> None:
    """Play a script of one reply: a standby worker that has copied its pages then replies in 0.2 ms instead of 0.6."""
    stdin, say = os.pipe()
    os.write(say, _LINE)
    os.close(say)
    serve(stdin, os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), {}, die=_die)


def warm_up_keeper() -> None:
    """Execute an order as a keeper does, for a worker that exits at once. Changes the name of this process.

    Saves 200 KiB of private memory in each keeper.
    """
    for _ in range(TIMES):
        kernel, lifeline = socket.socketpair()
        stdin, keep = os.pipe()
        hear, stdout = os.pipe()
        keeper = Keeper(KernelSocket(lifeline.detach()), ChildSignal(), lambda _order, _receive, _send: 0)
        keeper.serve(_ORDER, (stdin, stdout, os.dup(stdout)))
        keeper.close()
        kernel.close()
        os.close(keep)
        os.close(hear)


def warm_up_trio() -> None:
    """Play a script with a model on Trio's loop."""
    for _ in range(TIMES):
        _play(_START, on_trio=True)


def _play(*frames: bytes, on_trio: bool = False) -> None:
    # The kernel's frames are sent in advance, one per datagram, so that each is read when needed.
    say, stdin = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    hear, stdout = os.pipe()
    with say:
        for frame in frames:
            say.send(frame)
        model = _TwoReplies(say, hear)
        serve(stdin.detach(), stdout, {}, die=_die, connect=(lambda _start, _list_tools: model) if on_trio else None)
    os.close(hear)


class _TwoReplies:
    """A model with two fixed replies. After the first, it sends the kernel's answer to the recorded entry.

    The answer cannot be sent in advance: an answer that arrives before its entry is ignored.
    """

    def __init__(self, say: socket.socket, hear: int) -> None:
        self._say = say
        self._hear = hear

    async def reply(self, conversation: Conversation, allowance: int | None, live: StreamSink) -> Entry:
        import trio  # noqa: PLC0415  (loaded by who rehearses this)

        if not conversation.steps:
            trio.lowlevel.spawn_system_task(self._answer, trio.lowlevel.wait_readable)
        await live.delta("-")
        stop = "end_turn" if conversation.steps else "pause_turn"
        return Entry(k=conversation.next_k, kind="reply", stop_reason=stop, text="-")

    async def _answer(self, wait_readable: Callable[[int], Awaitable[None]]) -> None:
        said = b""
        while b'"entry"' not in said:
            await wait_readable(self._hear)
            said += os.read(self._hear, 65536)
        self._say.send(_GO)  # not earlier: it would be ignored

    async def aclose(self) -> None:
        pass


def _die(how: MockExit) -> None:
    raise AssertionError(f"the rehearsal's script has no exit: {how}")


_LINE, _START = (encode(msgspec.structs.replace(BLANK, mock=(Rule(do=(Action(text="-"),) * n),))) for n in (1, 2))
_GO: Final = encode(Go(k=0))
_ORDER: Final = Fork(attempt="rehearsal", lock=os.devnull, cookie="")
