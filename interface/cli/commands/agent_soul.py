"""``awk agent soul``: who an agent is, the changes it suggests, and the versions that people made of it."""

import argparse
from typing import Any

from interface.cli.command_parser import AgentArguments, name_argument
from interface.cli.context import Context
from interface.cli.output import Screen, escape, one_line, table
from interface.client import new_key, quoted
from protocol.api.souls import SoulReport
from protocol.yaml_writer import block


def configure_soul(parser: argparse.ArgumentParser) -> None:
    name_argument(parser)
    doings = AgentArguments(parser, "[show | history | approve ID | reject ID | rollback N]")
    doings.add("show")
    doings.add("history")
    for word in ("approve", "reject"):
        one = doings.add(word)
        one.add_argument("id", metavar="SUGGESTION", help="as awk needs shows it: p1")
        one.add_argument("--reason", metavar="TEXT", default="", help="it is kept with it")
    back = doings.add("rollback")
    back.add_argument("version", metavar="N", type=int, help="the version whose traits are to count again")
    back.add_argument("--reason", metavar="TEXT", default="", help="it is kept with the new version")


def run_soul(context: Context) -> int:
    args = context.args
    path = f"/agents/{quoted(args.name)}/soul"
    kernel = context.kernel()
    match args.doing:
        case "approve" | "reject":
            where = f"{path}/{quoted(args.id)}/{args.doing}"
            body = kernel.post(where, {"reason": args.reason}, key=new_key())
        case "rollback":
            rolled = {"version": args.version, "reason": args.reason}
            body = kernel.post(f"{path}/rollback", rolled, key=new_key())
        case _:
            body = kernel.get(path)
    return context.answer(body, history_lines if args.doing == "history" else soul_lines)


def soul_lines(told: dict[str, Any], screen: Screen) -> list[str]:
    where = f"version {told['version']}, in {told['managed']}" if told["managed"] else "as in its file"
    lines = [screen.style(one_line(f"{told['agent']} ({where})"), "bold")]
    lines += ["  (that file was edited since)"] if told["edited"] else []
    lines += [f"  {escape(line)}" for line in block(told["soul"])] or ["  no traits"]
    waiting = [one for one in told["proposals"] if one["state"] == "open"]
    if waiting:
        rows = [[one["id"], one["trait"], one["value"], one["observation"]] for one in waiting]
        lines += ["", *table(["ID", "TRAIT", "SUGGESTED", "OBSERVED"], rows, screen)]
    return lines


def history_lines(found: SoulReport, screen: Screen) -> list[str]:
    lines: list[str] = []
    for one in found.versions:
        by = f"{one.author}, {one.instruction}" if one.instruction else one.author
        lines.append(screen.style(one_line(f"version {one.version}  {one.at}  by {by}: {one.reason}"), "bold"))
        lines += [f"  {escape(line)}" for line in one.diff.rstrip("\n").split("\n")[2:]]
    return lines or ["nothing was ever changed in it"]
