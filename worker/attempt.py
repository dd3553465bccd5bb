"""One attempt: a conversation, a model, the tools, the loop; and how its end is told. Knows no event loop.

Before a tool of the worker's own runs, the kernel is asked, or somebody it asks. Asking holds nothing up here: while
nobody has decided the outcome is ``pending``, the work is put back, and the next attempt asks again by the same key.
What an answer means is read here, what it is decided there.
"""

import traceback
from collections.abc import Callable, Mapping
from typing import Any

from protocol.ipc import Error, Result, Start, ToolCall
from protocol.names import is_personal
from protocol.tools import AUTH_REQUEST, ON_DEMAND
from worker.conversation import Conversation
from worker.daemon_mcp import DaemonMcp
from worker.entry_limits import TooLarge
from worker.io.base import WorkerIO
from worker.kernel_link import Link, LinkLost, Stopped, secrets_of
from worker.loop import run
from worker.models.errors import Failed
from worker.models.model import ListTools, Model
from worker.tool import BuiltinTool, FileClaims, Outcome, Permission, ToolRunners, ToolSpec


class UnknownTool:
    """Stands for auth_request where a model calls it: it is not offered, and what asks for a model's calls is here.

    A person would read words that the model chose, of a call that nothing makes.
    """

    async def run(self, name: str, args: dict[str, Any], key: str) -> Outcome:
        """Refuse, and ask nobody."""
        return Outcome(f"{name} is not for you to call: call the tool itself, it is asked about where needed", True)


Connect = Callable[[Start, ListTools], Model]
"""Makes the model of an attempt. Raises Failed."""


async def attempt(
    start: Start, link: Link, waits: WorkerIO, connect: Connect, own: Mapping[str, BuiltinTool]
) -> Result | Error | None:
    """The terminal frame; None where nobody is left to hear it. ``own`` are the tools that are not the kernel's."""
    conversation: Conversation | None = None
    link.hide(secrets_of(start))
    try:
        conversation = Conversation(start)
        begun = conversation.last if start.interrupted and conversation.pending else None
        reach = ToolAccess(start, waits, own, doubtful="" if begun is None else begun.pending_key)
        model = connect(start, reach.offered)
        try:
            return await run(
                conversation=conversation,
                model=model,
                hands=reach,
                limits=start.limits,
                link=link,
                allowance=start.allowance,
            )
        finally:
            await model.aclose()
            await reach.aclose()
    except (LinkLost, Stopped):
        return None
    except (Failed, TooLarge) as error:
        return error_frame(error, conversation)
    except Exception as error:  # noqa: BLE001  (the boundary: a bug of ours becomes a crash the kernel can name)
        return crash_frame(error)


def crash_frame(error: Exception) -> Error:
    """Report a bug of ours that is being handled to the kernel; standard error has the traceback."""
    traceback.print_exc()
    return Error(cause="crash", text=f"the worker failed: {type(error).__name__}: {error}")


class ToolAccess:
    """The kernel's tools and ours. Connected when something is called, for much work calls nothing."""

    def __init__(self, start: Start, waits: WorkerIO, own: Mapping[str, BuiltinTool], doubtful: str) -> None:
        self._start = start
        self._waits = waits
        self._own = own
        self._doubtful = doubtful
        self._kernel: DaemonMcp | None = None
        self._hands: ToolRunners | None = None

    async def offered(self) -> tuple[ToolSpec, ...]:
        """The tools for a model: the kernel's, without those that are not switched on, then ours. Raises Failed."""
        switched_on = {"", *self._start.tools}
        theirs = (one for one in await self._connection().tools() if ON_DEMAND.get(one.name, "") in switched_on)
        return *theirs, *(tool.spec for tool in self._own.values() if tool.spec is not None)

    async def run(self, call: ToolCall, key: str) -> Outcome:
        """Run ``call``. Raises Failed."""
        if self._hands is None:
            kernel = self._connection()
            self._hands = ToolRunners(
                kernel=kernel,
                own={**self._own, AUTH_REQUEST: BuiltinTool(hand=UnknownTool())},
                seconds=self._start.limits.tool_seconds,
                waits=self._waits,
                doubtful=self._doubtful,
                permits=Permission(self._start.approval, kernel),
                claims=None if is_personal(self._start.space) else FileClaims(kernel, self._start.agent),
            )
        return await self._hands.run(call, key)

    async def aclose(self) -> None:
        """Close the connection, if there is one."""
        if self._kernel is not None:
            await self._kernel.aclose()

    def _connection(self) -> DaemonMcp:
        if self._kernel is None:
            self._kernel = DaemonMcp(self._start.mcp.url, self._start.token, self._waits)
        return self._kernel


def error_frame(error: Failed | TooLarge, conversation: Conversation | None) -> Error:
    """Return the terminal frame of a failure, with the text of the reply until then."""
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
