"""``awk agent memory NAME tray``: what an agent may want to remember of its runs, until somebody takes it."""

import argparse

from interface.cli.context import Context
from interface.cli.output import Screen, one_line, table
from interface.client import new_key, quoted
from interface.failure import Failure
from protocol.api.souls import TrayReport


def configure_tray(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("verdict", metavar="approve|reject", nargs="?", choices=("approve", "reject"), help="decide")
    parser.add_argument("item", metavar="PROPOSED", nargs="?", help="as awk needs shows it: t1")


def run_tray(context: Context) -> int:
    args = context.args
    path, kernel = f"/agents/{quoted(args.name)}/tray", context.kernel()
    if args.verdict is not None and args.item is None:
        raise Failure("usage", f"tray {args.verdict} what?", f"awk agent memory {args.name} tray shows the ids")
    if args.verdict is None:
        return context.answer(kernel.get(path), tray_lines)
    where = f"{path}/{quoted(args.item)}/{args.verdict}"
    return context.answer(kernel.post(where, {}, key=new_key()), tray_lines)


def tray_lines(found: TrayReport, screen: Screen) -> list[str]:
    rows = [
        [one.id, one.kind, one.key, one_line(one.value), one.trust, " ".join(one.messages)]
        for one in found.rows
        if one.state == "open"
    ]
    return table(["ID", "KIND", "KEY", "PROPOSED", "TRUST", "FROM"], rows, screen) if rows else ["nothing is proposed"]
