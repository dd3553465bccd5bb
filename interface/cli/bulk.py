"""Many instructions at once: what ``cancel`` and ``retry`` take in place of ids, and what is said of it.

One request changes them all in one commit; the kernel chooses. On a terminal ``cancel`` shows first what it would end.
"""

import argparse
import json
from collections.abc import Mapping
from typing import Any, Final

from interface.cli.context import Context
from interface.cli.exits import Exit, of_failure
from interface.cli.output import Screen, decode, one_line
from interface.cli.parsing import json_flag
from interface.cli.prompts import can_ask
from interface.cli.targets import agent_target, target
from interface.client import new_key
from interface.failure import Failure
from protocol.api.instructions import BulkReport
from protocol.target import Target

WORDS: Final = "ID|@WORKFLOW[:TAG]"
SHOWN: Final = 20
"""Rows of a list for people; JSON has up to a thousand."""


def bulk_flags(parser: argparse.ArgumentParser) -> None:
    """ID... or what many are chosen by."""
    parser.add_argument(
        "ids", metavar=WORDS, nargs="*", help="instructions (i7 i8), or a workflow: all there (@review[:tag])"
    )
    parser.add_argument("--agent", metavar="AGENT", help="all of this agent: alice, alice@review[:tag]")
    parser.add_argument("--dry-run", action="store_true", help="only say which it would be")
    json_flag(parser)


def chosen(context: Context) -> Mapping[str, object] | None:
    """The choice that the words make, as the kernel is asked; None where they are ids. Raises Failure (usage)."""
    words: list[str] = context.args.ids
    named = [word for word in words if "@" in word]
    flags = {name: True for name in ("queued", "all") if getattr(context.args, name, False)}
    many = bool(named or flags or context.args.agent is not None)
    if not many and not words:
        raise Failure("usage", "nothing is named", _example(context))
    if not many:
        if context.args.dry_run:
            raise Failure("usage", "--dry-run is for many: what is named by its id is as it is", _example(context))
        return None
    if len(words) > 1 or named != words:
        wrong = next((word for word in words if word not in named), words[-1])
        raise Failure("usage", f"either ids or one choice: {one_line(wrong[:60])!r} is too much", _example(context))
    return {**_place(context, target(named[0]) if named else None), **({"queued": True} if "queued" in flags else {})}


def _example(context: Context) -> str:
    word = "cancel" if hasattr(context.args, "queued") else "retry"
    more = "--queued" if word == "cancel" else "--all"
    return f"{context.program} {word} i7, or one of: {more}, --agent alice, @review, --agent alice @review"


def _place(context: Context, where: Target | None) -> dict[str, object]:
    agent = None if context.args.agent is None else agent_target(context.args.agent)
    if agent is not None and where is not None and (where.agent is not None or agent.workflow is not None):
        raise Failure("usage", "the agent is named twice, or two workflows are", _example(context))
    name = agent.agent if agent is not None else None if where is None else where.agent
    place = where or agent
    space = None if place is None or place.workflow is None else str(place.space)
    return {key: value for key, value in (("agent", name), ("space", space)) if value is not None}


def change_many(context: Context, action: str, body: Mapping[str, object]) -> int:
    """Ask for ``action`` (cancel, retry) of all that ``body`` chooses, and say what came of it.

    What is ended does not come back, so on a terminal it is asked first; off one only ``--yes`` does it.
    """
    client = context.kernel()
    path = f"/instructions/{action}"
    if action == "cancel" and not context.args.dry_run and not context.args.yes:
        if not can_ask(context):
            text = "what is cancelled does not come back"
            raise Failure("usage", text, "say --yes to cancel it all the same; --dry-run says which it would be")
        look = client.post(path, {**body, "dry_run": True}, key=new_key())
        context.out.notes(bulk_lines(look, context.out.error_screen))
        count = json.loads(look)["matched"]
        if not count:
            return Exit.OK
        context.out.ask(f"cancel {count:,}? [y/N] ")
        if context.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise Failure("failed", "nothing was cancelled")
    answer = client.post(path, {**body, "dry_run": context.args.dry_run}, key=new_key())
    context.answer(answer, bulk_lines)
    report: dict[str, Any] = json.loads(answer)
    if action == "cancel" or not report["kept"]:
        return Exit.OK  # what had ended before it could be cancelled is as it was wanted
    return of_failure(str(report["kept"][0]["code"]))


def bulk_lines(body: bytes, screen: Screen) -> list[str]:
    """The lines for what was changed, the first of it by name, and for what was not and why."""
    report = decode(body, BulkReport)
    done = {"cancel": "cancelled", "retry": "put back"}[report.action]
    count = report.matched if report.dry_run else report.changed
    what = f"{count:,} {'instruction' if count == 1 else 'instructions'}"
    head = f"{what} would be {done}" if report.dry_run else f"{what} {done}"
    left = f"; {report.left:,} that {'runs' if report.left == 1 else 'run'} left alone" if report.left else ""
    lines = [screen.style(head + left, "bold")]
    for one in report.instructions[:SHOWN]:
        where = "" if one.space.startswith("dm:") else f" in {one.space}"
        lines.append(f"  {one_line(f'{one.id} {one.status} ({one.agent}{where})')}")
    if count > SHOWN:
        lines.append(f"  and {count - SHOWN:,} more")
    lines += [f"  {one_line(f'{one.id} was not: {one.detail}')}" for one in report.kept[:SHOWN]]
    if report.rest:
        lines.append(f"  {report.rest:,} more are meant: that is too much for one commit, say it again for the next")
    missing = sum(report.kept_by.values()) - SHOWN
    return [*lines, *([f"  and {missing:,} more were not"] if missing > 0 else [])]
