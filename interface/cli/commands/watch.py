"""``awk watch r12``: a run that somebody else began, to its end, as ``run`` shows it; with its exit code if asked for.

It is not ours: Ctrl-C, a closed terminal or a pipe that breaks end only the watching. Starts nothing. A kernel that
is replaced meanwhile is found again.
"""

import argparse
import json

from interface.cli.commands.run import follow
from interface.cli.context import Context
from interface.cli.exits import Exit, Interrupted, interruptible
from interface.cli.output import one_line
from interface.cli.parsing import json_flag, jsonl_flag
from interface.cli.run_stream import Run
from interface.cli.targets import RUN, target
from interface.client import quoted
from interface.failure import Failure


def configure_watch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="RUN|@WORKFLOW[:TAG]", help="a run (r12), or the newest of a workflow (@review[:tag])"
    )
    parser.add_argument("--exit-status", action="store_true", help="end with the exit code that run would have had")
    json_flag(parser)
    jsonl_flag(parser)
    parser.set_defaults(fail_on="error", detach=True)  # as of run: somebody comes back to what needs an approval


def run_watch(context: Context) -> int:
    named: str = context.args.target
    if not RUN.fullmatch(named):
        asked = target(named)
        if asked.workflow is None or asked.agent is not None:
            hint = f"{context.program} attach {named} watches an agent work"
            raise Failure("bad_target", f"{one_line(named)} is no run and no workflow", hint)
        named = str(asked.space)
    report = json.loads(context.kernel().get(f"/runs/{quoted(named)}"))
    running = Run(context, connect=context.find_kernel)
    running.name, running.id = str(report["run"]), str(report["id"])
    with interruptible():
        try:
            code = follow(context, running.resume(None))
        except Interrupted as interrupted:
            context.out.note(f"note: {running.id} goes on; {context.program} watch {running.id}")
            return interrupted.exit_code
    return code if context.args.exit_status else Exit.OK
