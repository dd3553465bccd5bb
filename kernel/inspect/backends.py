"""``backends``: backends that can run an agent here, without a kernel. Programs are run by keepers of this process."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from kernel.agents.backends import command_of, probe_backends
from kernel.agents.environment import worker_environment
from kernel.agents.providers import CauseError
from kernel.inspect.fetch import open_launcher
from kernel.procs.command import VersionProbes
from protocol.agent import AgentDefinition
from protocol.api.kernel import BackendList
from protocol.backends import COMMANDED, acp_program
from protocol.inspection import DoctorRow


def backends(environ: Mapping[str, str]) -> BackendList:
    """As ``GET /backends`` of a kernel with this ``environ`` would answer."""
    env = worker_environment(environ, own_bin=frozenset({os.path.dirname(sys.executable)}))
    return trio.run(_survey, env)


async def _survey(env: dict[str, str]) -> BackendList:
    with TemporaryDirectory(prefix="agent-worker-") as folder:
        async with open_launcher(Path(folder), env) as launcher:
            return BackendList(backends=await probe_backends(env, VersionProbes(launcher, Path(folder)).ask))


def program_rows(definitions: Iterable[AgentDefinition], root: Path, path: str) -> Iterator[DoctorRow]:
    """Yield the program of each agent whose file names one. No program is run: one of the project may need trust."""
    for one in definitions:
        if one.backend not in COMMANDED or not one.command:
            continue
        try:
            program = command_of(one, root, path)[0]
        except CauseError as error:
            yield DoctorRow(check="backends", ok=False, detail=error.text, fix="install it, or correct command:")
            continue
        tested = acp_program(one.command).tested
        known = f", tested with version {tested}" if tested and one.backend == "acp" else ""
        yield DoctorRow(check="backends", ok=True, detail=f"{one.name} runs {program}{known}")
