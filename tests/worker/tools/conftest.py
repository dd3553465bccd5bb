"""Tools of an attempt in a folder of its own."""

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from worker.tool import BuiltinTool, ToolOutcome

Use = Callable[..., Awaitable[ToolOutcome]]


async def use(own: BuiltinTool, **args: Any) -> ToolOutcome:
    """One call, which has to end within seconds."""
    assert own.spec is not None
    with trio.fail_after(10):
        return await own.hand.run(own.spec.name, args, "k")
