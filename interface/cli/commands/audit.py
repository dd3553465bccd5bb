"""``awk audit``: who asked whose memory for what, and what was given."""

import argparse
from functools import partial

from interface.cli.context import Context
from interface.cli.output import Screen, one_line, table
from interface.cli.paging import AUDIT, count_flag, show_list
from interface.cli.parsing import json_flag
from protocol.api.history import AuditList


def configure_audit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--agent", metavar="AGENT", help="only where this agent asked, or was asked")
    count_flag(parser)
    json_flag(parser)


def run_audit(context: Context) -> int:
    agent: str | None = context.args.agent
    query = {} if agent is None else {"agent": agent}
    return show_list(context, "/audit", AUDIT, partial(audit_lines, agent=agent), query)


def audit_lines(found: AuditList, screen: Screen, agent: str | None = None) -> list[str]:
    rows: list[list[str]] = []
    for one in found.rows:
        keys = ", ".join(given.key or "(purged)" for given in one.given) or "nothing"
        withheld = f" ({one.withheld} withheld)" if one.withheld else ""
        told = {"ask": one.query, "share": "(shared by its owner)", "moved": f"(moved: {one.note})"}
        asked = told.get(one.kind, f"(not kept: {one.note})")
        rows.append([one.id, one.at, one.receiver, one.owner, one.space, one_line(asked), f"{keys}{withheld}"])
    return (
        table(["ID", "AT", "WHO", "OF WHOM", "SPACE", "ASKED", "WAS GIVEN"], rows, screen)
        if rows
        else ["nobody asked for anybody's memory"]
        if agent is None
        else [
            f"nothing of {one_line(agent)}: it asked for nobody's memory, and nobody for its (awk ls lists the agents)"
        ]
    )
