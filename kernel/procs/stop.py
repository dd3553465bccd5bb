"""The stop ladder: time to leave, SIGTERM to the tree, SIGKILL, and at last without the keeper's help.

Asking comes first and is not done here: whoever speaks the worker's protocol has sent its stop frame.
"""

from typing import Final

import trio

from kernel.procs.handle import Handle
from protocol.ipc import Exited

TERM_SECONDS: Final = 5.0
"""Between SIGTERM and SIGKILL."""
VERIFY_SECONDS: Final = 2.0
"""After SIGKILL; then the keeper itself is stuck."""


async def stop(handle: Handle, *, grace_seconds: float, term_seconds: float = TERM_SECONDS) -> Exited:
    """Return how it ended, at most ``grace + term + VERIFY_SECONDS`` (and the end of what is stuck) from now.

    Cancellation leaves the ladder where it stands: closing the handle goes on from there.
    """
    with trio.move_on_after(max(grace_seconds, 0.0)):
        return await handle.wait()
    await handle.kill(after_seconds=term_seconds)
    with trio.move_on_after(term_seconds + VERIFY_SECONDS):
        return await handle.wait()
    return await handle.destroy()
