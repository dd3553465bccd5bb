"""``awk df``: what of the project's state takes room. Asks no kernel, starts none, and changes nothing."""

import argparse
import json
from typing import Any, Final

from interface.cli.context import Context
from interface.cli.output import Screen, one_line, table
from interface.cli.parsing import json_flag
from interface.failure import Failure
from interface.offline import run_inspect

SECONDS: Final = 600.0
RUNS: Final = 10
MOST_RUNS: Final = 1_000_000


def configure_df(parser: argparse.ArgumentParser) -> None:
    """How many runs are told."""
    parser.add_argument("-n", type=int, default=RUNS, metavar="N", help="so many runs at most (0: all)")
    json_flag(parser)


def run_df(context: Context) -> int:
    """Print it, the largest first."""
    if context.args.n < 0:
        raise Failure("usage", "-n takes a number from 0 on")
    root, state = context.project
    words = ("--project", root, "--state", state, str(min(context.args.n, MOST_RUNS) or MOST_RUNS))
    return context.answer(run_inspect(context.environ, "df", *words, seconds=SECONDS), df_lines)


def df_lines(body: bytes, screen: Screen) -> list[str]:
    """A line for each thing and each run, and how many runs are left out."""
    told: dict[str, Any] = json.loads(body)
    rows = [[row["group"], one_line(row["what"]), _size(row["bytes"]), row["way"] or ""] for row in told["rows"]]
    lines = table(["GROUP", "WHAT", "SIZE", "LESS OF IT"], rows, screen, right=frozenset({"SIZE"}))
    runs = [
        [run["id"], one_line(run["run"]), run["state"], _size(run["log_bytes"]), _size(run["tree_bytes"])]
        for run in told["runs"]
    ]
    if runs:
        lines += ["", *table(["ID", "RUN", "STATE", "LOG", "TREES"], runs, screen, right=frozenset({"LOG", "TREES"}))]
    if told["more_runs"]:
        lines.append(f"{told['more_runs']} more runs: -n 0 shows all")
    return [*lines, one_line(f"{_size(told['total_bytes'])} in all, of {told['state']}")]


def _size(count: int) -> str:
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
