"""``awk agent``: agents of the project as files, with their memory, notes and todo lists. Starts no kernel.

This module has ``list`` and ``info``, and code that the other subcommands share: the location of an agent, and the
output. Data about agents comes from the running kernel, or from the files if no kernel runs.
"""

import argparse
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from interface import offline
from interface.agent_dir import AgentDir, agent_name, find_agent, open_agents, open_context
from interface.claude_file import translate
from interface.cli.command_parser import Subcommand, Subcommands, name_argument
from interface.cli.commands.project_setup import header, write_schemas
from interface.cli.context import Context
from interface.cli.output import Screen, escape, one_line, table
from interface.cli.parsing import Arguments, flag, switch
from interface.client import Client, new_key, quoted
from interface.discovery import URL
from interface.failure import Failure, Unreachable
from protocol.agent import Restart
from protocol.agent_files import AgentDeleted, AgentWritten
from protocol.agent_layout import AGENT_SUFFIX, HOME, PARTS, agent_file, default_dir
from protocol.api.agents import AgentList
from protocol.inspection import ProjectWritten
from protocol.yaml_writer import Value, block, document

AGENT_VERBS: Final = Subcommands(
    "agent",
    (
        Subcommand("list", "List the agents of the project"),
        Subcommand("info", "Show the definition and the state of an agent"),
        Subcommand("create", "Create an agent"),
        Subcommand("edit", "Edit the file of an agent in $EDITOR or with KEY=VALUE", file="agent_edit"),
        Subcommand("delete", "Move an agent and its context to the trash", file="agent_edit"),
        Subcommand("memory", "Show or change the memory of an agent", file="agent_context"),
        Subcommand("notes", "Show or add notes of an agent", file="agent_context"),
        Subcommand("soul", "Show the traits of an agent and decide on the changes it proposes", file="agent_context"),
        Subcommand("todo", "Show or change the to-do list of an agent", file="agent_context"),
        Subcommand("reindex", "Rebuild the search index of agents' conversations", file="agent_context"),
    ),
)
ARGUMENTS: Final[Mapping[str, Arguments]] = {
    "agent list": (switch("--running", about="require a kernel or its stored log (default: read the files)"),),
    "agent info": (name_argument,),
}

_SANDBOX: Final = {
    "off": "off: its programs have all your permissions",
    "on": "on: its programs can access the project and system files, but not your other files",
    "missing": "on, but bubblewrap is not installed: the agent receives no work",
}


def run_agent_list(context: Context) -> int:
    try:
        client = context.kernel() if context.environ.get(URL) else context.find_kernel()
        agents = client.get("/agents")
    except Unreachable as error:
        if context.environ.get(URL):
            raise
        stored = context.stored_log(error)
        if stored is None and context.args.running:
            raise Failure("no_kernel", str(error), f"start it with: {context.program} start") from error
        if stored is None:
            context.out.note(context.why_down(error))
            return context.answer(offline.agents.agent_list(Path(context.project.root)), agents_lines)
        agents = stored.get("/agents")
    return context.answer(agents, agents_lines)


def agents_lines(found: AgentList, screen: Screen) -> list[str]:
    rows: list[list[str]] = []
    for one in found.agents:
        wrong = one.error and f"{one.error}{'' if one.state == 'error' else ' (the previous version stays in effect)'}"
        rows.append([one.name, one.state, one.backend, one.model or "-", one.source, wrong or one.file or "-"])
    if not rows:
        return ["no agents; create one: awk agent create NAME -m MODEL"]
    return table(["NAME", "STATE", "BACKEND", "MODEL", "SOURCE", "FILE"], rows, screen)


def run_agent_info(context: Context) -> int:
    name: str = context.args.name
    try:
        client = context.kernel() if context.environ.get(URL) else context.find_kernel()
        info: dict[str, Any] = json.loads(client.get(f"/agents/{quoted(name)}"))
    except Unreachable as error:
        if context.environ.get(URL):
            raise
        agent_name(name)
        context.out.note(context.why_down(error))
        info = _info_of_files(context, name)
    # The counts of the context come from files: none for an ephemeral agent or a kernel that AGENT_WORKER_URL names.
    if info["file"] is None or context.environ.get(URL):
        info["context"] = None
    else:
        try:
            info["context"] = msgspec.to_builtins(offline.agents.context_counts(*offline.paths(context.project), name))
        except Failure as failure:
            context.out.note(f"skipped: {one_line(failure.text)}")
            info["context"] = None
    return context.answer(json.dumps(info, ensure_ascii=False).encode("utf-8", "replace"), agent_info_lines)


def _info_of_files(context: Context, name: str) -> dict[str, Any]:
    shell = offline.shell_environment(context.environ)
    info: dict[str, Any] = msgspec.to_builtins(offline.agents.agent_info(Path(context.project.root), name, shell))
    return info


def agent_info_lines(info: dict[str, Any], screen: Screen) -> list[str]:
    facts = {"file": info["file"] or "none (ephemeral: exists until the kernel stops)"}
    reason = f" ({info['reason']})" if info.get("reason") else ""
    until = f" until {info['until']}" if info.get("until") else ""
    facts["state"] = f"{info['state']}{until}{reason}"
    facts["workspaces"] = ", ".join(info.get("workspaces") or ()) or "none"
    facts["sandbox"] = _SANDBOX.get(str(info.get("sandbox")), str(info.get("sandbox")))
    # The kernel ends an attempt that exceeds these limits, with all its processes.
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
    """Return a client of the project's kernel; None if none runs. Raises Failure if the environment names another."""
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
    """Return the file and context directory of an agent, found without a kernel. Raises Failure."""
    root = context.project.root
    try:
        return find_agent(root, name)
    except Failure as failure:
        if failure.code != "unknown_agent":
            raise
    return location_in(root, _info_of_files(context, name))


def agent_file_location(context: Context, name: str) -> AgentDir:
    """Return the location of an agent even if its file is invalid."""
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
    name = str(info["name"])
    context: dict[str, Any] = info["definition"].get("context") or {}
    return AgentDir(root, name, str(info["file"]), str(context.get("dir") or default_dir(name)))


def answer_document(context: Context, document: msgspec.Struct, view: Callable[..., list[str]], *more: object) -> int:
    """Print ``document``; report skipped parts on stderr."""
    for line in getattr(document, "skipped", ()):
        context.out.note(f"skipped: {one_line(line)}")
    return context.answer(document, view, *more)


def agent_file_lines(told: AgentWritten | AgentDeleted | ProjectWritten, _screen: Screen) -> list[str]:
    """Return the name of the changed file, or, after a deletion, the command that restores the file."""
    if not isinstance(told, AgentDeleted):
        return [one_line(told.file)]
    back = f"; to restore it: {told.restore}" if told.restore else ""
    return [one_line(f"deleted {told.agent}{back}")]


_MARKDOWN = ".md"


class _Source(NamedTuple):
    """Keys and remarks from ``--from``, and the name of the ephemeral agent if ``--from`` names one."""

    keys: dict[str, Value]
    remarks: tuple[str, ...] = ()
    ephemeral: str | None = None


def configure_agent_create(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="name of the new agent")
    flag(parser, "--ephemeral", about="create an agent without a file; the agent exists until the kernel stops")
    parser.add_argument("--tag", metavar="TAG", help="create a separate instance, named NAME-TAG")
    parser.add_argument("-m", "--model", metavar="MODEL", help="model as provider/name, or an alias")
    parser.add_argument("-b", "--backend", metavar="BACKEND", help="backend that runs the agent (default: sdk)")
    prompt = parser.add_mutually_exclusive_group()
    prompt.add_argument("-s", "--system", metavar="TEXT", help="system prompt")
    prompt.add_argument("--system-file", metavar="FILE", help="project file that contains the system prompt")
    parser.add_argument("--role", metavar="R", help="role of the agent in a few words")
    parser.add_argument("--expertise", metavar="A,B", help="areas of expertise, separated by commas")
    about = "convert this ephemeral agent or Claude Code file"
    parser.add_argument("--from", dest="source", metavar="AGENT|FILE.md", help=about)


def create_ephemeral(context: Context) -> int:
    """Create an agent without a file and print its name. Starts a kernel if none runs."""
    args = context.args
    if args.model is None:
        raise Failure("usage", "-m/--model is missing", "for example: -m provider/name")
    if args.system_file or args.role or args.expertise or args.source:
        raise Failure("usage", "--ephemeral only accepts --tag, -m, -b and -s", "leave it out to create an agent file")
    given = {name: getattr(args, name) for name in ("name", "model", "backend", "system")}
    body = {name: value for name, value in given.items() if value is not None}
    is_mock = body.get("backend") == _MOCK or str(body["model"]).startswith(f"{_MOCK}/")
    reply = (
        {"mock": [{"text": "You said: ${{ message.text }}"}]} if is_mock else {"system": "You are a helpful assistant."}
    )
    document = context.started_kernel().post("/agents", {**reply, **body}, key=new_key())
    return context.answer(document, created_lines)


def created_lines(made: dict[str, Any], _screen: Screen) -> list[str]:
    return [str(made["name"])]


def run_agent_create(context: Context) -> int:
    if context.args.tag is not None:
        context.args.name = f"{context.args.name or 'agent'}-{context.args.tag}"
    if context.args.ephemeral:
        return create_ephemeral(context)
    if context.args.name is None:
        raise Failure("usage", "NAME is missing", "see awk agent create --help")
    root, name = context.project.root, agent_name(context.args.name)
    path = agent_file(name)
    exists = Failure("already_exists", f"agent {name!r} already exists ({path})", f"use: awk agent edit {name}")
    if os.path.lexists(os.path.join(root, path)):
        raise exists
    client = running_kernel(context)
    source = _source(context, client, name)
    if client is not None and source.ephemeral != name:
        check_name_is_free(client, name)
    keys = completed(name, merged(source.keys, keys_of_flags(context)))
    if "model" not in keys and keys.get("backend") not in (_MOCK, _HUMAN):
        raise Failure("usage", "-m/--model is missing", "for example: -m provider/name")
    text = header(path) + agent_text(keys)
    faults = offline.places_of(offline.agents.check_agent_text(Path(root), name, text, new=True).errors)
    if faults:
        raise Failure("bad_definition", f"{faults[0].message}; no file was written", faults[0].hint, places=faults)
    try:
        with open_agents(root, make=True) as folder:
            folder.write(f"{name}{AGENT_SUFFIX}", text, new=True)
    except FileExistsError as error:
        raise exists from error
    except OSError as error:
        raise Failure("failed", f"{path} cannot be written: {error.strerror or error}") from error
    place = find_agent(root, name)
    write_schemas(root)
    remarks = (*source.remarks, *make_context(place))
    if source.ephemeral is not None and client is not None:
        remarks += replace_ephemeral(client, source.ephemeral, place.name)
    for remark in remarks:
        context.out.note(f"note: {one_line(remark)}")
    document = AgentWritten(agent=name, file=place.file, changed=True, remarks=remarks)
    return context.answer(document, agent_file_lines)


def _source(context: Context, client: Client | None, name: str) -> _Source:
    asked: str | None = context.args.source
    if asked is None:
        return _Source({})
    if asked.endswith(_MARKDOWN) or os.sep in asked:
        keys, lost = translate(os.path.join(context.cwd, asked), name)
        return _Source(keys, tuple(f"not converted: {what}" for what in lost))
    if client is None:
        hint = "start the kernel, or name a .md file"
        raise Failure("no_kernel", f"no kernel is running to look up agent {asked}", hint)
    info: dict[str, Any] = json.loads(client.get(f"/agents/{quoted(asked)}"))
    if not info["ephemeral"]:
        raise Failure("usage", f"{asked} already has a file: {info['file']}", f"copy it to {agent_file(name)}")
    given = info["definition"].items()
    keys = {key: value for key, value in given if key not in {"name", "entry"} and value is not None}
    return _Source(keys, ephemeral=asked)


def check_name_is_free(client: Client, name: str) -> None:
    rows: list[dict[str, Any]] = json.loads(client.get("/agents"))["agents"]
    if any(row["name"] == name and row["ephemeral"] for row in rows):
        text = f"ephemeral agent {name} already exists"
        raise Failure("already_exists", text, f"create its file: awk agent create {name} --from {name}")


def keys_of_flags(context: Context) -> dict[str, Value]:
    args = context.args
    keys: dict[str, Value] = {key: getattr(args, key) for key in ("model", "backend") if getattr(args, key)}
    if args.system is not None:
        keys["prompt"] = {"system": args.system}
    elif args.system_file is not None:
        # Convert the user's path of a file to a path relative to the project's root. Raises Failure (usage).
        root = context.project.root
        path = os.path.relpath(os.path.realpath(os.path.join(context.cwd or root, args.system_file)), root)
        if path.startswith(os.pardir):
            hint = "keep the file in the project"
            raise Failure("usage", f"{args.system_file} is outside the project at {root}", hint)
        keys["prompt"] = {"system_file": path}
    soul: Mapping[str, Value] = {
        "role": args.role,
        "expertise": [word.strip() for word in (args.expertise or "").split(",") if word.strip()],
    }
    said = {key: value for key, value in soul.items() if value}
    return {**keys, "soul": said} if said else keys


def make_context(place: AgentDir) -> tuple[str, ...]:
    """Create the context directory and its subdirectories, unless it exists. Return remarks for the user."""
    there = os.path.isdir(os.path.join(place.root, place.directory))
    try:
        with open_context(place, make=True) as folder:
            for name in PARTS:
                folder.folder(name, make=True).close()
    except (OSError, Failure) as error:
        return (f"{place.directory}: {error}",)
    return (f"{place.name} uses the existing context in {place.directory}",) if there else ()


def replace_ephemeral(client: Client, ephemeral: str, name: str) -> tuple[str, ...]:
    """Replace the ephemeral agent by the agent of the new file, unless it has work. Return remarks for the user."""
    try:
        if ephemeral == name:
            client.delete(f"/agents/{quoted(ephemeral)}")
        else:
            client.post(f"/agents/{quoted(ephemeral)}/rename", {"to": name}, key=new_key())
    except (Failure, Unreachable) as error:
        why = f"{ephemeral} still exists beside {name}: {error}"
        return (why, f"delete it after its work has ended: awk agent delete {ephemeral}")
    if ephemeral == name:
        return (f"{name} keeps its queue and conversation",)
    return (f"{ephemeral} was renamed to {name} with its conversation",)


_ORDER: Final = ("model", "backend", "provider", "prompt", "soul")
_MOCK: Final = "mock"
_HUMAN: Final = "human"


def completed(name: str, keys: Mapping[str, Value]) -> dict[str, Value]:
    """Return ``keys`` with defaults for missing required keys: a prompt, or a mock script."""
    model = str(keys.get("model", ""))
    plays = keys.get("backend") == _MOCK or model.startswith(f"{_MOCK}/")
    if plays and "mock" not in keys:
        return {**keys, "mock": [{"text": f"I am {name}. Write what I do into .agents/{name}.yaml, under mock."}]}
    if not plays and "prompt" not in keys and keys.get("backend") != _HUMAN:
        soul = keys.get("soul")
        role = soul.get("role") if isinstance(soul, Mapping) else None
        what = f", {role}" if isinstance(role, str) and role else ""
        return {**keys, "prompt": {"system": f"You are {name}{what}."}}
    return dict(keys)


def merged(keys: Mapping[str, Value], said: Mapping[str, Value]) -> dict[str, Value]:
    """Return ``keys`` updated with ``said``; the traits of a soul are merged."""
    old, new = keys.get("soul"), said.get("soul")
    soul = {**old, **new} if isinstance(old, Mapping) and isinstance(new, Mapping) else None
    return {**keys, **said, **({"soul": soul} if soul else {})}


def agent_text(keys: Mapping[str, Value]) -> str:
    """Return the agent file for ``keys``, in the usual order."""
    return document({key: keys[key] for key in (*_ORDER, *keys) if key in keys})
