"""How a service waits: it looks at the rows, sleeps until the next is due, and is woken by whatever changes one."""

from collections.abc import Awaitable, Callable
from typing import NoReturn

import trio

from kernel.store.feed import Wake


async def look_again(
    wake: Wake, look: Callable[[], Awaitable[float]], task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> NoReturn:
    """Call ``look`` now, when the seconds it returned have passed, and whenever ``wake`` is set; until cancelled.

    Level-triggered (fault TF09): what is set while it looks is seen by the next look.
    """
    task_status.started()
    while True:
        wake.clear()
        with trio.move_on_after(await look()):
            await wake.wait()
