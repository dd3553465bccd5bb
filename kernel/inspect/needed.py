"""The need of a project for a kernel, once its own has ended: by what is in its log and its file. Changes nothing."""

from pathlib import Path

from kernel.agents.catalog import Catalog
from kernel.policy.idle import kept_by
from kernel.store.checkup import left_over
from protocol.discovery import DATABASE
from protocol.errors import Refused
from protocol.inspection import NeededKernel

BY_A_PERSON = "request"
"""Who asked a kernel to end, where ``awk stop`` or another client did. Else it is the name of a signal."""


def needed_kernel(root: Path, state: Path) -> NeededKernel:
    """Say it. One that somebody stopped is not needed, whatever it left: whoever wants it starts it. Blocks."""
    found = left_over(str(state / DATABASE)) if (state / DATABASE).exists() else None
    if found is None:
        return NeededKernel(needed=False, why="there is no log of a kernel of this version")
    if found.stopped_by == BY_A_PERSON:
        return NeededKernel(needed=False, why="somebody stopped it")
    try:
        hooks = bool(Catalog(root, Path.home()).project().hooks)
    except Refused:
        hooks = False  # a kernel would not start with that file
    why = kept_by(found.outstanding, requests=0, hooks=hooks)
    return NeededKernel(needed=why is not None, why=why or "nothing is left to do")
