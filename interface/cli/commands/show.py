"""``awk show``: a run, or an instruction."""

import argparse
import re
from typing import Final

from interface.cli.context import Context
from interface.cli.parsing import json_flag
from interface.cli.targets import RUN
from interface.client import quoted
from interface.failure import Failure

_INSTRUCTION: Final = re.compile(r"i\d+", re.ASCII)


def configure(parser: argparse.ArgumentParser) -> None:
    """RUN or INSTRUCTION."""
    parser.add_argument(
        "id", metavar="RUN|INSTRUCTION", help="a run (r12; review:main: its last) or an instruction (i7)"
    )
    parser.add_argument("--prompt", action="store_true", help="of an instruction: what the model is told first")
    json_flag(parser)


def run(context: Context) -> int:
    """Print all that is kept of it."""
    name: str = context.args.id
    if context.args.prompt:
        if not _INSTRUCTION.fullmatch(name):
            raise Failure("usage", f"--prompt is of an instruction (i7), not of {name!r}")
        return context.answer(context.kernel().get(f"/instructions/{name}/prompt"), "prompt")
    if _INSTRUCTION.fullmatch(name):
        return context.answer(context.kernel().get(f"/instructions/{name}"), "instruction")
    run_name = name.removeprefix("@")
    run_name = run_name if ":" in run_name or RUN.fullmatch(name) else f"{run_name}:main"
    return context.answer(context.kernel().get(f"/runs/{quoted(run_name)}"), "run")
