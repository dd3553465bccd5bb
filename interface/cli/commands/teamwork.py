"""``awk space``, ``task`` and ``feedback``: the spaces and tasks of the agents of a run, and their feedback."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from interface.cli.command_parser import Subcommand, Subcommands, generated
from interface.cli.context import Context
from interface.cli.output import Screen, escape, one_line, table
from interface.cli.parsing import WORKFLOW, Arguments, archive_flag, argument, message_argument, switch
from interface.cli.requests import FEEDBACK, TASKS, act, count_flag, fetch_list, show_list
from interface.cli.targets import workflow_target
from interface.client import new_key, quoted
from interface.failure import Failure
from protocol.api.messages import FeedbackAdded, FeedbackList
from protocol.api.workflows import SpaceDocument, SpaceList
from protocol.tasks import TASK_STATES, TaskInfo, TaskList

SPACE_VERBS: Final = Subcommands(
    "space",
    (
        Subcommand("list", "List spaces, their members and their state"),
        Subcommand("create", "Open a space for agents of the project"),
        Subcommand("members", "Add or remove members of a space"),
        Subcommand("close", "Close a space and cancel its work"),
    ),
)
_SPACE: Final = argument("target", metavar="SPACE", help="name of the space, such as @review~design")
_ON_FAILURE: Final = (
    "after a failed dependency: hold (wait for a person, default), skip (start without it), cancel this task"
)
ARGUMENTS: Final[Mapping[str, Arguments]] = {
    "space list": (argument("--run", metavar="RUN", help="spaces of this run (r12), including closed spaces"),),
    "space create": (
        argument("name", metavar="NAME", help="name of the space, for @NAME"),
        argument("--member", metavar="AGENT", action="append", default=[], help="agent to add; repeatable"),
        switch("--open", about="make every agent that is mentioned a member"),
    ),
    "space members": (
        _SPACE,
        argument("--add", metavar="NAME", action="append", default=[], help="member to add; repeatable"),
        argument("--remove", metavar="NAME", action="append", default=[], help="member to remove; repeatable"),
    ),
    "space close": (_SPACE,),
    "task list": (
        WORKFLOW,
        argument("--state", choices=TASK_STATES, help="only tasks in this state"),
        argument("--for", dest="for_", metavar="AGENT", help="only tasks for this agent or claimed by it"),
        count_flag,
        archive_flag,
    ),
    "task show": (WORKFLOW, argument("id", metavar="TASK", help="id (t3) or key of the task"), archive_flag),
    "task add": (
        WORKFLOW,
        argument("title", metavar="TITLE", help="title of the task"),
        argument("--text", metavar="TEXT", default="", help="description of the task"),
        argument("--key", metavar="KEY", help="additional name of the task"),
        argument(
            "--for", dest="for_", metavar="AGENT", help="agent that receives the task (default: any agent can claim it)"
        ),
        argument("--needs", metavar="TASK", action="append", default=[], help="dependency (id or key); repeatable"),
        argument("--parent", metavar="TASK", help="parent task"),
        argument(
            "--files", metavar="GLOB", action="append", default=[], help="files reserved for the task; repeatable"
        ),
        argument("--check", metavar="CMD", help="command that must exit with code 0 before the task is done"),
        argument("--on-failure", choices=("hold", "skip", "cancel"), help=_ON_FAILURE),
    ),
    "task graph": (WORKFLOW, partial(count_flag, default=None, what="number of tasks"), archive_flag),
    "feedback list": (partial(count_flag, what="number of latest entries"),),
    "feedback add": (message_argument,),
}


def run_space_list(context: Context) -> int:
    run: str | None = context.args.run
    query = "" if run is None else f"?run={quoted(run)}"
    return context.answer(context.kernel().get(f"/spaces{query}"), space_lines)


def space_lines(found: SpaceList, screen: Screen) -> list[str]:
    rows = [
        [
            one.space,
            one.state,
            one.run,
            " in ".join(filter(None, (one.opener, one.instruction))),
            ", ".join(one.members),
        ]
        for one in found.spaces
    ]
    return table(["SPACE", "STATE", "RUN", "OPENED BY", "MEMBERS"], rows, screen) if rows else ["no spaces"]


def run_space_create(context: Context) -> int:
    body = {"name": context.args.name, "members": context.args.member, "open": context.args.open}
    return context.answer(context.kernel().post("/spaces", body, key=new_key()), one_space)


def run_space_members(context: Context) -> int:
    args = context.args
    if not args.add and not args.remove:
        raise Failure("usage", "a member is missing", "use --add NAME or --remove NAME")
    body = {"add": args.add, "remove": args.remove}
    return context.answer(context.kernel().post(f"{_space_path(args.target)}/members", body, key=new_key()), one_space)


def run_space_close(context: Context) -> int:
    return context.answer(context.kernel().delete(_space_path(context.args.target)), one_space)


def one_space(one: SpaceDocument, _screen: Screen) -> list[str]:
    return [one_line(f"{one.space} ({one.state}): {', '.join(one.members)}")]


def _space_path(text: str) -> str:
    return f"/spaces/{quoted(str(workflow_target(text).space))}"


TASK_VERBS: Final = Subcommands(
    "task",
    (
        Subcommand("list", "List the tasks of a workflow with their states and assignees"),
        Subcommand("show", "Show a task, its dependencies and its result"),
        Subcommand("add", "Add a task that an agent can claim, or receives with --for"),
        *generated("task"),
        Subcommand("graph", "Show the dependency graph of the tasks"),
    ),
)


def _tasks_path(context: Context) -> str:
    return f"/spaces/{quoted(workflow_target(context.args.target).space)}/tasks"


def run_task_list(context: Context) -> int:
    args = context.args
    query = {name: value for name, value in (("state", args.state), ("for", args.for_)) if value is not None}
    return show_list(context, _tasks_path(context), TASKS, tasks_lines, query)


def tasks_lines(listed: TaskList, screen: Screen) -> list[str]:
    rows = [
        [one.id, one.state, one.holder or one.for_ or "-", ", ".join(one.blocked_by) or "-", one.title]
        for one in listed.tasks
    ]
    return table(["ID", "STATE", "AGENT", "WAITS FOR", "TITLE"], rows, screen) if rows else ["no tasks"]


def run_task_show(context: Context) -> int:
    return context.answer(context.kernel().get(f"{_tasks_path(context)}/{quoted(context.args.id)}"), task_lines)


def task_lines(one: TaskInfo, screen: Screen) -> list[str]:
    key = f" ({one.key})" if one.key else ""
    told = [
        ("for", one.for_),
        ("claimed by", f"{one.holder} since {one.claimed_at}" if one.holder else None),
        ("work", one.instruction),
        ("needs", ", ".join(one.needs)),
        ("waits for", ", ".join(one.blocked_by)),
        ("blocks", ", ".join(one.blocks)),
        ("part of", one.parent),
        ("found in", one.found_in),
        ("files", ", ".join(one.files)),
        ("check", one.check),
        ("on failure", one.on_failure),
        ("planned by", f"{one.creator}, {one.created_at}"),
        ("ended by", f"{one.ended_by}, {one.ended_at}" if one.ended_by else None),
        ("reason", one.reason),
    ]
    lines = [screen.style(one_line(f"{one.id}{key}: {one.title}"), "bold"), one_line(f"state: {one.state}")]
    lines += [one_line(f"{name}: {text}") for name, text in told if text]
    for text in (one.text, one.result):  # indented, so that no text imitates a line of this command
        lines += ["", *(f"  {line}".rstrip() for line in escape(text).strip("\n").split("\n"))] if text.strip() else []
    return lines


def run_task_add(context: Context) -> int:
    names = ("title", "text", "key", "needs", "parent", "files", "check", "on_failure")
    given = {**{name: getattr(context.args, name) for name in names}, "for": context.args.for_}
    body = {"tasks": [{name: value for name, value in given.items() if value}]}
    return context.answer(context.kernel().post(_tasks_path(context), body, key=new_key()), added_lines)


def added_lines(told: dict[str, Any], _screen: Screen) -> list[str]:
    return [one_line(f"{', '.join(told['tasks'])}: planned")]


def ended_lines(told: dict[str, Any], _screen: Screen) -> list[str]:
    return [one_line(f"{row['id']}: {row['state']}") for row in told["tasks"]]


def run_task_graph(context: Context) -> int:
    count = context.args.n or 0
    document = fetch_list(context.kernel(), _tasks_path(context), TASKS, count, {})
    return context.answer(json.dumps(document, ensure_ascii=False).encode(), graph_lines)


_STYLES: Final = {
    "open": "bold", "ready": "yellow", "claimed": "cyan", "done": "green", "failed": "red", "cancelled": "dim",
}  # fmt: skip


def graph_lines(listed: TaskList, screen: Screen) -> list[str]:
    found = {one.id: one for one in listed.tasks}
    below: dict[str, list[TaskInfo]] = {}
    tops: list[TaskInfo] = []
    for one in found.values():
        above = [name for name in one.needs if name in found]
        (below.setdefault(above[-1], []) if above else tops).append(one)
    lines: list[str] = []
    waiting = [(one, 0) for one in reversed(tops)]
    while waiting:
        one, depth = waiting.pop()
        remarks = [
            *([f"@{one.holder or one.for_}"] if one.holder or one.for_ else []),
            *([f"waits for {', '.join(one.blocked_by)}"] if one.blocked_by else []),
            *([f"also needs {', '.join(one.needs[:-1])}"] if len(one.needs) > 1 else []),
        ]
        behind = one_line(f"{one.title} ({'; '.join(remarks)})" if remarks else one.title)
        lines.append(f"{'  ' * depth}{one.id} {screen.style(one.state, _STYLES[one.state])} {behind}")
        waiting += [(follower, depth + 1) for follower in reversed(below.get(one.id, ()))]
    return lines or ["no tasks"]


FEEDBACK_VERBS: Final = Subcommands(
    "feedback", (Subcommand("list", "List feedback on the work"), Subcommand("add", "Add feedback"))
)


def run_feedback_list(context: Context) -> int:
    return show_list(context, "/feedback", FEEDBACK, feedback_lines)


def feedback_lines(found: FeedbackList, screen: Screen) -> list[str]:
    lines: list[str] = []
    for one in found.feedback:
        where = f" in {one.space}" if one.space else ""
        lines.append(screen.style(one_line(f"{one.id}  {one.author}{where}, {one.at}"), "bold"))
        lines += [f"  {line}".rstrip() for line in escape(one.text).rstrip("\n").split("\n")]
    return lines or ["no feedback"]


def run_feedback_add(context: Context) -> int:
    return act(context, "/feedback", (), feedback_added_lines, {"text": context.message()})


def feedback_added_lines(found: FeedbackAdded, _screen: Screen) -> list[str]:
    return [one_line(found.feedback.id)]
