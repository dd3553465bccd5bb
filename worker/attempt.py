"""One attempt: a conversation, a model, the tools, the loop; and how its end is told. Knows no event loop."""

import traceback
from collections.abc import Callable, Mapping

from protocol.ipc import Error, Result, Start
from worker.conversation import Conversation
from worker.fit import TooLarge
from worker.link import Link, LinkLost, Stopped
from worker.loop import run
from worker.mcp import DaemonMcp
from worker.models.errors import Failed
from worker.models.model import ListTools, Model
from worker.tool import Hand, Hands
from worker.waits import Waits

Connect = Callable[[Start, ListTools], Model]
"""Makes the model of an attempt. Raises Failed."""


async def attempt(
    start: Start, link: Link, waits: Waits, connect: Connect, own: Mapping[str, Hand]
) -> Result | Error | None:
    """The terminal frame; None where nobody is left to hear it. ``own`` are the tools that are not the kernel's."""
    conversation: Conversation | None = None
    try:
        conversation = Conversation.of(start)
        return await _play(start, conversation, link, waits, connect, own)
    except (LinkLost, Stopped):
        return None
    except (Failed, TooLarge) as error:
        return _error(error, conversation)
    except Exception as error:  # noqa: BLE001  (the boundary: a bug of ours becomes a crash the kernel can name)
        traceback.print_exc()
        return Error(cause="crash", text=f"the worker failed: {type(error).__name__}: {error}")


async def _play(
    start: Start, conversation: Conversation, link: Link, waits: Waits, connect: Connect, own: Mapping[str, Hand]
) -> Result:
    kernel = DaemonMcp(start.mcp.url, start.token, waits)
    hands = Hands(kernel=kernel, own=own, seconds=start.limits.tool_seconds, waits=waits)
    model = connect(start, kernel.tools)
    try:
        return await run(
            conversation=conversation,
            model=model,
            hands=hands,
            limits=start.limits,
            link=link,
            allowance=start.allowance,
        )
    finally:
        await model.aclose()
        await kernel.aclose()


def _error(error: Failed | TooLarge, conversation: Conversation | None) -> Error:
    partial = conversation.text if conversation else ""
    if isinstance(error, TooLarge):
        return Error(cause="resource", text=str(error), partial=partial)
    return Error(
        cause=error.cause,
        text=error.text,
        http_status=error.http_status,
        retry_after=error.retry_after_seconds,
        code=error.code,
        partial=partial,
        fired=error.fired,
    )
