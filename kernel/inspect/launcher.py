"""A launcher of programs for a process without a kernel, which runs for as long as something is looked up."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from kernel.procs.exec import ExecLauncher
from protocol.errors import Refused


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
