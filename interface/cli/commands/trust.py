"""``awk trust``: show programs and addresses that the project's files would use, and store or revoke trust in them.

The command starts no kernel. A running kernel applies the change to the next work that it starts. Demands come from
files, so their texts are escaped.
"""

import argparse
from collections.abc import Sequence
from typing import Final

import msgspec

from interface import offline
from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, one_line, table
from interface.cli.parsing import flag, json_flag
from interface.cli.prompts import can_ask, unit_lines
from interface.failure import Failure
from interface.trust_file import TrustFile
from protocol.trust import SHORT, Grant, Standing, TrustList, TrustReport, TrustRow, TrustUnit

LIST, REVOKE = "list", "revoke"
_WORDS: Final = "agent, workflow or file (default: all); or: list, to list consents; revoke ID..., to revoke consents"
_STATES: Final = {"new": "not trusted", "changed": "changed since it was trusted", "kept": "trusted"}


def configure_trust(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="FILE|NAME", nargs="*", help=_WORDS)
    flag(parser, "--yes", about="trust without confirmation")
    flag(parser, "--all", about="with revoke: revoke all consents")
    json_flag(parser)


def run_trust(context: Context) -> int:
    """Show demands and store consent, list consents, or revoke them.

    Exits with 7 if a demand remains untrusted, and with 78 if an invalid file was skipped.
    """
    words: list[str] = context.args.words
    if context.args.all and words[:1] != [REVOKE]:
        raise Failure("usage", "--all requires revoke")
    if words == [LIST]:
        return context.answer(TrustList(consents=TrustFile(context.project).kept()), trust_lines)
    if words[:1] == [REVOKE]:
        return revoke(context, words[1:])
    return show_and_ask(context, [context.workflow(word) for word in words])


def show_and_ask(context: Context, asked: list[str]) -> int:
    """Show the demands of the ``asked`` files (default: all) and store consent if the user agrees."""
    found = offline.trust_demands(context.project, asked, context.environ)
    file = TrustFile(context.project)
    rows = _rows(found.units, file.kept())
    missing = [row for row in rows if row.state != "kept"]
    for left_out in found.skipped:
        context.out.note(f"note: skipped {one_line(left_out)}")
    if not context.args.json:
        context.out.lines(trust_report_lines(rows, context.out.screen))
    agreed = bool(context.args.yes)
    if missing and not agreed and not context.args.json and can_ask(context):
        context.out.ask("Trust this until it changes? [y/N] ")
        agreed = context.stdin.readline().strip().lower() in {"y", "yes"}
    if missing and agreed:
        file.keep([msgspec.to_builtins(row) for row in missing], context.clock.wall())
        rows = _rows(found.units, file.kept())
        context.out.note(f"trusted: {len(missing)}")
        missing = []
    if context.args.json:
        context.out.document(msgspec.json.encode(TrustReport(units=rows)))
    if missing:
        if not context.args.json:
            count = f"{len(missing)} of these are" if len(missing) > 1 else "this is"
            again = " ".join((context.program, "trust", *asked, "--yes"))
            context.out.note(f"{count} not trusted; to trust the files: {one_line(again)}")
        return Exit.UNTRUSTED
    return Exit.BAD_CONFIGURATION if found.skipped else Exit.OK


def _rows(units: tuple[TrustUnit, ...], kept: tuple[Grant, ...]) -> tuple[TrustRow, ...]:
    """Return each unit with its state and, if it changed since the consent, its new demands."""
    digests = {one.digest for one in kept}
    before = {one.subject: one.demands for one in kept}
    rows: list[TrustRow] = []
    for one in units:
        old = None if one.digest in digests else before.get(one.subject)
        added = () if old is None else tuple(demand for demand in one.demands if demand not in old)
        state: Standing = "kept" if one.digest in digests else "new" if old is None else "changed"
        row = TrustRow(subject=one.subject, demands=one.demands, digest=one.digest, state=state, added=added)
        rows.append(row)
    return tuple(rows)


def trust_report_lines(rows: Sequence[TrustRow], screen: Screen) -> list[str]:
    """Return each unit with its complete demands, because the user agrees to every one of them."""
    lines: list[str] = []
    for row in rows:
        before = [demand for demand in row.demands if demand not in row.added] if row.state == "changed" else []
        head, *rest = unit_lines({"subject": row.subject, "digest": row.digest, "demands": row.demands}, screen)
        marked = unit_lines({"subject": "", "digest": "", "demands": row.demands, "before": before}, screen)[1:]
        lines += [f"{head}: {_STATES[row.state]}", *(marked if before else rest)]
    return lines or ["no file needs trust"]


def revoke(context: Context, ids: list[str]) -> int:
    if bool(ids) == context.args.all:
        raise Failure("usage", "revoke requires ids or --all", f"see {context.program} trust list")
    file = TrustFile(context.project)
    kept = file.kept()
    for wanted in ids:
        if len(wanted) < SHORT or not any(one.digest.startswith(wanted) for one in kept):
            raise Failure("not_found", f"consent {wanted!a} not found", f"see {context.program} trust list")
    gone = file.revoke(lambda one: context.args.all or one.digest.startswith(tuple(ids)))
    context.out.note(f"revoked: {len(gone)}")
    return context.answer(TrustList(consents=file.kept()), trust_lines)


def trust_lines(kept: TrustList, screen: Screen) -> list[str]:
    rows = [[one.id, one.subject, one.at, str(len(one.demands))] for one in kept.consents]
    return table(["ID", "SUBJECT", "SINCE", "DEMANDS"], rows, screen) if rows else ["no consents"]
