"""A comparison for people: the union, a line for each run, and what all of them show."""

from collections.abc import Iterator, Mapping, Sequence

from interface.cli.output import Screen, escape, one_line, table
from protocol.comparison import ArmFigures, ComparedRun, ComparedTerms, Comparison


def union_lines(terms: ComparedTerms) -> list[str]:
    """What is compared with what, and within which limits."""
    money = [] if terms.max_cost_usd is None else [f"${terms.max_cost_usd:g}"]
    money += [] if terms.max_tokens is None else [f"{terms.max_tokens:,} tokens"]
    whole = [] if terms.total_cost_usd is None else [f"${terms.total_cost_usd:g}"]
    whole += [] if terms.total_tokens is None else [f"{terms.total_tokens:,} tokens"]
    ends = f", {' and '.join(whole)} for all" if whole else ""
    return [
        f"team: {', '.join(map(one_line, terms.members))}; one agent: {terms.agent}, with all their prompts and tools",
        *(f"  {one_line(note)}" for note in terms.notes),
        f"at most {terms.repeat} pairs of runs, {' and '.join(money)} for each run{ends}; seed {terms.seed}",
        f"success: {one_line(terms.check)}"
        if terms.check is not None
        else "no --check: nothing will be said of quality",
    ]


def run_line(run: ComparedRun, repeat: int) -> str:
    """One run that has ended."""
    success = "" if run.success is None else ", check passed" if run.success else ", check failed"
    why = f" ({one_line(run.why)[:100]})" if run.why else ""
    cost = "" if run.cost_usd is None else f", ${run.cost_usd:.4f}"
    head = f"pair {run.pair}/{repeat}, {run.arm}: {run.status} after {run.seconds:.1f}s"
    return f"{head}{success}{why}, {run.tokens:,} tokens{cost}"


def comparison_lines(seen: Comparison, screen: Screen) -> list[str]:
    """What all runs show."""
    lines = list(_figures(seen.arms, screen))
    lines += [
        f"{name}, team minus solo: {_percent(one.mean)}, between {_percent(one.low)} and {_percent(one.high)}"
        f"{'' if name == 'success' else ' of what both took'}"
        for name, one in seen.differences.items()
    ]
    if seen.differences:
        lines.append(f"({seen.level:.1%} for each interval, at every look; cost in {_measure(seen)})")
    style = {"team": "green", "solo": "green"}.get(seen.verdict, "yellow")
    lines.append(f"verdict: {screen.style(seen.verdict, style)}: {seen.quality}")
    if seen.verdict == "undecided" and seen.cheaper is not None:
        lines.append(f"cheaper: {seen.cheaper}")
    if seen.why:
        lines += [escape(line) for line in f"it ended early: {seen.why}".split("\n")]
    return lines


def _measure(seen: Comparison) -> str:
    return {"cost_usd": "USD", "tokens": "tokens", "mixed": "USD, or in tokens where no price is known"}[seen.measure]


def _figures(arms: Mapping[str, ArmFigures], screen: Screen) -> Iterator[str]:
    if not arms:
        return
    header = ["ARM", "SUCCESS", "TOKENS", "COST", "TIME", "HOPS", "COORDINATION", "REWORK"]
    rows: list[Sequence[str]] = []
    for name, one in arms.items():
        coordination = f"{one.coordination.messages:.0%} of messages, {one.coordination.tokens:.0%} of tokens"
        success = "-" if one.success is None else f"{one.success:.0%}"
        cost = "-" if one.cost_usd is None else f"${one.cost_usd:.4f}"
        took = (f"{one.tokens:,.0f}", cost, f"{one.seconds:.1f}s", f"{one.hops:.1f}", coordination, f"{one.rework:.1f}")
        rows.append([name, success, *took])
    yield from table(header, rows, screen)


def _percent(part: float) -> str:
    return f"{part:+.0%}"
