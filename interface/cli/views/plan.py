"""What a run would start, for people."""

import msgspec

from interface.cli.escape import escape, one_line
from interface.cli.output import Screen
from protocol.inspection import Plan, PlannedMember, PlannedStep

_INDENT = "  "


def lines(body: bytes, screen: Screen) -> list[str]:
    """The plan, part by part; parts that are empty are left out, but for the kickoff."""
    plan = msgspec.json.decode(body, type=Plan)
    params = [f"{name}: {_value(value)}" for name, value in plan.params.items()]
    kickoff = ["none: the agents would wait"] if plan.kickoff is None else escape(plan.kickoff).rstrip().split("\n")
    verdict = [f"the approval {one_line(plan.verdict)}; a no is exit code 8"] if plan.verdict else []
    parts = [
        ("agents", [_member(member, screen) for member in plan.members]),
        ("params", params),
        ("setup would run", [_step(step) for step in plan.setup]),
        (f"kickoff, to {', '.join(plan.wakes) or 'nobody'}", kickoff),
        ("decided by", verdict),
        ("needs trust", [one_line(demand) for demand in plan.trust]),
        ("missing here", [one_line(fault) for fault in plan.missing]),
    ]
    head = f"{one_line(plan.run)} would start from {one_line(plan.path)}; nothing was run"
    return [head, *(line for title, part in parts if part for line in _part(title, part, screen))]


def _part(title: str, part: list[str], screen: Screen) -> list[str]:
    style = "red" if title.startswith("missing") else "bold"
    return [screen.style(f"{title}:", style), *(f"{_INDENT}{line}".rstrip() for line in part)]


def _member(member: PlannedMember, screen: Screen) -> str:
    of = f" (agent {member.ref})" if member.ref not in (None, member.name) else ""
    runs = " ".join(part for part in (member.backend, one_line(member.model)) if part)
    where = f" at {one_line(member.base_url)}" if member.base_url else ""
    key = f", key from {' or '.join(f'${name}' for name in member.keys)}" if member.keys else ""
    state = "" if member.ready else screen.style(" (not set)", "red")
    return f"{member.name}{of}: {runs}{where}{key}{state}"


def _value(value: object) -> str:
    """As ``${{ params.x }}`` becomes it."""
    return str(value).lower() if isinstance(value, bool) else one_line(str(value))


def _step(step: PlannedStep) -> str:
    becomes = f"  # becomes ${{{{ {step.bind} }}}}" if step.bind else ""
    return f"{one_line(step.shell)}{becomes}"
