"""Commands of a workflow's file and of tasks: setup steps before the kickoff, and checks. Each is run in a keeper,
bounded in time and output (CF15, T49)."""

import itertools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import trio

from kernel.procs.command import CommandResult, run_command
from kernel.procs.launcher import Launcher
from kernel.procs.spec import SpawnTransient
from kernel.source.scalars import show_duration
from kernel.workflows.templates import expand_shell
from protocol.errors import Refused
from protocol.ipc import Bound, Sandbox
from protocol.workflow import SetupStep

OUTPUT_LIMIT_BYTES: Final = 256 * 1024
VALUE_LIMIT_BYTES: Final = 120_000
"""Of one value in a command: Linux refuses a string of the environment over 131,071 bytes."""

_TAIL_LINES: Final = 20
_NOT_FOUND: Final = 127
"""Exit code of a shell whose command is not installed."""
_numbers: Final = itertools.count(1)
"""Attempt directories of setup commands are distinct for the life of a kernel, which sweeps older ones."""


async def run_setup(
    steps: tuple[SetupStep, ...],
    values: Mapping[str, str],
    *,
    launcher: Launcher,
    cwd: str,
    env: Mapping[str, str],
) -> dict[str, str]:
    """Run ``steps`` in order; ``values`` and the outputs that steps bound, as text without final newlines.

    Raises Refused(setup_failed) at the first step that fails. Cancellation kills the running command's tree.
    """
    known = dict(values)
    for index, step in enumerate(steps):
        text = expand_shell(step.shell, known)
        for name, value in text.environment.items():
            if len(os.fsencode(value)) > VALUE_LIMIT_BYTES:
                raise _failed(index, step, f"a value in it is longer than {VALUE_LIMIT_BYTES} bytes ({name})")
        try:
            result = await run_command(
                launcher,
                f"setup-{next(_numbers)}",
                ("/bin/sh", "-c", text.command),
                cwd=cwd,
                env={**env, **text.environment},
                timeout_seconds=step.timeout,
                output_limit_bytes=OUTPUT_LIMIT_BYTES,
            )
        except SpawnTransient as error:
            raise Refused("busy", f"setup[{index}] could not be started now: {error}", "try again") from error
        fault = command_fault(result, step.timeout, OUTPUT_LIMIT_BYTES)
        if fault is not None:
            if result.exit.code != _NOT_FOUND and await trio.to_thread.run_sync(_lacks_repository, step.shell, cwd):
                name = values.get("workflow.name", "")
                message = f"Workflow {name!r} needs a git repository: setup step {index + 1} ({_shown(step)}) failed"
                raise Refused("setup_failed", message, "Run: git init")
            raise _failed(index, step, fault, result.stderr_tail)
        if step.bind is not None:
            try:
                printed = result.stdout.decode("utf-8")
            except UnicodeDecodeError as error:
                raise _failed(index, step, "what it printed is not UTF-8 text") from error
            if "\0" in printed:
                raise _failed(index, step, "what it printed is not text: it holds a NUL")
            known[step.bind] = printed.rstrip("\n")
    return known


CHECK_SECONDS: Final = 1800.0
CHECK_OUTPUT_BYTES: Final = 4 * 1024 * 1024
OUTPUT_SHOWN: Final = 8 * 1024
"""The end of what a check printed."""


class CheckRun(msgspec.Struct, frozen=True):
    """The way a check is run: by ``launcher``, in a directory called ``name``, in ``env``, within ``bound``."""

    launcher: Launcher
    name: str
    env: Mapping[str, str]
    bound: Bound


class CheckOutcome(msgspec.Struct, frozen=True):
    """The reason why a check failed; None: it did not. ``output``: the end of what it printed."""

    why: str | None
    output: str = ""


async def run_check(run: CheckRun, command: str, cwd: str, sandbox: Sandbox | None) -> CheckOutcome:
    """Run ``command`` in ``cwd``, in a keeper of its own. Raises SpawnTransient. Cancellation kills its tree."""
    result = await run_command(
        run.launcher,
        run.name,
        ("/bin/sh", "-c", f"exec 2>&1\n{command}"),
        cwd=cwd,
        env=dict(run.env),
        timeout_seconds=CHECK_SECONDS,
        output_limit_bytes=CHECK_OUTPUT_BYTES,
        sandbox=sandbox,
        memory_bytes=run.bound.memory_bytes,
        processes=run.bound.processes,
    )
    fault = command_fault(result, CHECK_SECONDS, CHECK_OUTPUT_BYTES)
    if fault is None:
        return CheckOutcome(None)
    said = (result.stdout + result.stderr_tail)[-OUTPUT_SHOWN:].decode("utf-8", "replace")
    return CheckOutcome(f"the check failed: {fault}: {' '.join(command.split())[:100]}", said)


def command_fault(result: CommandResult, timeout_seconds: float, limit_bytes: int) -> str | None:
    """The reason why a user's command failed; None where it did not."""
    if result.timed_out:
        return f"it did not end within {show_duration(timeout_seconds)}"
    if result.truncated:
        return f"it printed more than {limit_bytes // 1024} KiB"
    if result.exit.failed is not None:
        return f"it could not be started ({result.exit.failed})"
    if result.exit.exceeded is not None:
        return f"it was ended: {result.exit.exceeded}"
    if result.exit.signal is not None:
        return f"signal {result.exit.signal} ended it"
    return f"exit code {result.exit.code}" if result.exit.code else None


def _lacks_repository(command: str, cwd: str) -> bool:
    """Return whether ``command`` is git's and ``cwd`` is in no repository. Blocks."""
    real = Path(os.path.realpath(cwd))
    return command.split()[:1] == ["git"] and not any((top / ".git").exists() for top in (real, *real.parents))


def _shown(step: SetupStep) -> str:
    command = " ".join(step.shell.split())
    return command if len(command) <= 100 else f"{command[:97]}..."


def _failed(index: int, step: SetupStep, why: str, stderr: bytes = b"") -> Refused:
    said = "\n".join(stderr.decode("utf-8", "replace").strip().splitlines()[-_TAIL_LINES:])
    return Refused(
        "setup_failed", f"setup[{index}] failed: {why}: {_shown(step)}", f"it said:\n{said}" if said else None
    )
