"""The answer to a call that may wait for a person: at once if it is there, else as a stream that is kept alive.

Clients give up on a connection that says nothing for some minutes, whatever they were told about the call; a stream
of server-sent events may say nothing in words. Its one event is the same JSON-RPC response.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from kernel.api.asgi import Fields, Receive, Send
from kernel.api.reply import COMMON, Reply, send_reply

PATIENCE_SECONDS: Final = 5.0
"""An answer within this time is an ordinary one."""
SIGN_SECONDS: Final = 20.0
"""Between two signs of life: the most impatient clients in the field wait for a minute."""
SIGN: Final = b": a person is asked\n\n"
STREAM: Final = b"text/event-stream"


async def send_when_there(answer: Callable[[], Awaitable[Reply]], fields: Fields, receive: Receive, send: Send) -> None:
    """Send what ``answer`` comes to. A client that leaves cancels it."""
    streams = STREAM in fields.get(b"accept", b"")
    replies: list[Reply] = []
    there = trio.Event()

    async def work() -> None:
        replies.append(await answer())
        there.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_when_gone, receive, nursery.cancel_scope)
        nursery.start_soon(work)
        with trio.move_on_after(PATIENCE_SECONDS if streams else float("inf")):
            await there.wait()
        if replies:
            await send_reply(replies[0], send)
        else:
            await _stream(replies, there, send)
        nursery.cancel_scope.cancel()


async def _cancel_when_gone(receive: Receive, scope: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _stream(replies: list[Reply], there: trio.Event, send: Send) -> None:
    headers = [(b"content-type", STREAM), *COMMON]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    while not replies:
        await send({"type": "http.response.body", "body": SIGN, "more_body": True})
        with trio.move_on_after(SIGN_SECONDS):
            await there.wait()
    event = b"event: message\ndata: " + replies[0].body + b"\n\n"
    await send({"type": "http.response.body", "body": event})
