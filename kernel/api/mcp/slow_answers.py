"""Answers that take as long as a person does.

Clients give up on a connection that says nothing for some minutes, whatever they were told about the call. So an
answer that is not there at once is a stream of server-sent events: signs of life, and then one event with the same
JSON-RPC response.
"""

from collections.abc import Awaitable, Callable

import trio

from kernel.api.requests import Fields, Receive, Send
from kernel.api.responses import COMMON, send_reply
from kernel.operations.answer import Response

PATIENCE_SECONDS = 5.0
"""An answer within this time is an ordinary one."""
SIGN_SECONDS = 20.0
"""Between two signs of life: the most impatient clients in the field wait for a minute."""
SIGN = b": a person is asked\n\n"
STREAM = b"text/event-stream"


async def send_or_stream(
    answer: Callable[[], Awaitable[Response]], fields: Fields, receive: Receive, send: Send
) -> None:
    """Send what ``answer`` gives: at once if it is there soon, else as a stream. A client that leaves cancels it."""
    streams = STREAM in fields.get(b"accept", b"")
    replies: list[Response] = []
    there = trio.Event()

    async def work() -> None:
        replies.append(await answer())
        there.set()

    async def cancel_when_gone(scope: trio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel_when_gone, nursery.cancel_scope)
        nursery.start_soon(work)
        with trio.move_on_after(PATIENCE_SECONDS if streams else float("inf")):
            await there.wait()
        if replies:
            await send_reply(replies[0], send)
        else:
            headers = [(b"content-type", STREAM), *COMMON]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            while not replies:
                await send({"type": "http.response.body", "body": SIGN, "more_body": True})
                with trio.move_on_after(SIGN_SECONDS):
                    await there.wait()
            event = b"event: message\ndata: " + replies[0].body + b"\n\n"
            await send({"type": "http.response.body", "body": event})
        nursery.cancel_scope.cancel()
