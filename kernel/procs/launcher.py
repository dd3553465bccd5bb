"""The one seam through which anything is run: ``spawn(spec) -> handle``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

import trio

from kernel.procs.exec import ExecLauncher
from kernel.procs.fork import ForkLauncher
from kernel.procs.handle import Handle
from kernel.procs.spec import Spec

VARIABLE: Final = "AGENT_WORKER_LAUNCHER"


class Launcher(Protocol):
    """Starts processes in keepers. Close the handles before ``run`` is cancelled."""

    def need(self, modules: frozenset[str]) -> None:
        """Say which of ``anthropic`` and ``openai`` workers will import, so that it can be done before they start."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; ``started`` means that ``spawn`` may be called, not that anything is preloaded."""

    async def spawn(self, spec: Spec) -> Handle:
        """Start a worker or a command in a keeper of its own. Raises SpawnTransient; FileExistsError for one in use.

        A command that cannot be executed gives a handle with pid 0 whose ``wait`` tells why. Cancellation ends what
        was started.
        """
        ...


class LauncherUnknown(ValueError):
    """AGENT_WORKER_LAUNCHER says neither fork nor exec, or fork where it is not safe."""


def choose_launcher(
    asked: str | None,
    *,
    platform: str,
    run_dir: Path,
    environ: Mapping[str, str],
    modules: frozenset[str] = frozenset(),
) -> Launcher:
    """The launcher for this machine: fork on Linux unless ``asked`` (the variable's value) is exec; exec elsewhere.

    ``environ`` is the environment of workers: no secret belongs there. Raises LauncherUnknown.
    """
    kind = asked or ("fork" if platform == "linux" else "exec")
    if kind == "exec":
        return ExecLauncher(run_dir=run_dir, environ=environ)
    if kind == "fork" and platform == "linux":
        return ForkLauncher(run_dir=run_dir, environ=environ, modules=modules)
    raise LauncherUnknown(f"{VARIABLE}={kind} is not possible on {platform}: unset it, or set it to exec")
