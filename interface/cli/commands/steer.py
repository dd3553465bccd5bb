"""Commands that control work: each posts one action for its targets and prints the resulting state.

``pause``, ``resume``, ``continue`` and ``unblock`` take an agent or a workflow, ``reset`` an agent, ``answer``,
``reassign``, ``cancel``, ``retry`` and ``promote`` instructions. ``cancel`` and ``retry`` can also select many
instructions: the kernel then changes them in one commit. On a terminal, ``cancel`` first shows the selection.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from interface.cli.context import Context
from interface.cli.exits import Exit, of_failure
from interface.cli.output import Screen, decode, one_line
from interface.cli.parsing import AGENT, TARGET, Arguments, argument, json_flag, switch, target_argument
from interface.cli.prompts import can_ask, confirm
from interface.cli.requests import NOTHING, Row, act
from interface.cli.targets import agent_path, agent_target, target, target_query
from interface.client import Client, new_key, quoted
from interface.failure import Failure
from protocol.api.agents import AgentChanged
from protocol.api.instructions import BulkReport, InstructionsChanged, Unblocked
from protocol.api.workflows import WorkflowRow
from protocol.names import number_of
from protocol.target import Target

SHOWN: Final = 20
"""Maximum number of rows for people; ``--json`` prints up to a thousand."""
_TARGET: Final = (target_argument, json_flag)
_SELECTION: Final = (
    argument("ids", metavar="ID|@WORKFLOW[:TAG]", nargs="*", help="instructions (i7 i8), or all of @review"),
    argument("--agent", metavar="AGENT", help="all instructions of this agent: alice or alice@review[:tag]"),
    switch("--dry-run", about="print the selected instructions without changes; not with ids"),
    json_flag,
)
_QUESTION: Final = argument("ids", metavar="ID", nargs=1, help="instruction that waits for a person (i7)")
ARGUMENTS: Final[Mapping[str, Arguments]] = {
    "pause": _TARGET,
    "resume": _TARGET,
    "continue": _TARGET,
    "unblock": (partial(target_argument, about=f"{TARGET}, or an instruction (i7)"), json_flag),
    "reset": (argument("target", metavar="TARGET", help=AGENT), json_flag),
    "promote": (argument("ids", metavar="ID", nargs="+", help="id of an instruction (i7)"), json_flag),
    "cancel": (
        *_SELECTION,
        switch("--queued", about="only queued instructions; running instructions continue"),
        switch("--yes", about="cancel a selection without confirmation; ids need none"),
    ),
    "retry": (
        *_SELECTION,
        switch("--all", about="all instructions that awk dead lists"),
        switch("--fresh", about="start from the beginning; side effects may occur twice"),
    ),
    "answer": (
        _QUESTION,
        argument("message", metavar="TEXT", help="answer, or - to read standard input"),
        argument("--as", dest="name", metavar="AGENT", help="fail if another agent is now the assignee"),
        json_flag,
    ),
    "reassign": (
        _QUESTION,
        argument("to", metavar="AGENT", help="new assignee: a human or model agent of the workspace"),
        json_flag,
    ),
}


def chosen(context: Context) -> Mapping[str, object] | None:
    """Return the selection for the kernel; None for ids. Raises Failure (usage)."""
    words: list[str] = context.args.ids
    agent: str | None = context.args.agent
    named = [word for word in words if "@" in word]
    flags = {name: True for name in ("queued", "all") if getattr(context.args, name, False)}
    if not (named or flags or agent is not None):
        if words and not context.args.dry_run:
            return None
        wrong = "--dry-run cannot be combined with ids" if words else "ID is missing"
        raise Failure("usage", wrong, _example(context))
    if len(words) > 1 or named != words:
        other = next((word for word in words if word not in named), words[-1])
        raise Failure("usage", f"ids and {one_line(other[:60])!r} cannot be combined", _example(context))
    flags.pop("all", None)
    if agent is None:
        return {**(target_query(named[0]) if named else {}), **flags}
    by_agent = agent_target(agent)
    if named and (target(named[0]).agent is not None or by_agent.workflow is not None):
        raise Failure("usage", "conflicting targets: name one agent and one workflow", _example(context))
    return {**target_query("".join([agent, *named])), **flags}


def _example(context: Context) -> str:
    word, more = ("cancel", "--queued") if hasattr(context.args, "queued") else ("retry", "--all")
    return f"{context.program} {word} i7, or one of: {more}, --agent alice, @review, --agent alice @review"


def change_many(context: Context, action: str, body: Mapping[str, object]) -> int:
    """Request ``action`` (cancel, retry) for the selection in ``body``; cancelling asks first or requires ``--yes``."""
    client = context.kernel()
    path = f"/instructions/{action}"
    if action == "cancel" and not context.args.dry_run and not context.args.yes:
        if not can_ask(context):
            text = "cancelling needs confirmation, because it cannot be undone"
            raise Failure("usage", text, "confirm with --yes; --dry-run lists the instructions")
        look = client.post(path, {**body, "dry_run": True}, key=new_key())
        context.out.notes(bulk_lines(look, context.out.error_screen))
        count = json.loads(look)["matched"]
        if not count:
            return Exit.OK
        confirm(context, f"cancel {count:,}?", "nothing was cancelled")
    answer = client.post(path, {**body, "dry_run": context.args.dry_run}, key=new_key())
    context.answer(answer, bulk_lines)
    report: dict[str, Any] = json.loads(answer)
    if action == "cancel" or not report["kept"]:
        return Exit.OK  # work that has already ended counts as success
    return of_failure(str(report["kept"][0]["code"]))


def bulk_lines(body: bytes, screen: Screen) -> list[str]:
    """Return a line for each changed instruction, and a line with the reason for each unchanged instruction."""
    report = decode(body, BulkReport)
    done = {"cancel": "cancelled", "retry": "queued again"}[report.action]
    count = report.matched if report.dry_run else report.changed
    what = f"{count:,} {'instruction' if count == 1 else 'instructions'}"
    head = f"{what} would be {done}" if report.dry_run else f"{what} {done}"
    left = f"; {report.left:,} running not changed" if report.left else ""
    lines = [screen.style(head + left, "bold")]
    for one in report.instructions[:SHOWN]:
        where = "" if one.space.startswith("dm:") else f" in {one.space}"
        lines.append(f"  {one_line(f'{one.id} {one.status} ({one.agent}{where})')}")
    if count > SHOWN:
        lines.append(f"  and {count - SHOWN:,} more")
    lines += [f"  {one_line(f'{one.id} not changed: {one.detail}')}" for one in report.kept[:SHOWN]]
    if report.rest:
        lines.append(f"  {report.rest:,} more not changed: run the command again")
    missing = sum(report.kept_by.values()) - SHOWN
    return [*lines, *([f"  and {missing:,} more not changed"] if missing > 0 else [])]


def act_on_target(context: Context, what: str, parse: Callable[[str], Target] = target) -> int:
    """Post ``what`` (pause, resume, continue) to an agent or a workflow."""
    asked = parse(context.args.target)
    client = context.kernel()
    path = f"/workflows/{quoted(str(asked.workflow))}/{quoted(asked.tag)}/{what}"
    path = path if asked.agent is None else agent_path(asked, what)
    return act(context, path, (), changed_lines, client=client)


act_on_agent = partial(act_on_target, parse=agent_target)
run_pause = partial(act_on_target, what="pause")
run_resume = partial(act_on_target, what="resume")
run_continue = partial(act_on_target, what="continue")
run_reset = partial(act_on_agent, what="reset")


_DONE: Final = {
    "resume": "resumed",
    "continue": "continued",
    "retry": "retried",
    "reset": "reset",
    "restart": "restarted",
}


def run_unblock(context: Context) -> int:
    return act(context, "/unblock", (), unblocked_lines, {"target": context.args.target})


def unblocked_lines(done: Unblocked, _screen: Screen) -> list[str]:
    goes_on = f"; continues: {', '.join(done.instructions)}" if done.instructions else ""
    return [one_line(f"{_DONE[done.action]} {done.subject}, which was blocked: {done.because}{goes_on}")]


def changed_lines(body: bytes, _screen: Screen) -> list[str]:
    if b'"schema":"awk/agent-state/1"' not in body:
        row = decode(body, WorkflowRow)
        return [one_line(f"@{row.name}:{row.tag} is {'paused' if row.paused else row.state}")]
    agent = decode(body, AgentChanged)
    name = agent.name if agent.space is None else f"{agent.name}@{agent.space}"
    until = f" until {agent.until}" if agent.until else ""
    why = f" ({agent.reason})" if agent.reason else ""
    goes_on = f"; resumes: {', '.join(agent.instructions)}" if agent.instructions else ""
    return [one_line(f"{name} is {agent.state}{until}{why}{goes_on}")]


def run_cancel(context: Context) -> int:
    many = chosen(context)
    return act_on_ids(context, "cancel") if many is None else change_many(context, "cancel", many)


def run_answer(context: Context) -> int:
    named = {} if context.args.name is None else {"as": context.args.name}
    return act_on_ids(context, "answer", {"text": context.message(), **named})


def run_reassign(context: Context) -> int:
    return act_on_ids(context, "reassign", {"to": context.args.to})


def run_retry(context: Context) -> int:
    many, body = chosen(context), {"fresh": context.args.fresh}
    return act_on_ids(context, "retry", body) if many is None else change_many(context, "retry", {**many, **body})


def run_promote(context: Context) -> int:
    def earlier(client: Client, row: Row) -> str | None:
        space = str(row["space"])
        named = row["agent"] if space.startswith("dm:") else f"{row['agent']}@{space}"
        try:
            queue = json.loads(client.get(agent_path(target(named), "queue")))["instructions"]
        except Failure:
            return None  # the queue is not available: omit the note about the position
        urgent = [str(one["id"]) for one in queue if one["lane"] == "immediate"]
        older = [name for name in urgent if int(name[1:]) < int(row["id"][1:])]
        return f"{row['id']} comes after {', '.join(older)}: they are as urgent, and older" if older else None

    return act_on_ids(context, "promote", remark=earlier)


def act_on_ids(context: Context, what: str, body: Mapping[str, object] = NOTHING, **more: Any) -> int:
    """Post ``what`` to the instructions in the arguments. Raises Failure (usage) if an id is invalid."""
    ids: list[str] = context.args.ids
    for name in ids:
        if number_of(name, "i") is None:
            text = f"{name[:60]!r} is not the id of an instruction"
            raise Failure("usage", text, "ids such as i7 are listed by awk queue and awk dead")
    return act(context, f"/instructions/{{}}/{what}", ids, instructions_lines, body, **more)


def instructions_lines(told: InstructionsChanged, _screen: Screen) -> list[str]:
    return [one_line(f"{one.id} {one.status} ({one.agent}, {one.lane})") for one in told.instructions]
