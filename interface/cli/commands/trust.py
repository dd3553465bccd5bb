"""``awk trust``: what the project's files would run or reach, and whether to keep trusting exactly that.

It starts no kernel; one that runs sees what is kept or taken back with the next thing it begins.

What files would run or reach, and what of it is trusted; every byte of it comes from files, and is escaped.
"""

import argparse
from collections.abc import Sequence
from typing import Final

import msgspec

from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, one_line, table
from interface.cli.parsing import json_flag
from interface.cli.trust_prompt import can_ask, unit_lines
from interface.failure import Failure
from interface.offline import run_inspect
from interface.trust_file import TrustFile
from protocol.remote_ref import is_remote
from protocol.trust import SHORT, Demands, Grant, Standing, TrustList, TrustReport, TrustRow, TrustUnit

_WORDS: Final = {"new": "not trusted", "changed": "changed since it was trusted", "kept": "trusted"}


def trust_lines(body: bytes, screen: Screen) -> list[str]:
    """What is kept, one line for each."""
    kept = msgspec.json.decode(body, type=TrustList).consents
    rows = [[one.id, one.subject, one.at, str(len(one.demands))] for one in kept]
    return table(["ID", "SUBJECT", "SINCE", "DEMANDS"], rows, screen) if rows else ["nothing is kept"]


def trust_report_lines(rows: Sequence[TrustRow], screen: Screen) -> list[str]:
    """Each unit with everything in it, in full: what is agreed to must have been seen."""
    return [line for row in rows for line in _row_lines(row, screen)] or ["nothing here needs trust"]


def state_of(*, is_kept: bool, changed: bool) -> Standing:
    """How a unit stands."""
    return "kept" if is_kept else "changed" if changed else "new"


def skipped(text: str) -> str:
    """A file that was left out, and why."""
    return one_line(text)


def _row_lines(row: TrustRow, screen: Screen) -> list[str]:
    before = [demand for demand in row.demands if demand not in row.added] if row.state == "changed" else []
    head, *rest = unit_lines({"subject": row.subject, "digest": row.digest, "demands": row.demands}, screen)
    marked = unit_lines({"subject": "", "digest": "", "demands": row.demands, "before": before}, screen)[1:]
    return [f"{head}: {_WORDS[row.state]}", *(marked if before else rest)]


LIST, REVOKE = "list", "revoke"


def configure_trust(parser: argparse.ArgumentParser) -> None:
    """[FILE|NAME...], list, revoke."""
    parser.add_argument(
        "words",
        metavar="FILE|NAME",
        nargs="*",
        help="an agent, a workflow or its file (default: all); list: what is kept; revoke ID...: take it back",
    )
    parser.add_argument("--yes", action="store_true", help="keep it without asking")
    parser.add_argument("--all", action="store_true", help="with revoke: everything")
    json_flag(parser)


def run_trust(context: Context) -> int:
    """Exit code 7 where something is not trusted in the end, 78 where a file is wrong and was left out."""
    words: list[str] = context.args.words
    if context.args.all and words[:1] != [REVOKE]:
        raise Failure("usage", "--all goes with revoke")
    if words == [LIST]:
        return context.answer(_encoded(TrustFile(context.project).kept()), trust_lines)
    if words[:1] == [REVOKE]:
        return _revoke(context, words[1:])
    return _trust(context, [context.workflow(word) for word in words])


def _trust(context: Context, asked: list[str]) -> int:
    where = ("--project", context.project.root, "--state", context.project.state)
    environ = context.environ if any(map(is_remote, asked)) else None  # git's proxy, and the user's credentials
    found = msgspec.json.decode(run_inspect(environ, "trust", *where, "--", *asked), type=Demands)
    file = TrustFile(context.project)
    rows = _rows(found.units, file.kept())
    missing = [row for row in rows if row.state != "kept"]
    for left_out in found.skipped:
        context.out.note(f"note: skipped {skipped(left_out)}")
    if not context.args.json:
        context.out.lines(trust_report_lines(rows, context.out.screen))
    if missing and (context.args.yes or _agrees(context)):
        file.keep([msgspec.to_builtins(row) for row in missing], context.clock.wall())
        rows = _rows(found.units, file.kept())
        context.out.note(f"kept: {len(missing)}")
        missing = []
    if context.args.json:
        context.out.document(msgspec.json.encode(TrustReport(units=rows)))
    if missing:
        if not context.args.json:
            count = f"{len(missing)} of these are" if len(missing) > 1 else "this is"
            again = " ".join((context.program, "trust", *asked, "--yes"))
            context.out.note(
                f"{count} not trusted, and nobody here can be asked or agreed: keep it with {one_line(again)}"
            )
        return Exit.UNTRUSTED
    return Exit.BAD_CONFIGURATION if found.skipped else Exit.OK


def _rows(units: tuple[TrustUnit, ...], kept: tuple[Grant, ...]) -> tuple[TrustRow, ...]:
    digests = {one.digest for one in kept}
    before = {one.subject: one.demands for one in kept}
    return tuple(_row(one, one.digest in digests, before.get(one.subject)) for one in units)


def _row(one: TrustUnit, is_kept: bool, before: tuple[str, ...] | None) -> TrustRow:
    changed = before is not None and not is_kept
    added = tuple(demand for demand in one.demands if demand not in (before or ())) if changed else ()
    state = state_of(is_kept=is_kept, changed=changed)
    return TrustRow(subject=one.subject, demands=one.demands, digest=one.digest, state=state, added=added)


def _agrees(context: Context) -> bool:
    if context.args.json or not can_ask(context):
        return False
    context.out.ask("Trust this until it changes? [y/N] ")
    return context.stdin.readline().strip().lower() in {"y", "yes"}


def _revoke(context: Context, ids: list[str]) -> int:
    if bool(ids) == context.args.all:
        raise Failure("usage", "revoke takes the ids to take back, or --all", f"see {context.program} trust list")
    file = TrustFile(context.project)
    kept = file.kept()
    for wanted in ids:
        if len(wanted) < SHORT or not any(one.digest.startswith(wanted) for one in kept):
            raise Failure("not_found", f"nothing is kept with the id {wanted!a}", f"see {context.program} trust list")
    gone = file.revoke(lambda one: context.args.all or one.digest.startswith(tuple(ids)))
    context.out.note(f"revoked: {len(gone)}")
    return context.answer(_encoded(file.kept()), trust_lines)


def _encoded(consents: tuple[Grant, ...]) -> bytes:
    return msgspec.json.encode(TrustList(consents=consents))
