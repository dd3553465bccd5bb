"""Fetches workflows of other repositories to look at them: as a kernel would, and kept where it would keep them.

Nothing of what is fetched is run or believed, and nothing is pinned: that comes with the first run. The programs that
fetch are launched without a kernel, for as long as something is looked up.
"""

import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from kernel.procs.exec import ExecLauncher
from kernel.workflows.checkouts import Checkout
from kernel.workflows.remote import Remotes
from protocol.errors import Refused
from protocol.remote_ref import is_remote


@asynccontextmanager
async def open_launcher(run_dir: Path, environ: Mapping[str, str]) -> AsyncGenerator[ExecLauncher]:
    """A launcher that works in ``run_dir``. What is refused meanwhile is raised as it is, and in no group."""
    refused: Refused | None = None
    async with trio.open_nursery() as nursery:
        launcher = ExecLauncher(run_dir=run_dir, environ=environ)
        await nursery.start(launcher.run)
        try:
            yield launcher
        except Refused as error:
            refused = error
        nursery.cancel_scope.cancel()
    if refused is not None:
        raise refused


def fetch_readonly(root: Path, state: Path | None, asked: str, environ: Mapping[str, str]) -> Checkout | None:
    """The files that ``asked`` names, in the state directory ``state``; None where it names something of the project.

    Raises Refused (bad_request, fetch_failed), BadDefinition for a lock that is wrong.
    """
    if not is_remote(asked):
        return None
    if state is None:
        raise Refused("bad_request", f"{asked[:100]} is not here", "say where to keep it: --state DIR")
    return trio.run(_fetch, root, state, asked, environ)


async def _fetch(root: Path, state: Path, asked: str, environ: Mapping[str, str]) -> Checkout:
    with tempfile.TemporaryDirectory(prefix="awk-fetch-") as run_dir:
        async with open_launcher(Path(run_dir), environ) as launcher:
            remotes = Remotes(state, root, launcher=launcher, environ=environ, own_bin=frozenset())
            return await remotes.checkout(asked)
