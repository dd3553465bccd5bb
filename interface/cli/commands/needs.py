"""``awk needs``: what goes on only once a person does something, with commands that settle it; exit 7 if there is any.

With ``-A`` it is that of all projects of this user whose kernel runs; none is started.
"""

import argparse
import json
import shlex
from contextlib import closing
from typing import Any, Final

from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, one_line, read_fields
from interface.cli.paging import NEEDS, Document, count_flag, fetch_list, tell_rest
from interface.cli.parsing import json_flag
from interface.client import PING, Client
from interface.discovery import URL, known_projects, prove, recorded_endpoint
from interface.event_follow import CONNECTED, Follower
from interface.failure import Failure, Unreachable

MOVING: Final = frozenset({"delta", "progress", "message", "instruction.step", "worker.log", "attempt.started"})
"""Events that neither make nor settle a need."""
_STYLES: Final = {"approval": "yellow", "vote": "yellow", "dead": "dim"}


def configure_needs(parser: argparse.ArgumentParser) -> None:
    """[-f] [-A] [-n N]."""
    parser.add_argument("-f", "--follow", action="store_true", help="go on: say what comes, and what is settled")
    parser.add_argument(
        "-A",
        "--all-projects",
        action="store_true",
        help="of all your projects whose kernel runs, not of this one alone",
    )
    count_flag(parser)
    json_flag(parser)


def run_needs(context: Context) -> int:
    """Print what needs a person. Returns 7 if something does, 0 if nothing."""
    if context.args.follow:
        if context.args.all_projects:
            raise Failure("usage", "-f follows one project", "leave out -A")
        return follow(context)
    document = of_all_projects(context) if context.args.all_projects else needs_of(context.kernel(), context.args.n)
    body = json.dumps(document, ensure_ascii=False).encode()
    context.answer(body, needs_lines, context.clock.wall())
    tell_rest(context, document, NEEDS)
    return Exit.UNTRUSTED if document["total"] else Exit.OK


def needs_of(client: Client, count: int) -> Document:
    """The first ``count`` needs (0: all) of one kernel."""
    return fetch_list(client, "/needs", NEEDS, count, {})


def of_all_projects(context: Context) -> Document:
    """The needs of every project whose kernel runs, each with its project, for which its commands are meant."""
    if context.environ.get(URL):
        raise Failure("usage", f"-A asks the kernels of this user's projects, and {URL} names one", f"unset {URL}")
    items: list[Any] = []
    total = 0
    left_out: str | None = None
    for project in known_projects(context.environ, context.cwd):
        endpoint = recorded_endpoint(project)
        if endpoint is None:
            continue
        try:
            with closing(Client(endpoint, prove(endpoint).connection)) as client:
                found = needs_of(client, context.args.n)
        except Unreachable:
            continue  # it was killed, or goes just now
        total += found["total"]
        left_out = left_out or found["next"]
        where = f" --project {shlex.quote(project.root)}"
        for item in found["items"]:
            actions = [{**action, "command": action["command"] + where} for action in item["actions"]]
            items.append({**item, "project": project.root, "actions": actions})
    return {"schema": "awk/needs/1", "total": total, "next": left_out, "items": items}


def needs_lines(body: bytes, screen: Screen, now: float) -> list[str]:
    """For each what it is, and the commands that settle it; ``now`` is wall seconds, for ages."""
    items = read_fields(body).items
    project = None
    lines: list[str] = []
    for item in items:
        where = getattr(item, "project", None)
        if where != project:
            project = where
            lines.append(screen.style(f"{one_line(str(where))}:", "bold"))
        lines += need_lines(item, screen, now)
    return lines or ["nothing needs you"]


def need_lines(item: Any, screen: Screen, now: float) -> list[str]:
    """One need. Only its first line has words of an agent: what follows may be run as it stands."""
    from interface.cli.process_table import age, seconds_between  # noqa: PLC0415  (JSON needs no table)

    passed = seconds_between(now, item.since)
    ids = [*item.blocks][:8]
    more = f" and {len(item.blocks) - len(ids)} more" if len(item.blocks) > len(ids) else ""
    facts = (
        one_line(item.id),
        *(() if item.space is None or item.space.startswith("dm:") else (f"in {one_line(item.space)}",)),
        *(() if passed is None else (f"for {age(-passed)}",)),
        *((f"blocks {one_line(', '.join(ids))}{more}",) if ids else ()),
    )
    kind = screen.style(one_line(item.kind), _STYLES.get(item.kind, "red"))
    commands = [f"  {one_line(action.command)}  # {one_line(action.label)}" for action in item.actions]
    return [f"{kind}: {one_line(item.text)} ({', '.join(facts)})", *commands]


def follow(context: Context) -> int:
    """Print what there is, then each need as it comes and as it is settled, until Ctrl-C."""
    context.kernel().close()
    shown: dict[tuple[str, str], Any] | None = None
    follower = Follower(connect=context.find_kernel, query={}, clock=context.clock, say=context.out.note)
    for event in follower:
        if event.type in MOVING and event not in (CONNECTED, PING):
            continue
        assert follower.client is not None
        try:
            document = needs_of(follower.client, 0)
        except Unreachable:
            continue  # the stream breaks too, and the next connect asks again
        found = {(item["kind"], item["id"]): item for item in document["items"]}
        if found.keys() == (None if shown is None else shown.keys()):
            continue
        body = json.dumps(document, ensure_ascii=False).encode()
        if context.args.json:
            context.out.document(body)
        else:
            context.out.lines(_changes(context, shown, found, body))
        shown = found
    raise AssertionError


def _changes(
    context: Context, before: dict[tuple[str, str], Any] | None, now: dict[tuple[str, str], Any], body: bytes
) -> list[str]:
    screen, wall = context.out.screen, context.clock.wall()
    if before is None:
        return needs_lines(body, screen, wall)
    gone = [one_line(f"settled: {kind} {name}") for kind, name in before if (kind, name) not in now]
    items = read_fields(body).items
    new = [item for item in items if (item.kind, item.id) not in before]
    return [*gone, *(line for item in new for line in need_lines(item, screen, wall))]
