"""``awk ps`` and ``top``: the process table, printed once or live. A terminal gets the columns that fit, a pipe all."""

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from interface.cli.context import Context
from interface.cli.output import Screen, one_line, read_fields, table
from interface.cli.parsing import TARGET, all_projects_flag, flag, json_flag
from interface.failure import Failure

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from interface.cli.process_table import Column
    from protocol.api.processes import Ps


def configure_ps(parser: "argparse.ArgumentParser") -> None:
    parser.add_argument("targets", metavar="TARGET", nargs="*", help=TARGET)
    flag(parser, "-a", "--all", about="include agents of ended workflows, and list each idle agent")
    all_projects_flag(parser, "include all your projects with a running kernel")
    flag(parser, "-q", "--quiet", about="print only names, as other commands accept them")
    parser.add_argument("--sort", metavar="COLUMN", help="sort column, largest number first; -COLUMN: reverse order")
    parser.add_argument("-o", "--columns", metavar="COLUMNS", help="columns to print, in this order: name,state,cost")
    json_flag(parser)


def run_ps(context: Context) -> int:
    args = context.args
    if args.json and (args.quiet or args.columns is not None):
        raise Failure("usage", "-q and -o cannot be combined with --json")
    shown = _columns(args.columns) if args.columns is not None else None
    folds = not (args.all or args.targets)
    if args.all_projects:
        from interface.cli.commands.projects import ps_of_all  # noqa: PLC0415  (most ask one kernel)

        now, screen = context.clock.wall(), context.out.screen
        shows = partial(ps_lines, screen=screen, now=now, shown=shown, folds=folds)
        return ps_of_all(context, ps_path(args), partial(_chosen, args=args), shows)
    document = context.kernel().get(ps_path(args))
    notice = json.loads(document).get("notice")
    document = _chosen(document, args)
    if args.quiet:
        from interface.cli.process_table import target_of  # noqa: PLC0415  (as above)

        context.out.lines([one_line(target_of(row)) for row in read_fields(document).agents])
    else:
        context.answer(document, partial(ps_lines, folds=folds), context.clock.wall(), shown)
    if notice and not args.quiet:
        context.out.note(f"note: {one_line(str(notice))}")
    return 0


def ps_path(args: "argparse.Namespace") -> str:
    """Return the path of the rows that are printed: thousands of idle agents become one line."""
    listed = args.targets or args.quiet or args.json
    return "/ps?all=true" if args.all else "/ps" if listed else f"/ps?idle={IDLE_ROWS}"


def _columns(text: str) -> "list[Column]":
    from interface.cli.process_table import BY_WORD  # noqa: PLC0415  (most tables have all columns)

    words = [word.strip().lower().rstrip("%$") for word in text.split(",")]
    for word in words:
        if word not in BY_WORD:
            raise Failure("usage", f"ps has no column {word[:40]!r}", f"columns: {', '.join(BY_WORD)}")
    return [BY_WORD[word] for word in words]


def _chosen(document: bytes, args: "argparse.Namespace") -> bytes:
    targets, sort = args.targets, args.sort
    if not targets and sort is None:
        return document
    from interface.cli.process_table import sort_key  # noqa: PLC0415  (as above)

    table: dict[str, Any] = json.loads(document)
    rows: list[dict[str, Any]] = table["agents"]
    if targets:
        from interface.cli.targets import matches, target  # noqa: PLC0415  (the grammar takes time to compile)

        asked = [target(text) for text in targets]
        missing = [one for one in asked if not any(matches([one], row["name"], row["space"]) for row in rows)]
        if missing and (not args.all_projects or len(missing) == len(asked)):
            hint = "list agents: awk ps; with -a also ended ones"
            raise Failure("not_found", f"agent {one_line(str(missing[0]))} not found", hint)
        rows = [row for row in rows if matches(asked, row["name"], row["space"])]
    if sort is not None:
        backwards, word = sort.startswith("-"), _columns(sort.removeprefix("-"))[0].title.lower().rstrip("%$")
        key = sort_key(word)
        rows = sorted(rows, key=lambda row: key(read_fields(json.dumps(row).encode())), reverse=backwards)
    return json.dumps({**table, "agents": rows}, ensure_ascii=False).encode()


def header_lines(needs: int, screen: Screen) -> list[str]:
    return [screen.style(f"{needs:,} need you (awk needs)", "yellow")] if needs else []


def configure_top(parser: "argparse.ArgumentParser") -> None:
    flag(parser, "--bell", about="ring the bell for new needs, and notify the desktop if the terminal can")
    json_flag(parser)


def run_top(context: Context) -> int:
    watched = context.out.is_terminal and not context.out.unattended and not context.args.json
    if not watched:
        return context.answer(context.kernel().get("/ps"), ps_lines, context.clock.wall())
    from interface.cli.commands.live_table import watch  # noqa: PLC0415  (rich costs more than the rest of a command)

    context.kernel().close()
    return watch(context)


IDLE_ROWS = 10
"""Number of idle agents up to which each has a row."""


def ps_lines(
    body: bytes, screen: Screen, now: float, shown: "Sequence[Column] | None" = None, *, folds: bool = False
) -> list[str]:
    """Return the table; ``folds``: many idle agents become one line."""
    from interface.cli.process_table import cells, columns_for, fitting  # noqa: PLC0415  (JSON needs no table)

    report: Ps = read_fields(body)
    agents = [row for row in report.agents if row.state != "idle"]
    idle = len(report.agents) - len(agents) + report.idle
    if not folds or idle <= IDLE_ROWS:
        agents, idle = list(report.agents), 0
    wanted = columns_for(agents) if shown is None else shown
    rows = [cells(row, now, wanted) for row in agents]
    if shown is None:
        wanted = wanted[: fitting(wanted, rows, screen.width)]
    right = frozenset(column.title for column in wanted if column.right)
    lines = [] if idle else ["no agents"]
    if rows:
        lines = table([column.title for column in wanted], [row[: len(wanted)] for row in rows], screen, right=right)
    folded = [f"{idle:,} idle (awk ps -a lists them)"] if idle else []
    return [*header_lines(report.needs, screen), *lines, *folded]
