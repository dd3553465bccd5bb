"""``awk agent delete``: an agent's file and context go to the trash; a kernel that runs forgets what was said to it.

An agent with work that has not ended stays.
"""

import argparse
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from interface import inspecting
from interface.cli.agent_verbs.whereabouts import place_of_file, running_kernel
from interface.cli.agent_verbs.words import name_argument
from interface.cli.asking import agrees, can_ask
from interface.cli.context import Context
from interface.cli.escape import one_line
from interface.client import Client, quoted
from interface.context.place import Place, agent_name
from interface.context.trash import Trashed, move_away, put_back, remove_conversations
from interface.failure import Failure, Unreachable
from protocol.agent_files import AgentDeleted
from protocol.personal import AGENTS, TRASH, agent_file

_NOT_KNOWN: Final = frozenset({"unknown_agent", "not_found"})


def configure(parser: argparse.ArgumentParser) -> None:
    """NAME, and whether to ask."""
    name_argument(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run(context: Context) -> int:
    """Ask where a person can answer, move it, and say how to get it back."""
    name = agent_name(context.args.name)
    client = running_kernel(context)
    if client is not None and _is_ephemeral(client, name):
        return _told(context, _end(context, client, name))
    place = place_of_file(context, name)
    if place.file != agent_file(name):
        raise Failure("usage", f"{name} is defined in {place.file}", "take it out of the project file")
    if client is not None:
        _check_idle(client, name)
    uses = _uses(place)
    said = ", and remove what was said to it for good" if client is not None else ""
    for use in uses if can_ask(context) else ():
        context.out.note(f"note: {use}")
    if not agrees(context, f"move {name} and its context to {AGENTS}/{TRASH}{said}?"):
        raise Failure("failed", "nothing was deleted")
    trashed = move_away(place, context.clock.wall())
    remarks = [f"{trashed.left} was not made for {name}, and stays where it is"] if trashed.left else []
    remarks += [*uses, *_forget(client, trashed)]
    document = AgentDeleted(agent=name, trash=trashed.folder, restore=trashed.way_back, remarks=tuple(remarks))
    return _told(context, document, known=uses if can_ask(context) else ())


def _uses(place: Place) -> list[str]:
    """What will not start any more. That nobody can tell is no reason to keep the agent."""
    try:
        files = inspecting.workflows_with(place.root, place.name)
    except Failure:
        return []
    return [f"{file} refers to {place.name}: it does not start without it" for file in files]


def _told(context: Context, document: AgentDeleted, known: Sequence[str] = ()) -> int:
    for remark in document.remarks:
        if remark in known:
            continue
        context.out.note(f"note: {one_line(remark)}")
    return context.answer(msgspec.json.encode(document), "agent_file")


def _is_ephemeral(client: Client, name: str) -> bool:
    try:
        info: dict[str, Any] = json.loads(client.get(f"/agents/{quoted(name)}"))
    except Failure:
        return False  # its file may be wrong, and is to be deleted for that
    return bool(info["ephemeral"])


def _end(context: Context, client: Client, name: str) -> AgentDeleted:
    """Delete an agent without a file. Raises Failure (conflict) where it has work."""
    if not agrees(context, f"end {name}, which has no file, and remove what was said to it for good?"):
        raise Failure("failed", "nothing was deleted")
    client.delete(f"/agents/{quoted(name)}")
    return AgentDeleted(agent=name, trash=None, restore=None)


def _check_idle(client: Client, name: str) -> None:
    """Raise Failure (conflict) where the kernel knows of work that has not ended."""
    try:
        queue: list[dict[str, Any]] = json.loads(client.get(f"/agents/{quoted(name)}/queue"))["instructions"]
    except Failure:
        return  # the kernel does not know it, or cannot read its file
    if queue:
        some = ", ".join(f"{row['id']} ({row['status']})" for row in queue[:5])
        text = f"{name} has work that has not ended: {some}" + (" and more" if len(queue) > 5 else "")
        hint = f"wait for it, or end it: awk cancel {queue[0]['id']}"
        raise Failure("conflict", text, hint)


def _forget(client: Client | None, trashed: Trashed) -> list[str]:
    """Have the kernel forget the agent. Raises Failure where it will not; then all is where it was."""
    place: Place = trashed.place
    if client is None:
        return [f"no kernel runs: what was said to {place.name} stays in the log"]
    try:
        client.delete(f"/agents/{quoted(place.name)}")
    except Unreachable as error:
        return [f"what was said to {place.name} may still be in the log: {error}"]
    except Failure as failure:
        if failure.code not in _NOT_KNOWN:
            with suppress(OSError):
                put_back(trashed)
            raise
    remove_conversations(trashed)
    return []
