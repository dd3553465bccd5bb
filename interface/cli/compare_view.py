"""A comparison for people: the union, a line for each run, and what all of them show."""

from collections.abc import Mapping

from interface.cli.output import Screen, escape, one_line, table
from protocol.comparison import ArmFigures, ArmName, ComparedRun, ComparedTerms, Comparison


def union_lines(terms: ComparedTerms) -> list[str]:
    """The two arms, and the limits of both."""
    each, solo = terms.request, terms.solo
    money = [] if each.max_cost_usd is None else [f"${each.max_cost_usd:g}"]
    money += [] if each.max_tokens is None else [f"{each.max_tokens:,} tokens"]
    whole = [] if terms.total_cost_usd is None else [f"${terms.total_cost_usd:g}"]
    whole += [] if terms.total_tokens is None else [f"{terms.total_tokens:,} tokens"]
    ends = f", {' and '.join(whole)} for all" if whole else ""
    return [
        f"team: {', '.join(map(one_line, solo.members))}; one agent: {solo.agent}, with all their prompts and tools",
        *(f"  {one_line(note)}" for note in solo.notes),
        f"at most {terms.repeat} pairs of runs, {' and '.join(money)} for each run{ends}; seed {terms.seed}",
        f"success: {one_line(terms.check)}"
        if terms.check is not None
        else "no --check: nothing will be said of quality",
    ]


def run_line(run: ComparedRun, repeat: int) -> str:
    """One run that has ended."""
    success = "" if run.success is None else ", check passed" if run.success else ", check failed"
    why = f" ({one_line(run.why)[:100]})" if run.why else ""
    took = run.figures
    cost = "" if took.cost_usd is None else f", ${took.cost_usd:.4f}"
    head = f"pair {run.pair}/{repeat}, {run.arm}: {run.status} after {took.seconds:.1f}s"
    return f"{head}{success}{why}, {took.tokens:,.0f} tokens{cost}"


def comparison_lines(seen: Comparison, screen: Screen) -> list[str]:
    """All that the runs show."""
    lines = arms_table(seen.arms, screen)
    lines += [
        f"{name}, team minus solo: {_percent(one.mean)}, between {_percent(one.low)} and {_percent(one.high)}"
        f"{'' if name == 'success' else ' of what both took'}"
        for name, one in seen.differences.items()
    ]
    if seen.differences:
        units = {"cost_usd": "USD", "tokens": "tokens", "mixed": "USD, or tokens where no price is known"}
        lines.append(f"({seen.level:.1%} for each interval, at every look; cost in {units[seen.measure]})")
    style = {"team": "green", "solo": "green"}.get(seen.verdict, "yellow")
    lines.append(f"verdict: {screen.style(seen.verdict, style)}: {seen.quality}")
    if seen.verdict == "undecided" and seen.cheaper is not None:
        lines.append(f"cheaper: {seen.cheaper}")
    if seen.why:
        lines += [escape(line) for line in f"it ended early: {seen.why}".split("\n")]
    return lines


def arms_table(arms: Mapping[ArmName, ArmFigures], screen: Screen) -> list[str]:
    """The means of both arms."""
    header = ["ARM", "SUCCESS", "TOKENS", "COST", "TIME", "HOPS", "COORDINATION", "REWORK"]
    rows: list[list[str]] = []
    for name, arm in arms.items():
        one = arm.figures
        coordination = f"{one.coordination.messages:.0%} of messages, {one.coordination.tokens:.0%} of tokens"
        success = "-" if arm.success is None else f"{arm.success:.0%}"
        cost = "-" if one.cost_usd is None else f"${one.cost_usd:.4f}"
        again = one.rework.retries + one.rework.returned + one.rework.rejected
        took = [f"{one.tokens:,.0f}", cost, f"{one.seconds:.1f}s", f"{one.hops:.1f}", coordination, f"{again:.1f}"]
        rows.append([name, success, *took])
    return table(header, rows, screen) if rows else []


def _percent(part: float) -> str:
    return f"{part:+.0%}"
