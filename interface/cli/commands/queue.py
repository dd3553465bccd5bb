"""``awk ls``, ``new``, ``inbox``, ``queue`` and ``dead``: agents, and the work that waits for them or failed."""

import argparse
import json
from typing import Final

from interface.cli.context import Context
from interface.cli.output import Screen, escape, table
from interface.cli.parsing import json_flag, target_argument
from interface.cli.requests import DEAD, INBOX, QUEUE, act, count_flag, show_list
from interface.cli.targets import agent_path, agent_target
from interface.client import new_key
from protocol.api.agents import AgentList
from protocol.api.instructions import Dead, DeadCleared, QueueReport
from protocol.api.messages import Inbox


def run_ls(context: Context) -> int:
    return context.answer(context.kernel().get("/agents"), agents_lines)


def agents_lines(found: AgentList, screen: Screen) -> list[str]:
    rows: list[list[str]] = []
    for one in found.agents:
        wrong = one.error and f"{one.error}{'' if one.state == 'error' else ' (what it said before counts)'}"
        rows.append([one.name, one.state, one.backend, one.model or "-", one.source, wrong or one.file or "-"])
    if not rows:
        return ["no agents: write .agents/<name>.yaml, or see init"]
    return table(["NAME", "STATE", "BACKEND", "MODEL", "SOURCE", "FILE"], rows, screen)


def configure_new(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="its name (default: the kernel picks one)")
    parser.add_argument("-m", "--model", metavar="MODEL", required=True, help="provider/name, or an alias")
    parser.add_argument("-b", "--backend", metavar="BACKEND", help="what runs it (default: sdk)")
    parser.add_argument("-s", "--system", metavar="TEXT", help="its system prompt (default: a short one)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run_new(context: Context) -> int:
    given = {name: getattr(context.args, name) for name in ("name", "model", "backend", "system")}
    body = {name: value for name, value in given.items() if value is not None}
    completed: dict[str, object]  # what the kernel asks for and nobody gave: a prompt, or the script of a mock
    if body.get("backend") == "mock" or str(body["model"]).startswith("mock/"):
        completed = {"mock": [{"text": "You said: ${{ message.text }}"}], **body}
    else:
        completed = {"system": "You are a helpful assistant.", **body}
    answer = context.started_kernel().post("/agents", completed, key=new_key())
    if context.args.json:
        context.out.document(answer)
    else:
        context.out.lines([str(json.loads(answer)["name"])])
    return 0


DEFAULT_COUNT: Final = 200


def configure_queue(parser: argparse.ArgumentParser) -> None:
    target_argument(parser)
    count_flag(parser)
    json_flag(parser)


def run_queue(context: Context) -> int:
    asked = agent_target(context.args.target)
    client = context.kernel()
    return show_list(context, agent_path(client, asked, "queue"), QUEUE, queue_lines)


def queue_lines(report: QueueReport, screen: Screen) -> list[str]:
    if not report.instructions:
        return [f"nothing waits for {escape(report.agent)}"]
    header = ["ID", "LANE", "STATUS", "ATTEMPT", "STEP", "PREEMPTED", "ENQUEUED", "WAITS FOR", "UNTIL"]
    rows: list[list[str]] = []
    for row in report.instructions:
        counts = [str(row.attempt), str(row.step), str(row.preempted)]
        rows.append([row.id, row.lane, row.status, *counts, row.enqueued_at, row.waits_for or "-", row.until or "-"])
    return table(header, rows, screen, right=frozenset({"ATTEMPT", "STEP", "PREEMPTED"}))


def configure_inbox(parser: argparse.ArgumentParser) -> None:
    target_argument(parser)
    count_flag(parser, DEFAULT_COUNT)
    json_flag(parser)


def run_inbox(context: Context) -> int:
    asked = agent_target(context.args.target)
    client = context.kernel()
    return show_list(context, agent_path(client, asked, "inbox"), INBOX, inbox_lines, {"space": asked.space})


def inbox_lines(inbox: Inbox, screen: Screen) -> list[str]:
    if not inbox.deliveries:
        return [f"nothing is open for {escape(inbox.agent)} in {escape(inbox.space)}"]
    rows = [[row.message_id, row.sender, row.state, row.flag or "-", row.text] for row in inbox.deliveries]
    return table(["ID", "FROM", "STATE", "FLAG", "TEXT"], rows, screen)


def configure_dead(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--clear", action="store_true", help="list what failed until now no more; show and retry still know it"
    )
    count_flag(parser, what="the last N")
    json_flag(parser)


def run_dead(context: Context) -> int:
    if context.args.clear:
        return act(context, "/dead/clear", (), dead_cleared_lines)
    return show_list(context, "/dead", DEAD, dead_lines)


def dead_lines(found: Dead, screen: Screen) -> list[str]:
    header = ["ID", "AGENT", "SPACE", "STATUS", "CLASS", "CAUSE", "ATTEMPTS", "DIED", "TEXT"]
    rows = [
        [row.id, row.agent, row.space, row.status, row.error_class, row.cause, str(row.attempts), row.died_at, row.text]
        for row in found.instructions
    ]
    return table(header, rows, screen, right=frozenset({"ATTEMPTS"})) if rows else ["nothing failed for good"]


def dead_cleared_lines(found: DeadCleared, _screen: Screen) -> list[str]:
    count = found.instructions
    return [f"{count} {'instruction is' if count == 1 else 'instructions are'} listed no more"]
