"""``awk start``: boot the kernel, and with a FILE or NAME a workflow that stays until it is stopped."""

import argparse
import json
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from types import FrameType
from typing import Any, Final

from interface.cli.act import left_behind_lines
from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import one_line
from interface.cli.parsing import continue_flag, tag_flag, trust_flag, update_flag
from interface.cli.prompts import with_trust
from interface.client import Client, new_key
from interface.failure import Failure, Unreachable

_PASSED_ON: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def configure_start(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "workflow", metavar="FILE|NAME", nargs="?", help="a workflow to start (default: only the kernel)"
    )
    tag_flag(parser)
    trust_flag(parser)
    update_flag(parser)
    continue_flag(parser)
    parser.add_argument("--foreground", action="store_true", help="stay, log to stderr, end with the kernel")


def run_start(context: Context) -> int:
    if context.params and context.args.workflow is None:
        raise Failure("usage", "parameters after -- need a workflow to go to")
    workflow = None if context.args.workflow is None else context.workflow(context.args.workflow)
    if context.args.foreground:
        return run_in_foreground(context, workflow)
    if workflow is None and context.args.trust:
        with suppress(Unreachable):
            context.find_kernel().close()
            again = f"to trust the project's files: {context.program} stop, then {context.program} start --trust"
            context.out.note(f"note: a kernel runs already, and --trust changes nothing for it; {again}")
    client = context.started_kernel(*_flags(context, workflow))
    context.out.lines([f"kernel {client.endpoint.pid or ''} at http://{client.endpoint.address.authority}"])
    if workflow is not None:
        _start_workflow(context, client, workflow)
    return Exit.OK


def run_in_foreground(context: Context, workflow: str | None) -> int:
    from interface.autostart import Starter, command, kernel_environment  # noqa: PLC0415  (needs subprocess)

    try:
        running = context.find_kernel()
    except Unreachable:
        pass
    else:
        text = f"a kernel already runs (pid {running.endpoint.pid})"
        raise Failure("already_running", text, f"stop it first: {context.program} stop")
    environ = kernel_environment(context.environ, context.project)
    argv = command(context.project, "--foreground", *_flags(context, workflow))
    with subprocess.Popen(argv, cwd=context.project.root, env=environ, umask=0o077, process_group=0) as kernel:
        passed_on = pass_on_signals(kernel)
        try:
            starter = Starter(context.project, context.environ, context.clock, context.out.note, child=kernel)
            client = starter.client()
            if workflow is not None:
                _start_workflow(context, client, workflow)
            client.close()
        except (Failure, Unreachable):
            if not passed_on:  # else it ends as it was told to, before we had found it
                kernel.terminate()
                raise
        # Its exit code. As process 1 of a container we are left every orphan, and have to reap them meanwhile.
        while os.getpid() == 1 and kernel.returncode is None:
            pid, status = os.waitpid(-1, 0)
            if pid == kernel.pid:
                kernel.returncode = os.waitstatus_to_exitcode(status)
        code = kernel.wait()
    return code if code >= 0 else 128 - code


def _flags(context: Context, workflow: str | None) -> tuple[str, ...]:
    """Trust in a kernel that is started is for as long as it runs; with a workflow it is for that start."""
    return ("--trust",) if workflow is None and context.trusts else ()


def _start_workflow(context: Context, client: Client, workflow: str) -> None:
    body = {"workflow": workflow, "tag": context.args.tag, "params": context.params, "trust": context.trusts}
    body |= {"update": True} if context.args.update else {}
    body |= {"continue": True} if context.args.go_on else {}

    def post(asked: Mapping[str, object]) -> bytes:
        return client.post("/workflows", asked, key=new_key(), wait_seconds=None)

    row: dict[str, Any] = json.loads(with_trust(context, body, post))
    context.out.notes(left_behind_lines(row))
    members = ", ".join(str(name) for name in row.get("members", ()))
    context.out.lines([one_line(f"{row['name']}:{row['tag']} runs: {members}")])


def pass_on_signals(kernel: "subprocess.Popen[bytes]") -> list[int]:
    """Send the kernel the signals that reach us: it has a process group of its own, which no terminal signals.

    Returns a list that grows by each.
    """
    passed_on: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        passed_on.append(number)
        kernel.send_signal(number)

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    return passed_on
