"""``awk agent info``: what an agent is, and how much it knows; from its files where no kernel runs."""

import argparse
import json
from typing import Any

import msgspec

from interface import inspecting
from interface.cli.agent_verbs.whereabouts import place_in
from interface.cli.agent_verbs.words import name_argument
from interface.cli.context import Context
from interface.cli.escape import one_line
from interface.client import quoted
from interface.context.memory import recall
from interface.context.notes import read_notes
from interface.context.place import Place, agent_name
from interface.context.todo import read_todos
from interface.discovery import URL
from interface.failure import Failure, Unreachable
from protocol.agent_files import ContextCounts
from protocol.memory import TIERS


def configure(parser: argparse.ArgumentParser) -> None:
    """NAME."""
    name_argument(parser)


def run(context: Context) -> int:
    """Print it. The kernel's document, with the counts of its context added where that lies here."""
    info: dict[str, Any] = json.loads(_info(context, context.args.name))
    info["context"] = _counts(context, info)
    return context.answer(json.dumps(info, ensure_ascii=False).encode("utf-8", "replace"), "agent_info")


def _info(context: Context, name: str) -> bytes:
    path = f"/agents/{quoted(name)}"
    if context.environ.get(URL):
        return context.kernel().get(path)
    try:
        return context.find_kernel().get(path)
    except Unreachable as error:
        agent_name(name)
        context.out.note(context.why_down(error))
        return inspecting.agent_info(context.environ, context.project.root, name)


def _counts(context: Context, info: dict[str, Any]) -> object:
    """What the context holds; None for an agent without one, and where the kernel may be another project's."""
    if info["file"] is None or context.environ.get(URL):
        return None
    try:
        return msgspec.to_builtins(counts(place_in(context.project.root, info)))
    except Failure as failure:
        context.out.note(f"skipped: {one_line(failure.text)}")
        return None


def counts(place: Place) -> ContextCounts:
    """How much the context at ``place`` holds. Raises Failure."""
    tiers = [kept.entry.tier for kept in recall(place).kept]
    done = [item.done for item in read_todos(place).items]
    return ContextCounts(
        dir=place.directory,
        memory={tier: tiers.count(tier) for tier in TIERS},
        notes=len(read_notes(place).notes),
        todo={"open": done.count(False), "done": done.count(True)},
    )
