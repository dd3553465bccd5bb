"""What files would run or reach, and what of it is trusted; every byte of it comes from files, and is escaped."""

from collections.abc import Sequence
from typing import Final

import msgspec

from interface.cli.consent import unit_lines
from interface.cli.escape import one_line
from interface.cli.output import Screen
from interface.cli.plain_table import table
from protocol.trust import Standing, TrustList, TrustRow

_WORDS: Final = {"new": "not trusted", "changed": "changed since it was trusted", "kept": "trusted"}


def lines(body: bytes, screen: Screen) -> list[str]:
    """What is kept, one line for each."""
    kept = msgspec.json.decode(body, type=TrustList).consents
    rows = [[one.id, one.subject, one.at, str(len(one.demands))] for one in kept]
    return table(["ID", "SUBJECT", "SINCE", "DEMANDS"], rows, screen) if rows else ["nothing is kept"]


def report_lines(rows: Sequence[TrustRow], screen: Screen) -> list[str]:
    """Each unit with everything in it, in full: what is agreed to must have been seen."""
    return [line for row in rows for line in _row_lines(row, screen)] or ["nothing here needs trust"]


def state(*, is_kept: bool, changed: bool) -> Standing:
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
