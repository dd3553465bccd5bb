"""One instruction: what became of it, attempt by attempt."""

from typing import Final

import msgspec

from interface.cli.escape import escape, one_line
from interface.cli.output import Screen
from interface.cli.plain_table import table
from interface.cli.views.report import usage
from protocol.api.instructions import AttemptInfo, InstructionInfo

FAILED_CALLS: Final = 20
APPROVALS: Final = 20
"""How many are shown, the last; ``--json`` has all."""


def lines(body: bytes, screen: Screen) -> list[str]:
    """Its state, attempts, steps and text."""
    info = msgspec.json.decode(body, type=InstructionInfo)
    why = f" ({info.error_class}: {info.cause})" if info.cause else ""
    facts = {
        "agent": info.agent,
        "space": info.space,
        "lane": info.lane,
        "status": info.status + why,
        "waits": _waits(info),
        "messages": ", ".join(info.message_ids),
        "continues": info.continues or "",
        "usage": usage(info.usage),
        "prompt": " + ".join(info.prompt_manifest),
    }
    return [
        screen.style(one_line(info.id), "bold"),
        *(f"  {name:<9} {one_line(value)}" for name, value in facts.items() if value),
        *_attempts(info, screen),
        *_failed_calls(info),
        *_approvals(info),
        *_complaint(info),
        *(["", *escape(info.text).rstrip("\n").split("\n")] if info.text else []),
    ]


def _waits(info: InstructionInfo) -> str:
    """What keeps it, if anything does, for how long, and what to do about it."""
    if info.approval and info.waits_for == "approval":
        name = info.approval
        return f"approval {name} until {info.approval_expires}: awk pending {name}, awk approve {name}"
    if info.standing not in ("time", "person"):
        return info.waits_for or ""
    if info.unasked:
        return f"{info.waits_for}: {info.unasked}, then restart --kernel from that shell"
    return f"{info.waits_for} until {info.until or 'somebody ends that'}"


def _failed_calls(info: InstructionInfo) -> list[str]:
    """Calls that gave an error or were not run, the last of them, with what the model read."""
    calls = [(step.n, call) for step in info.steps for call in step.failed]
    told = [f"  step {n}  {one_line(call.tool)}  {call.why}: {one_line(call.text)}" for n, call in calls]
    return ["", "calls that failed:", *told[-FAILED_CALLS:]] if told else []


def _approvals(info: InstructionInfo) -> list[str]:
    """What it asked for, the last of that, and which calls were granted and have not run."""
    if not info.approvals:
        return []
    unheard = "never run" if info.standing == "ended" else "not run yet: no attempt has heard of it"
    told = [
        f"  {one.id}  {one_line(one.tool)}  {one.state}"
        + (f", {unheard}" if one.state == "granted" and not one.heard else "")
        for one in info.approvals
    ]
    left_out = len(told) - APPROVALS
    earlier = [f"  {left_out} earlier ones: --json lists them"] if left_out > 0 else []
    return ["", "approvals:", *earlier, *told[-APPROVALS:]]


def _complaint(info: InstructionInfo) -> list[str]:
    """What the last worker that failed wrote to its standard error."""
    failed = [attempt for attempt in info.attempts if attempt.stderr_tail]
    if not failed or not failed[-1].stderr_tail:
        return []
    last = failed[-1]
    tail = escape(str(last.stderr_tail)).rstrip("\n").split("\n")
    return ["", f"attempt {last.n} wrote to its standard error:", *(f"  {line}" for line in tail)]


def _attempts(info: InstructionInfo, screen: Screen) -> list[str]:
    if not info.attempts:
        return []
    header = ["ATTEMPT", "EPOCH", "STARTED", "ENDED", "OUTCOME", "EXIT", "STEPS"]
    return ["", *table(header, [_row(attempt, info) for attempt in info.attempts], screen)]


def _row(attempt: AttemptInfo, info: InstructionInfo) -> list[str]:
    steps = sum(step.attempt == attempt.n for step in info.steps)
    ended = (attempt.ended_at or "-", attempt.outcome or "-", attempt.exit or "-")
    return [str(attempt.n), str(attempt.epoch), attempt.started_at, *ended, str(steps)]
