"""Where an agent is: its files, the kernel if one runs; and answers that say what was skipped on the way."""

import json
import os
from typing import Any

import msgspec

from interface import inspecting
from interface.cli.context import Context
from interface.cli.escape import one_line
from interface.client import Client
from interface.context.place import Place, find_agent
from interface.discovery import URL
from interface.failure import Failure, Unreachable
from protocol.personal import agent_file, default_dir


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


def place_of(context: Context, name: str) -> Place:
    """Where the agent's file and context are, without a kernel. Raises Failure."""
    root = context.project.root
    try:
        return find_agent(root, name)
    except Failure as failure:
        if failure.code != "unknown_agent":
            raise
    return place_in(root, json.loads(inspecting.agent_info(context.environ, root, name)))


def note_unread(context: Context, what: str) -> None:
    """Say that what was just kept is for people so far: no agent's prompt has it."""
    context.out.note(f"note: {what} is kept, and agents do not read it yet")


def place_of_file(context: Context, name: str) -> Place:
    """As ``place_of``, for who does not need to know what the file says: it may be wrong."""
    try:
        return place_of(context, name)
    except Failure as failure:
        file = agent_file(name)
        if failure.code != "bad_definition" or not os.path.lexists(os.path.join(context.project.root, file)):
            raise
        return Place(context.project.root, name, file, default_dir(name))


def place_in(root: str, info: dict[str, Any]) -> Place:
    """The place of an agent that a document (AgentInfo) describes."""
    name = str(info["name"])
    context: dict[str, Any] = info["definition"].get("context") or {}
    return Place(root, name, str(info["file"]), str(context.get("dir") or default_dir(name)))


def answer(context: Context, document: msgspec.Struct, view: str, *more: object) -> int:
    """Print ``document``, and on stderr what was skipped on the way to it."""
    for line in getattr(document, "skipped", ()):
        context.out.note(f"skipped: {one_line(line)}")
    return context.answer(msgspec.json.encode(document), view, *more)
