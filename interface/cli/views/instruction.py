"""One instruction: what became of it, attempt by attempt."""

import msgspec

from interface.cli.escape import escape, one_line
from interface.cli.output import Screen
from interface.cli.plain_table import table
from interface.cli.views.report import usage
from protocol.api import AttemptInfo, InstructionInfo


def lines(body: bytes, screen: Screen) -> list[str]:
    """Its state, attempts, steps and text."""
    info = msgspec.json.decode(body, type=InstructionInfo)
    why = f" ({info.error_class}: {info.cause})" if info.cause else ""
    facts = {
        "agent": info.agent,
        "space": info.space,
        "lane": info.lane,
        "status": info.status + why,
        "usage": usage(info.usage),
        "prompt": " + ".join(info.prompt_manifest),
    }
    return [
        screen.style(one_line(info.id), "bold"),
        *(f"  {name:<8} {one_line(value)}" for name, value in facts.items() if value),
        *_attempts(info, screen),
        *(["", *escape(info.text).rstrip("\n").split("\n")] if info.text else []),
    ]


def _attempts(info: InstructionInfo, screen: Screen) -> list[str]:
    if not info.attempts:
        return []
    header = ["ATTEMPT", "EPOCH", "STARTED", "ENDED", "OUTCOME", "EXIT", "STEPS"]
    return ["", *table(header, [_row(attempt, info) for attempt in info.attempts], screen)]


def _row(attempt: AttemptInfo, info: InstructionInfo) -> list[str]:
    steps = sum(step.attempt == attempt.n for step in info.steps)
    ended = (attempt.ended_at or "-", attempt.outcome or "-", attempt.exit or "-")
    return [str(attempt.n), str(attempt.epoch), attempt.started_at, *ended, str(steps)]
