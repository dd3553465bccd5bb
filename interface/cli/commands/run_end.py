"""End of ``awk run --report --rm``: write reports in every case, and stop the kernel that the command started."""

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from subprocess import TimeoutExpired
from typing import Final

from interface.cli.commands.start import stop_kernel
from interface.cli.context import Context
from interface.cli.exits import Exit, Interrupted, of_failure
from interface.cli.output import one_line
from interface.cli.reports.writing import Reports
from interface.cli.run_stream import Run
from interface.discovery import recorded_endpoint
from interface.failure import Failure, Unreachable

_STOP_SECONDS: Final = 10.0


class Ending:
    """Steps after the end of a run (reports, kernel stop), validated in advance. Raises Failure (usage)."""

    def __init__(self, context: Context) -> None:
        args = context.args
        for flag, given in (("--report", args.report), ("--rm", args.rm)):
            for other, left in (("--detach", args.detach), ("--dry-run", args.dry_run)):
                if given and left:
                    raise Failure("usage", f"{flag} cannot be combined with {other}, which does not wait for the end")
        self._context = context
        self._reports = Reports(context, args.report) if args.report else None

    def after(self, running: Run, follow: Callable[[], int]) -> int:
        """Call ``follow``, then execute all steps. Returns the exit code, or raises the error of ``follow`` again."""
        error: BaseException | None = None
        try:
            code = follow()
        except (Exception, Interrupted) as raised:  # noqa: BLE001  (it is raised again, once the rest is done)
            error, code = raised, exit_code_of(raised)
        self._context.out.speak_if_heard()
        if self._reports is not None:
            code = self._write(self._reports, running, code, error)
        if self._context.args.rm:
            end_own_kernels(self._context, running.id)
        if error is not None:
            raise error
        return code

    def _write(self, reports: Reports, running: Run, code: int, error: BaseException | None) -> int:
        if running.document is None and running.id is not None:
            with suppress(Failure, Unreachable, Interrupted):  # report without the run's final state
                running.document = running.report(self._context.find_kernel())
        try:
            reports.write(running.name or self._context.args.workflow, code, running.document, error)
        except Failure as failure:
            self._context.out.error(failure)
            return code or Exit.FAILED
        return code


def exit_code_of(raised: BaseException) -> int:
    if isinstance(raised, Interrupted):
        return raised.exit_code
    if isinstance(raised, Failure):
        return of_failure(raised.code, raised.http_status)
    if isinstance(raised, BrokenPipeError):
        return Exit.BROKEN_PIPE
    return Exit.NO_KERNEL if isinstance(raised, Unreachable) else Exit.FAILED


def end_own_kernels(context: Context, run: str | None) -> None:
    """Stop the kernels that this command started and wait for their exit. Other kernels continue.

    A started kernel also continues if it has an active run besides ``run``; the user gets a note.
    """
    for starter in context.starters:
        try:
            if (process := starter.unproved) is not None:
                process.terminate()
                process.wait(_STOP_SECONDS)
                continue
            endpoint = recorded_endpoint(context.project)
            if not starter.started_pid or endpoint is None or endpoint.pid != starter.started_pid:
                continue
            client = context.find_kernel()
            rows = json.loads(client.get("/runs", {"status": "running"}))["runs"]
            others = [row for row in rows if row["id"] != run]
            if others:
                at_work = ", ".join(one_line(str(row["run"])) for row in others)
                context.out.note(f"note: the kernel keeps running for {at_work}; stop it: {context.program} stop")
                continue
            stop_kernel(context, client, 0.0)
        except (Failure, Unreachable, Interrupted, TimeoutExpired) as error:
            context.out.note(f"note: the kernel is stopping: {str(error) or 'interrupted'}")
            with suppress(ProcessLookupError):
                if starter.started_pid:  # the child is not reaped, so its pid cannot be reused
                    os.kill(starter.started_pid, signal.SIGTERM)
