"""``awk projects``: all projects of this user in which a kernel ran, and how each is; starts none."""

import json

from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, one_line, read_fields, table
from interface.cli.user_projects import refuse_named_kernel
from interface.projects import Standing, ask_all, look, projects_of_user

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
