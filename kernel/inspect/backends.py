"""``backends``: backends that can run an agent here, without a kernel. Programs are run by keepers of this process."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from kernel.agents.backends import probe_backends
from kernel.agents.environment import worker_environment
from kernel.inspect.fetch import open_launcher
from kernel.procs.command import VersionProbes
from protocol.api.kernel import BackendList


def backends(environ: Mapping[str, str]) -> BackendList:
    """As ``GET /backends`` of a kernel with this ``environ`` would answer."""
    env = worker_environment(environ, own_bin=frozenset({os.path.dirname(sys.executable)}))
    return trio.run(_survey, env)


async def _survey(env: dict[str, str]) -> BackendList:
    with TemporaryDirectory(prefix="agent-worker-") as folder:
        async with open_launcher(Path(folder), env) as launcher:
            return BackendList(backends=await probe_backends(env, VersionProbes(launcher, Path(folder)).ask))
