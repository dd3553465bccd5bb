"""``awk ls``: the agents of the project, and of the workflows that run.

``awk new``: an agent without a file, kept until the kernel is stopped.

The agents of the project.
"""

import argparse
import json

import msgspec

from interface.cli.context import Context
from interface.cli.output import Screen, table
from interface.cli.parsing import json_flag
from interface.client import new_key
from protocol.api.agents import AgentList, AgentRow


def configure_ls(parser: argparse.ArgumentParser) -> None:
    """No arguments of its own."""
    json_flag(parser)


def run_ls(context: Context) -> int:
    """Print every agent and where it is defined."""
    return context.answer(context.kernel().get("/agents"), agents_lines)


def configure_new(parser: argparse.ArgumentParser) -> None:
    """[NAME] and what to run."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="its name (default: the kernel picks one)")
    parser.add_argument("-m", "--model", metavar="MODEL", required=True, help="provider/name, or an alias")
    parser.add_argument("-b", "--backend", metavar="BACKEND", help="what runs it (default: sdk)")
    parser.add_argument("-s", "--system", metavar="TEXT", help="its system prompt (default: a short one)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run_new(context: Context) -> int:
    """Make it, and print its name."""
    given = {name: getattr(context.args, name) for name in ("name", "model", "backend", "system")}
    body = {name: value for name, value in given.items() if value is not None}
    # body with what the kernel asks for and nobody gave: a prompt, or the script of a mock.
    completed: dict[str, object]
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


def agents_lines(body: bytes, screen: Screen) -> list[str]:
    """One line for each agent; its source is a file, a running workflow, or "ephemeral": until the kernel stops."""
    agents = msgspec.json.decode(body, type=AgentList).agents
    if not agents:
        return ["no agents: write .agents/<name>.yaml, or see init"]
    return table(["NAME", "STATE", "BACKEND", "MODEL", "SOURCE", "FILE"], [_row(agent) for agent in agents], screen)


def _row(agent: AgentRow) -> list[str]:
    wrong = agent.error and f"{agent.error}{'' if agent.state == 'error' else ' (what it said before counts)'}"
    return [agent.name, agent.state, agent.backend, agent.model or "-", agent.source, wrong or agent.file or "-"]
