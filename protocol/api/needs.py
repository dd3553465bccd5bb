"""Needs of a person: one list for ``awk needs``, ``ps``, ``top`` and ``status``, with commands that settle it."""

from typing import Literal

from protocol.api.document import Body, Page

NeedKind = Literal[
    "project",
    "approval",
    "vote",
    "agent_error",
    "credentials",
    "quota",
    "limit",
    "answer",
    "node",
    "task",
    "trust",
    "webhook",
    "memory",
    "soul",
    "dead",
]


class NeedAction(Body, frozen=True, kw_only=True):
    """One way to settle a need. ``command`` runs as it stands."""

    label: str
    command: str


class Need(Body, frozen=True, kw_only=True):
    """One thing that goes on only once a person does something. ``text`` is for people, on one line.

    ``id`` is that of the request, the proposal, the task, the instruction or the run, of what an agent suggests, or the
    name of the agent or the file.
    ``blocks`` are the instructions that wait for it; a vote blocks its run, a task the tasks that wait for it.
    """

    kind: NeedKind
    id: str
    agent: str | None = None
    space: str | None = None
    run: str | None = None
    since: str | None = None
    """Null where nobody knows."""
    blocks: tuple[str, ...] = ()
    text: str
    actions: tuple[NeedAction, ...]
    project: str | None = None
    """The root of its project, with ``awk needs -A``, whose commands name it; else null."""


class NeedList(Page, frozen=True, kw_only=True):
    """``awk needs``: everything that needs a person, the most pressing kind first. ``next`` goes into ``after``."""

    items: tuple[Need, ...]
    schema: str = "awk/needs/1"
