"""``awk merge``: what the agents of a run did becomes part of a branch of the user's: all of it, or nothing."""

import argparse
import json
from typing import Final

from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, escape, one_line
from interface.cli.parsing import json_flag
from interface.cli.targets import RUN, workflow_target
from interface.client import new_key, quoted
from interface.failure import Failure
from protocol.api.merges import MergeInfo

_OPEN: Final = frozenset({"requested", "merging", "checked"})
FILES: Final = 100
"""Shown of those that stand against it; ``--json`` has more."""


def configure_merge(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="RUN|@WORKFLOW[:TAG]", help="a run (r12: awk runs lists them), or the last one of a workflow"
    )
    parser.add_argument("--agent", metavar="NAME", help="only the branch of this agent; else those of all of them")
    parser.add_argument("--into", metavar="BRANCH", help="merge into this one; else into that which the run began from")
    parser.add_argument(
        "--squash",
        action="store_const",
        const=True,
        help="one commit for all of it, in place of a merge of each branch",
    )
    parser.add_argument(
        "--check", metavar="CMD", help="a shell command that has to succeed on the result before anything is changed"
    )
    parser.add_argument(
        "--return",
        action="store_true",
        dest="give_back",
        help="what cannot be merged becomes work for the agent whose it is; exits with 1 all the same",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only say what would come of it; changes nothing and runs no check"
    )
    json_flag(parser)


def run_merge(context: Context) -> int:
    args = context.args
    name = args.target if RUN.fullmatch(args.target) else str(workflow_target(args.target).space)
    client = context.kernel()
    request = {
        "agent": args.agent,
        "into": args.into,
        "squash": args.squash,
        "check": args.check,
        "give_back": args.give_back,
        "dry_run": args.dry_run,
    }
    body = client.post(f"/runs/{quoted(name)}/merge", request, key=new_key())
    answer = json.loads(body)
    while answer["state"] in _OPEN:
        try:  # the kernel may take as long as a check does
            query = {"id": str(answer["id"]), "wait": "true"}
            body = client.get(f"/runs/{answer['run']}/merge", query, wait_seconds=None)
        except Failure as failure:
            if failure.code != "not_found":
                raise
            raise Failure("not_found", f"{answer['id']} is not kept any more", f"{context.program} runs") from failure
        answer = json.loads(body)
    context.answer(body, merge_lines)
    return Exit.FAILED if answer["state"] == "refused" else Exit.OK


def merge_lines(info: MergeInfo, screen: Screen) -> list[str]:
    lines = [_head(info, screen)]
    for one in info.branches:
        what = "conflicts" if one.conflict else f"commits: {one.commits}" if one.commits else "nothing new"
        lines.append(f"  {one_line(one.agent)}  {one_line(one.branch)}  {what}")
    lines += [f"  {screen.style(one_line(name), 'red')}" for name in info.files[:FILES]]
    lines += [f"  [... {len(info.files) - FILES} more files: --json lists them ...]"] if len(info.files) > FILES else []
    if info.output:
        lines += ["it printed:", *(f"  {line}" for line in escape(info.output).rstrip("\n").split("\n"))]
    if info.returned_to:
        lines.append(f"given back as {', '.join(info.returned_to)}: awk show {info.returned_to[0]}")
    return lines


def _head(info: MergeInfo, screen: Screen) -> str:
    into = one_line(info.into)
    why = f": {one_line(info.why)}" if info.why else ""
    if info.state == "refused":
        return f"{info.run} {screen.style('not merged', 'red')} into {into}{why}"
    if info.state == "possible":
        check = f"; it would be checked by: {one_line(info.check)}" if info.check else ""
        return f"{info.run} would be merged into {into}{check}"
    if info.commit is None:
        return f"{info.run} is not merged into {into}{why or ': there was nothing to merge'}"
    return f"{info.run} {screen.style('merged', 'green')} into {into} at {info.commit[:12]}{why}"
