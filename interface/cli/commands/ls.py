"""``awk ls`` and ``new``: the agents of the project and of workflows that run; an agent without a file is made."""

import argparse
import json

from interface.cli.context import Context
from interface.cli.output import Screen, table
from interface.client import new_key
from protocol.api.agents import AgentList


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
