"""Setup steps: shell commands before the kickoff, each in a keeper, bounded in time and output (CF15, T49)."""

import itertools
import os
from collections.abc import Mapping
from typing import Final

from kernel.procs.command import CommandResult, run_command
from kernel.procs.launcher import Launcher
from kernel.procs.spec import SpawnTransient
from kernel.source.scalars import show_duration
from kernel.workflows.templates import expand_shell
from protocol.errors import Refused
from protocol.workflow import SetupStep

OUTPUT_LIMIT_BYTES: Final = 256 * 1024
VALUE_LIMIT_BYTES: Final = 120_000
"""Of one value in a command: Linux refuses a string of the environment over 131,071 bytes."""

_TAIL_LINES: Final = 20
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


def _failed(index: int, step: SetupStep, why: str, stderr: bytes = b"") -> Refused:
    command = " ".join(step.shell.split())
    shown = command if len(command) <= 100 else f"{command[:97]}..."
    said = "\n".join(stderr.decode("utf-8", "replace").strip().splitlines()[-_TAIL_LINES:])
    return Refused("setup_failed", f"setup[{index}] failed: {why}: {shown}", f"it said:\n{said}" if said else None)
