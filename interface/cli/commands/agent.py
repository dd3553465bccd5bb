"""``awk agent``: the agents of the project as files, and what they know, noted and have to do. Starts no kernel.

Here are ``list`` and ``info``, and what the other commands under it share: where an agent is, and how answers are
printed. Where a kernel runs, what it says of its agents counts; else their files do.
"""

import argparse
import json
import os
from collections.abc import Callable
from typing import Any, Final

import msgspec

from interface import offline
from interface.agent_dir import AgentDir, agent_name, find_agent
from interface.cli.command_parser import Subcommand, Subcommands, name_argument
from interface.cli.commands.ls import agents_lines
from interface.cli.context import Context
from interface.cli.output import Screen, escape, one_line
from interface.client import Client, quoted
from interface.discovery import URL
from interface.failure import Failure, Unreachable
from protocol.agent import Restart
from protocol.agent_files import AgentDeleted, AgentWritten
from protocol.agent_layout import HOME, agent_file, default_dir
from protocol.tool_documents import ProjectWritten
from protocol.yaml_writer import block

VERBS: Final = Subcommands(
    "agent",
    (
        Subcommand("list", "list the agents of the project"),
        Subcommand("info", "show what an agent is"),
        Subcommand("create", "write the file of a new agent", file="agent_create"),
        Subcommand("edit", "change the file of an agent, in an editor or by KEY=VALUE", file="agent_edit"),
        Subcommand("delete", "move an agent and its context to the trash", file="agent_edit"),
        Subcommand("memory", "show or change what an agent knows", file="agent_context"),
        Subcommand("notes", "show or add notes of an agent", file="agent_context"),
        Subcommand("soul", "show who an agent is, and decide what it suggests of that", file="agent_context"),
        Subcommand("todo", "show or change what an agent has to do", file="agent_context"),
        Subcommand("reindex", "make the index of what agents said and did anew", file="agent_context"),
    ),
)

_SANDBOX: Final = {
    "off": "off: what it runs can do what you can do",
    "on": "on: what it runs sees its project and the system, and nothing else of yours",
    "missing": "on, but bubblewrap is not installed: it is refused work",
}


def run_list(context: Context) -> int:
    try:
        client = context.kernel() if context.environ.get(URL) else context.find_kernel()
        agents = client.get("/agents")
    except Unreachable as error:
        if context.environ.get(URL):
            raise
        context.out.note(context.why_down(error))
        agents = offline.agent_list(context.project.root)
    return context.answer(agents, agents_lines)


def configure_info(parser: argparse.ArgumentParser) -> None:
    name_argument(parser)


def run_info(context: Context) -> int:
    name: str = context.args.name
    try:
        client = context.kernel() if context.environ.get(URL) else context.find_kernel()
        document = client.get(f"/agents/{quoted(name)}")
    except Unreachable as error:
        if context.environ.get(URL):
            raise
        agent_name(name)
        context.out.note(context.why_down(error))
        document = offline.agent_info(context.environ, context.project.root, name)
    info: dict[str, Any] = json.loads(document)
    # What the context holds; None for an agent without one, and where the kernel may be another project's.
    if info["file"] is None or context.environ.get(URL):
        info["context"] = None
    else:
        try:
            info["context"] = msgspec.to_builtins(offline.context_counts(context.project, name))
        except Failure as failure:
            context.out.note(f"skipped: {one_line(failure.text)}")
            info["context"] = None
    return context.answer(json.dumps(info, ensure_ascii=False).encode("utf-8", "replace"), agent_info_lines)


def agent_info_lines(info: dict[str, Any], screen: Screen) -> list[str]:
    facts = {"file": info["file"] or "none: it lives until the kernel stops"}
    reason = f" ({info['reason']})" if info.get("reason") else ""
    until = f" until {info['until']}" if info.get("until") else ""
    facts["state"] = f"{info['state']}{until}{reason}"
    facts["workspaces"] = ", ".join(info.get("workspaces") or ()) or "none"
    facts["sandbox"] = _SANDBOX.get(str(info.get("sandbox")), str(info.get("sandbox")))
    # An attempt that uses more is ended, with all that it started.
    limits = info["definition"].get("limits") or {}
    memory, processes = limits.get("memory"), limits.get("processes")
    said = [f"{memory / 2**20:.0f} MiB of memory" if memory else "", f"{processes} processes" if processes else ""]
    facts["limits"] = ", ".join(filter(None, said)) or "none"
    restart = msgspec.convert(info["definition"].get("restart") or {}, Restart)
    again = f"after {restart.delay:g} s" if restart.delay else "at once"
    facts["restart"] = f"{again}; stopped by {restart.crashes} crashes within {restart.window:g} s"
    counts = info.get("context")
    if counts is not None:
        kept = ", ".join(f"{count} {tier}" for tier, count in counts["memory"].items() if count)
        todo = counts["todo"]
        facts |= {"context": str(counts["dir"]), "memory": kept or "nothing", "notes": str(counts["notes"])}
        facts["todo"] = f"{todo['open']} open, {todo['done']} done"
    definition = {key: value for key, value in info["definition"].items() if key not in {"name", "entry"}}
    return [
        screen.style(one_line(info["name"]), "bold"),
        *(f"  {name + ':':<12} {one_line(text)}" for name, text in facts.items()),
        "",
        *(escape(line) for line in block(definition)),
    ]


def running_kernel(context: Context) -> Client | None:
    """The kernel of this project; None where none runs. Starts nothing.

    Raises Failure where the environment names a kernel that is not there, or of another project: its agents are not
    the files here.
    """
    if not context.environ.get(URL):
        try:
            return context.find_kernel()
        except Unreachable:
            return None
    client = context.kernel()
    about: dict[str, Any] = json.loads(client.get("/status")).get("kernel") or {}
    if about.get("project") != context.project.root:
        text = f"{URL} names the kernel of another project: {about.get('project')}"
        raise Failure("usage", text, f"unset {URL}, or give --project")
    return client


def agent_location(context: Context, name: str) -> AgentDir:
    """The agent's file and context directory, found without a kernel. Raises Failure."""
    root = context.project.root
    try:
        return find_agent(root, name)
    except Failure as failure:
        if failure.code != "unknown_agent":
            raise
    return location_in(root, json.loads(offline.agent_info(context.environ, root, name)))


def agent_file_location(context: Context, name: str) -> AgentDir:
    """As ``place_of``, for who does not need to know what the file says: it may be wrong."""
    try:
        return agent_location(context, name)
    except Failure as failure:
        root, file = context.project.root, agent_file(name)
        if failure.code == "bad_definition" and os.path.lexists(os.path.join(root, file)):
            return AgentDir(root, name, file, default_dir(name))
        if failure.code == "bad_definition" and os.path.lexists(os.path.expanduser(f"{HOME}{file}")):
            return AgentDir(root, name, f"{HOME}{file}", default_dir(name))
        raise


def location_in(root: str, info: dict[str, Any]) -> AgentDir:
    """The location of an agent that a document (AgentInfo) describes."""
    name = str(info["name"])
    context: dict[str, Any] = info["definition"].get("context") or {}
    return AgentDir(root, name, str(info["file"]), str(context.get("dir") or default_dir(name)))


def answer_document(context: Context, document: msgspec.Struct, view: Callable[..., list[str]], *more: object) -> int:
    """Print ``document``, and on stderr what was skipped on the way to it."""
    for line in getattr(document, "skipped", ()):
        context.out.note(f"skipped: {one_line(line)}")
    return context.answer(document, view, *more)


def agent_file_lines(told: AgentWritten | AgentDeleted | ProjectWritten, _screen: Screen) -> list[str]:
    """Return the file; after a deletion how to get it back."""
    if not isinstance(told, AgentDeleted):
        return [one_line(told.file)]
    back = f"; get it back: {told.restore}" if told.restore else ""
    return [one_line(f"deleted {told.agent}{back}")]
