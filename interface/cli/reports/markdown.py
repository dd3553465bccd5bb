"""Page of a run: ``--report md:FILE``, for a comment on a pull request or the summary of a step on GitHub.

The page is always shorter than the 65,536 characters of a comment: each part has a limit and states omissions. Texts of
agents contain no markup.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final, TypeVar

from interface.cli.reports.record import Finding, RunRecord, code, fenced, findings_of, line_of, mistake_text
from interface.cli.transcript_view import seconds_text
from protocol.api.approvals import Need
from protocol.api.instructions import InstructionInfo
from protocol.instruction import Usage
from protocol.tasks import TaskInfo
from protocol.text import encode_json
from protocol.voting import BallotInfo

MOST_CHARACTERS: Final = 60_000
SHOWN: Final = 30
"""Rows of one part."""
_FILES: Final = 100
_FAILURES: Final = 5
_VOTES: Final = 10
_OUTPUT: Final = 1500
_TEXT: Final = 240
"""Characters of a text in a list."""
T = TypeVar("T")


def page_of(record: RunRecord) -> str:
    """Return the whole page."""
    findings = findings_of(record)
    parts = (
        head_part(record),
        refusal_part(record),
        _part("What was found", findings, finding_line),
        failures_part(record),
        work_part(record),
        changes_part(record),
        _part("What needs a person", record.needs, need_line),
        _part("Votes", record.ballots, ballot_lines),
        _part("Tasks", record.tasks, task_line),
        answer_part(record),
        notes_part(record),
    )
    page, whole = "", True
    for part in parts:
        text = "".join(f"{line}\n" for line in part)
        fits = len(page) + len(text) <= MOST_CHARACTERS
        page, whole = (page + text, whole) if fits else (page, False)
    rest = (
        ""
        if whole
        else f"More than fits here: `awk show {record.id}`, `awk channel @{record.name} --run {record.id}`.\n"
    )
    return page.rstrip("\n") + "\n" + (f"\n{rest}" if rest else "")


def money(cost: float | None) -> str:
    """Return the cost as ``$0.0123``, or as unknown."""
    return "unknown" if cost is None else f"${cost:,.4f}"


def finding_line(one: Finding) -> str:
    """Return a finding as a list item."""
    by = f" ({code(one.author, 64)})" if one.author else ""
    return f"- {one.level}: {code(f'{one.path}:{one.line}')} {code(one.text, _TEXT)}{by}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return [*(f"| {' | '.join(cells)} |" for cells in lines), ""]


def _part(title: str, rows: Sequence[T], shown: Callable[[T], str]) -> list[str]:
    if not rows:
        return []
    more = [f"- and {len(rows) - SHOWN:,} more"] if len(rows) > SHOWN else []
    return [f"## {title} ({len(rows):,})", "", *map(shown, rows[:SHOWN]), *more, ""]


def head_part(record: RunRecord) -> list[str]:
    """Return the outcome as a table."""
    title = f"# {code(record.name, 130)} {record.id}".rstrip()
    if (report := record.report) is None:
        return [f"{title}: did not run", ""]
    stat = [tree.stat for tree in record.trees]
    changed = f"{sum(one.files for one in stat):,} files, +{sum(one.added for one in stat):,} "
    changed += f"-{sum(one.deleted for one in stat):,} lines, {sum(one.commits for one in stat):,} commits"
    counts = ", ".join(f"{count:,} {name}" for name, count in report.instructions.items() if count)
    delivery = report.delivery and f"{report.delivery.state} into {code(report.delivery.into, 130)}"
    failed = ", ".join(f"{count:,} of {code(tool, 64)}" for tool, count in list(report.failed_calls.items())[:10])
    rows = [
        ("status", f"{report.status}, exit code {record.exit_code}"),
        ("verdict", report.verdict or ""),
        ("took", seconds_text(report.duration_seconds)),
        ("cost", money(report.usage.cost_usd)),
        ("tokens", _tokens(report.usage)),
        ("work", counts or "none"),
        ("changes", changed if record.trees else ""),
        ("delivery", delivery or ""),
        ("calls that failed", failed),
    ]
    return [f"{title}: {report.status}", "", *_table(["", ""], [row for row in rows if row[1]])]


def _tokens(usage: Usage) -> str:
    cached = f", {usage.cache_read_tokens:,} from a cache" if usage.cache_read_tokens else ""
    return f"{usage.input_tokens + usage.cache_write_tokens:,} in{cached}, {usage.output_tokens:,} out"


def refusal_part(record: RunRecord) -> list[str]:
    """Return the reason why the run did not start, with the mistakes in the project's files."""
    if (refusal := record.refusal) is None:
        return []
    lines = [*fenced(refusal.text, _OUTPUT), *([f"Hint: {code(refusal.hint)}", ""] if refusal.hint else [])]
    return lines + _part(
        "Mistakes in files",
        refusal.mistakes,
        lambda one: f"- {code(f'{one.path}:{one.line}:{one.column}')} {code(mistake_text(one), _TEXT)}",
    )


def failures_part(record: RunRecord) -> list[str]:
    """Return unfinished work, failed checks and rejected merges with reasons."""
    told: list[tuple[str, str]] = [
        (f"{one.id}, {code(one.agent, 64)}: {one.status}{f' ({code(one.cause, 64)})' if one.cause else ''}", one.text)
        for one in record.failed
    ]
    told += [
        (f"task {one.id}, {code(one.title, 130)}: {one.state}", one.reason)
        for one in record.tasks
        if one.state == "failed" or (one.reason and one.state != "cancelled")
    ]
    delivery = record.report and record.report.delivery
    if delivery and delivery.state == "refused":
        told.append((f"not merged into {code(delivery.into, 130)}: {code(delivery.why)}", delivery.output))
    if not told:
        return []
    more = [f"And {len(told) - _FAILURES:,} more.", ""] if len(told) > _FAILURES else []
    blocks = [
        [f"### {title}", "", *(fenced(text, _OUTPUT) if text.strip() else [])] for title, text in told[:_FAILURES]
    ]
    return [f"## What failed ({len(told):,})", "", *(line for block in blocks for line in block), *more]


def seconds_worked(one: InstructionInfo) -> float:
    """Return the working time of all attempts of an instruction, in seconds."""
    total = 0.0
    for attempt in one.attempts:
        if attempt.ended_at:
            began, ended = (datetime.fromisoformat(at) for at in (attempt.started_at, attempt.ended_at))
            total += max((ended - began).total_seconds(), 0.0)
    return total


def work_part(record: RunRecord) -> list[str]:
    """Return a table row for each agent."""
    names = list(dict.fromkeys(one.agent for one in record.instructions))
    rows: list[list[str]] = []
    for name in names[:SHOWN]:
        work = [one for one in record.instructions if one.agent == name]
        usage = Usage()
        for one in work:
            usage = usage.plus(one.usage)
        states = list(dict.fromkeys(one.status for one in work))
        counts = ", ".join(f"{sum(one.status == state for one in work):,} {state}" for state in states)
        took = seconds_text(sum(map(seconds_worked, work)))
        steps = f"{sum(len(one.steps) for one in work):,}"
        rows.append([code(name, 64), counts, steps, _tokens(usage), money(usage.cost_usd), took])
    if not rows:
        return []
    more = [f"And {len(names) - SHOWN:,} more.", ""] if len(names) > SHOWN else []
    return ["## Who did what", "", *_table(["agent", "work", "steps", "tokens", "cost", "time"], rows), *more]


def changes_part(record: RunRecord) -> list[str]:
    """Return the changed working trees with their files."""
    changed = [tree for tree in record.trees if any((tree.stat.files, tree.stat.commits))]
    if not changed:
        return []
    rows = [
        (
            *(code(tree.agent, 64), code(tree.branch, 130), f"{tree.stat.files:,}"),
            *(f"+{tree.stat.added:,}", f"-{tree.stat.deleted:,}", f"{tree.stat.commits:,}"),
        )
        for tree in changed[:SHOWN]
    ]
    files = [(tree, file) for tree in changed for file in tree.files]
    stat = "\n".join(
        f"{tree.agent}  +{file.added} -{file.deleted}  {line_of(file.path, 130)}" for tree, file in files[:_FILES]
    )
    more = f"\n... and {len(files) - _FILES:,} more" if len(files) > _FILES else ""
    table = _table(["agent", "branch", "files", "added", "deleted", "commits"], rows)
    return ["## What changed", "", *table, *(fenced(stat + more, 20_000) if files else [])]


def need_line(one: Need) -> str:
    """Return a list item for ``one``, with the command that settles the need, if any."""
    way = f": {code(one.actions[0].command)}" if one.actions else ""
    return f"- {code(one.text, _TEXT)}{way}"


def task_line(one: TaskInfo) -> str:
    """Return a task with its state."""
    by = one.ended_by or one.holder
    return f"- {one.id} {code(one.title, _TEXT)}: {one.state}{f', {code(by, 64)}' if by else ''}"


def ballot_lines(one: BallotInfo) -> str:
    """Return a proposal with its result, and the votes with their reasons."""
    result = f", {code(one.winner, 64)}" if one.winner else ""
    lines = [f"- {code(one.id, 64)} {code(one.title, 130)}: {one.state}{result}"]
    for vote in one.votes[:_VOTES]:
        why = f": {code(vote.reason, _TEXT)}" if vote.reason else ""
        lines.append(f"  - {code(vote.voter, 64)} said {code(vote.choice, 64)}{why}")
    left_out = len(one.votes) - _VOTES
    return "\n".join([*lines, f"  - and {left_out:,} more"] if left_out > 0 else lines)


def answer_part(record: RunRecord) -> list[str]:
    """Return the last message, or the output if the workflow has a schema for it."""
    if record.report is None:
        return []
    if record.report.output is not None:
        return ["## Output", "", *fenced(encode_json(record.report.output).decode())]
    last = next((one for one in reversed(record.said) if one.kind in ("reply", "said") and one.instruction), None)
    return [] if last is None else [f"## The last word, {code(last.sender, 64)}", "", *fenced(last.text)]


def notes_part(record: RunRecord) -> list[str]:
    """Return notes about all content that the page omits."""
    notes = [f"{record.left_out:,} rows of the log were too many for this page."] if record.left_out else []
    notes += [f"Unreadable parts: {code(record.unread)}"] if record.unread else []
    return [f"{note}\n" for note in notes]
