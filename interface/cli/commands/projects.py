"""``awk projects``, and functions for ``-A`` of other commands: all projects of this user in which a kernel has run."""

import json
import shlex
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, Final

from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, one_line, read_fields, table
from interface.cli.process_table import target_of
from interface.client import Client
from interface.discovery import URL, Project
from interface.failure import Failure
from interface.projects import Answer, Standing, ask_all, client_of, is_down, look, projects_of_user

Table = dict[str, Any]
"""A protocol.api.Ps as JSON."""
MARGIN_SECONDS: Final = 5.0
"""Additional time to stop all kernels, compared with one kernel."""


def refuse_named_kernel(context: Context) -> None:
    """Raise Failure (usage) if the environment selects a single kernel."""
    if context.environ.get(URL):
        raise Failure("usage", f"-A and {URL} cannot be combined", f"unset {URL}")


def tell_missing(context: Context, answers: Sequence[Answer[Any]]) -> int:
    """Report the projects without an answer on stderr. Returns how many of these projects have a kernel."""
    count = 0
    for project, _value, failure in answers:
        if failure is None:
            continue
        where = f"--project {shlex.quote(project.root)}"
        down = is_down(failure, project)
        count += not down
        why = "its kernel has exited" if down else str(failure)
        context.out.note(one_line(f"note: no data for {project.root}: {why}; see {context.program} status {where}"))
    return count


def ps_of_all(
    context: Context, path: str, chosen: Callable[[bytes], bytes], lines: Callable[[bytes], list[str]]
) -> int:
    """Print the tables at ``path`` of all projects, filtered by ``chosen``. Returns 69 if a kernel did not answer."""
    refuse_named_kernel(context)

    def ask(project: Project) -> Table | None:
        with closing(client_of(project)) as client:
            document = client.get(path)
        try:
            table: Table = json.loads(chosen(document))
        except Failure as failure:
            if failure.code != "not_found":
                raise
            return None  # the requested agent is in another project
        return table

    answers = ask_all(projects_of_user(context.environ, context.cwd, running=True), ask)
    for answer in answers:
        if isinstance(answer.failure, Failure) and answer.failure.code == "usage":
            raise answer.failure
    unreachable = tell_missing(context, answers)
    found = [(project.root, table) for project, table, _ in answers if table is not None]
    if not found and context.args.targets and not unreachable:
        hint = "list agents: awk ps -A; with -a also ended ones"
        raise Failure("not_found", f"no project has the agent {one_line(' '.join(context.args.targets))}", hint)
    if context.args.json:
        agents = [{**row, "project": root} for root, table in found for row in table["agents"]]
        document = {"schema": "awk/ps/1", "agents": agents, "needs": sum(listed["needs"] for _, listed in found)}
        context.out.document(json.dumps({**document, "notice": None}, ensure_ascii=False).encode())
    for root, listed in () if context.args.json else found:
        body = json.dumps(listed, ensure_ascii=False).encode()
        if context.args.quiet:
            where = one_line(f"--project {shlex.quote(root)}")
            context.out.lines([f"{one_line(target_of(row))} {where}" for row in read_fields(body).agents])
            continue
        context.out.lines([context.out.screen.style(f"{one_line(root)}:", "bold"), *lines(body)])
        if listed.get("notice"):
            context.out.note(one_line(f"note: {root}: {listed['notice']}"))
    if not found and not context.args.json and not context.args.quiet:
        context.out.lines(["no kernel is running"])
    return Exit.NO_KERNEL if unreachable else Exit.OK


def stop_all(context: Context, agrees: Callable[[str], bool], end: Callable[[Client], bool], end_seconds: float) -> int:
    """Stop the kernels of all projects concurrently. Returns 69 if one does not answer, 124 on timeout.

    ``end`` stops a kernel. It returns False if the process has not exited in time (``end_seconds``).
    """
    refuse_named_kernel(context)
    projects = projects_of_user(context.environ, context.cwd, running=True)

    def busy(project: Project) -> list[str]:
        with closing(client_of(project)) as client:
            return [row["name"] for row in json.loads(client.get("/ps"))["agents"] if row["state"] == "running"]

    looks = ask_all(projects, busy)
    unreachable = tell_missing(context, looks)
    there = [(look.project, look.value) for look in looks if look.value is not None]
    if not there:
        context.out.note("no other kernel runs" if unreachable else "no kernel is running")
        return Exit.NO_KERNEL if unreachable else Exit.OK
    working = [f"{', '.join(names)} of {project.root} running" for project, names in there if names]
    if working and not agrees(f"{one_line('; '.join(working))}; stop {len(there)} kernels anyway?"):
        raise Failure("failed", "no kernel was stopped")

    def stop(project: Project) -> bool:
        with closing(client_of(project)) as client:
            return end(client)

    ends = ask_all([project for project, _ in there], stop, end_seconds + MARGIN_SECONDS)
    for project, ended, _failure in ends:
        word = ("stopping" if context.args.no_wait else "stopped") if ended else "has not ended:"
        if ended is not None:
            context.out.lines([one_line(f"{word} {project.root}")])
    failed = tell_missing(context, ends) or unreachable
    if any(answer.value is False for answer in ends):
        return Exit.TIMEOUT
    return Exit.NO_KERNEL if failed else Exit.OK


_STYLES = {
    "up": "green",
    "dead": "red",
    "silent": "red",
    "unverified": "red",
    "safe_mode": "yellow",
    "removed": "yellow",
}


def run_projects(context: Context) -> int:
    refuse_named_kernel(context)
    known = projects_of_user(context.environ, context.cwd)
    rows = [
        answer.value or Standing(answer.project.root, "silent", answer.project.state, text=str(answer.failure))
        for answer in ask_all(known, lambda project: look(project, context.program))
    ]
    document = {"schema": "awk/projects/1", "projects": [row._asdict() for row in rows]}
    context.answer(json.dumps(document, ensure_ascii=False).encode(), projects_lines)
    return Exit.NO_KERNEL if any(row.state in ("silent", "unverified") for row in rows) else Exit.OK


def projects_lines(body: bytes, screen: Screen) -> list[str]:
    rows = read_fields(body).projects
    if not rows:
        return ["no kernel ever ran here"]
    cells = [
        [
            row.project,
            screen.style(row.state.replace("_", " "), _STYLES.get(row.state, "dim")),
            *("-" if value is None else str(value) for value in (row.pid, row.needs, row.running)),
        ]
        for row in rows
    ]
    lines = table(
        ["PROJECT", "STATE", "PID", "NEEDS", "RUNNING"], cells, screen, right=frozenset({"PID", "NEEDS", "RUNNING"})
    )
    for row in rows:
        if row.text is not None:
            lines.append(one_line(f"{row.project}: {row.text}"))
        if row.command is not None:
            lines.append(f"  {one_line(row.command)}")
    return lines
