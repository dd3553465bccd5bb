"""``python -I -m kernel.inspect.needed``: whether a project needs a kernel after its own has exited.

A separate process, so that a service started before an upgrade uses the installed version. Changes nothing.
"""

import argparse
import sys
from pathlib import Path

from kernel.agents.catalog import Catalog
from kernel.store.checkup import kept_by, left_over
from protocol.discovery import DATABASE
from protocol.errors import Refused
from protocol.inspection import NeededKernel
from protocol.text import encode_json

BY_A_PERSON = "request"
"""Origin of a stop by ``awk stop`` or another client; otherwise the name of a signal."""


def needed_kernel(root: Path, state: Path) -> NeededKernel:
    """Return whether a kernel is needed: never after a user stopped the last one. Blocks."""
    found = left_over(str(state / DATABASE)) if (state / DATABASE).exists() else None
    if found is None:
        return NeededKernel(needed=False, why="no log of this version found")
    if found.stopped_by == BY_A_PERSON:
        return NeededKernel(needed=False, why="a user stopped it")
    try:
        hooks = bool(Catalog(root, Path.home()).project().hooks)
    except Refused:
        hooks = False  # a kernel would not start with that file
    why = kept_by(found.outstanding, requests=0, hooks=hooks)
    return NeededKernel(needed=why is not None, why=why or "no work is left")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="kernel.inspect.needed", allow_abbrev=False)
    for name in ("--project", "--state"):
        parser.add_argument(name, type=Path, required=True)
    args = parser.parse_args()
    sys.stdout.buffer.write(encode_json(needed_kernel(args.project, args.state)))
