"""``awk needs``: list work that is blocked until a person acts, with commands; exit code 7 if there is any.

``-A`` covers all projects of the user with a running kernel and starts none. ``-f`` follows the list.
"""

import argparse
import functools
import json
import queue
import shlex
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from typing import Any, Final

from interface.cli.commands.permissions import show_approvals
from interface.cli.commands.projects import refuse_named_kernel, tell_missing
from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, one_line, read_fields
from interface.cli.parsing import all_projects_flag, flag, json_flag
from interface.cli.process_table import since
from interface.cli.requests import NEEDS, Document, count_flag, fetch_list, tell_rest
from interface.client import PING, Client
from interface.discovery import Project
from interface.event_follow import CONNECTED, Follower
from interface.failure import Failure, Unreachable
from interface.projects import Answer, ask_all, client_of, projects_of_user

MOVING: Final = frozenset({"delta", "progress", "message", "instruction.step", "worker.log", "attempt.started"})
"""Types of events that neither create nor settle a need."""
LOOK_SECONDS: Final = 2.0
"""Interval of checks for new kernels of other projects."""
_STYLES: Final = {"approval": "yellow", "vote": "yellow", "dead": "dim"}


def configure_needs(parser: argparse.ArgumentParser) -> None:
    flag(parser, "-f", "--follow", about="print new and resolved items as they change")
    parser.add_argument("id", metavar="APPROVAL", nargs="?", help="approval request (a3) to show in full")
    flag(parser, "--approvals", about="list only approval requests, with their input; always exit with code 0")
    flag(parser, "--rules", about="list the approval rules of awk approve --always; awk deny deletes one")
    all_projects_flag(parser, "include all your projects with a running kernel")
    count_flag(parser)
    json_flag(parser)


def run_needs(context: Context) -> int:
    if context.args.approvals or context.args.rules or context.args.id is not None:
        if context.args.follow or context.args.all_projects:
            raise Failure("usage", "-f and -A exclude approvals", "leave out APPROVAL, --approvals and --rules")
        return show_approvals(context)
    if context.args.all_projects:
        refuse_named_kernel(context)
    if context.args.follow:
        return follow(context)
    unreachable = 0
    if not context.args.all_projects:
        document = needs_of(context.kernel(), context.args.n)
    else:
        document, answers = of_all_projects(context, context.args.n)
        unreachable = tell_missing(context, answers)
    body = json.dumps(document, ensure_ascii=False).encode()
    context.answer(body, needs_lines, context.clock.wall())
    tell_rest(context, document, NEEDS)
    return Exit.UNTRUSTED if document["total"] else Exit.NO_KERNEL if unreachable else Exit.OK


def needs_of(client: Client, count: int) -> Document:
    return fetch_list(client, "/needs", NEEDS, count, {})


def of_all_projects(context: Context, count: int) -> tuple[Document, list[Answer[Document]]]:
    """Return the needs of all projects with a running kernel as one list, and the answer or failure of each project."""

    def ask(project: Project) -> Document:
        with closing(client_of(project)) as client:
            return needs_of(client, count)

    answers = ask_all(projects_of_user(context.environ, context.cwd, running=True), ask)
    told = [(project.root, found) for project, found, _failure in answers if found is not None]
    items: list[dict[str, Any]] = [{**item, "project": root} for root, found in told for item in found["items"]]
    for item in items:
        where = f" --project {shlex.quote(item['project'])}"
        item["actions"] = [{**action, "command": action["command"] + where} for action in item["actions"]]
    left_out = next((found["next"] for _, found in told if found["next"]), None)
    total = sum(found["total"] for _, found in told)
    return {"schema": "awk/needs/1", "total": total, "next": left_out, "items": items}, answers


def needs_lines(body: bytes, screen: Screen, now: float) -> list[str]:
    return _by_project(read_fields(body).items, screen, now) or ["nothing needs you"]


def _by_project(items: Iterable[Any], screen: Screen, now: float) -> list[str]:
    project = None
    lines: list[str] = []
    for item in items:
        where = getattr(item, "project", None)
        if where != project:
            project = where
            lines.append(screen.style(f"{one_line(str(where))}:", "bold"))
        lines += need_lines(item, screen, now)
    return lines


def need_lines(item: Any, screen: Screen, now: float) -> list[str]:
    """Return the lines of one need: its text, which agents may have written, and commands that are safe to run."""
    ids = [*item.blocks][:8]
    more = f" and {len(item.blocks) - len(ids)} more" if len(item.blocks) > len(ids) else ""
    facts = (
        one_line(item.id),
        *(() if item.space is None or item.space.startswith("dm:") else (f"in {one_line(item.space)}",)),
        *((f"for {since(now, item.since)}",) if item.since else ()),
        *((f"blocks {one_line(', '.join(ids))}{more}",) if ids else ()),
    )
    kind = screen.style(one_line(item.kind), _STYLES.get(item.kind, "red"))
    commands = [f"  {one_line(action.command)}  # {one_line(action.label)}" for action in item.actions]
    return [f"{kind}: {one_line(item.text)} ({', '.join(facts)})", *commands]


Key = tuple[str | None, str, str]
"""Key of a need: project (None without ``-A``), kind and id."""


def follow(context: Context) -> int:
    """Print the current needs, then each new and resolved need, until Ctrl-C."""
    shown: dict[Key, Any] | None = None
    for document, answered in of_many_as_they_change(context) if context.args.all_projects else _of_one(context):
        # Needs of a project whose kernel does not answer just now are not resolved: keep them.
        now = {key: item for key, item in (shown or {}).items() if key[0] not in answered}
        now |= {(item.get("project"), item["kind"], item["id"]): item for item in document["items"]}
        if shown is not None and now.keys() == shown.keys():
            continue
        body = json.dumps(document, ensure_ascii=False).encode()
        if context.args.json:
            context.out.document(body)
        else:
            context.out.lines(_changes(context, shown, now, body))
        shown = now
    raise AssertionError


def _of_one(context: Context) -> Iterator[tuple[Document, set[str | None]]]:
    context.kernel().close()
    follower = Follower(connect=context.find_kernel, query={}, clock=context.clock, say=context.out.note)
    for event in follower:
        if event.type in MOVING and event not in (CONNECTED, PING):
            continue
        assert follower.client is not None
        with suppress(Unreachable):  # the stream breaks as well, and the query is repeated after its next connect
            yield needs_of(follower.client, 0), {None}


def of_many_as_they_change(context: Context) -> Iterator[tuple[Document, set[str]]]:
    """Yield the needs of all projects and the roots of the projects that answered; again after each event or start."""
    changed: queue.SimpleQueue[str] = queue.SimpleQueue()
    followed: set[str] = set()

    def listen(project: Project) -> None:
        connect = functools.partial(client_of, project)
        follower = Follower(connect=connect, query={}, clock=context.clock, say=lambda _: None)
        with suppress(Failure, Unreachable):
            for event in follower:
                if event.type not in MOVING or event in (CONNECTED, PING):
                    changed.put(project.root)
        followed.discard(project.root)

    def now() -> tuple[Document, set[str]]:
        document, answers = of_all_projects(context, 0)
        return document, {answer.project.root for answer in answers if answer.value is not None}

    yield now()
    while True:
        for project in projects_of_user(context.environ, context.cwd, running=True):
            if project.root not in followed:
                followed.add(project.root)
                threading.Thread(target=listen, args=(project,), name="needs", daemon=True).start()
        with suppress(queue.Empty):
            changed.get(timeout=LOOK_SECONDS)
            while not changed.empty():
                changed.get()
            yield now()


def _changes(context: Context, before: dict[Key, Any] | None, now: dict[Key, Any], body: bytes) -> list[str]:
    screen, wall = context.out.screen, context.clock.wall()
    if before is None:
        return needs_lines(body, screen, wall)
    gone = [
        one_line(f"settled: {kind} {name}{'' if project is None else f' of {project}'}")
        for project, kind, name in before
        if (project, kind, name) not in now
    ]
    items = read_fields(body).items
    new = [item for item in items if (getattr(item, "project", None), item.kind, item.id) not in before]
    return [*gone, *_by_project(new, screen, wall)]
