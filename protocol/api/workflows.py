"""Workflows that run, and who is in them."""

from typing import Annotated, Literal

import msgspec

from protocol.api.agents import AgentStatus
from protocol.api.document import Ask, Body, Document


class StartTerms(Ask, frozen=True, kw_only=True):
    """Terms of a start of a workflow, whether it is started or run."""

    tag: Annotated[str, msgspec.Meta(description="Several runs of one workflow are told apart by it.")] = "main"
    params: Annotated[tuple[str, ...], msgspec.Meta(description='The words after --, such as ["--pr", "12"].')] = ()
    trust: bool = False
    agree: tuple[str, ...] = ()
    """Digests of what was refused as untrusted before, and is agreed to this time (protocol.trust)."""
    update: bool = False
    """Look up again what the ref of a remote workflow stands for."""
    continues: bool = msgspec.field(default=False, name="continue")
    """Go on with what the run before left in its space."""


class StartRequest(StartTerms, frozen=True, kw_only=True):
    """POST /workflows."""

    workflow: Annotated[str, msgspec.Meta(description="Its name, or the path of its file.")]


class WorkflowRow(Body, frozen=True, kw_only=True):
    """One running workflow. ``waiting``: a limit (``reason``) holds it until somebody continues it."""

    name: str
    tag: str
    state: Literal["running", "waiting", "stopped"]
    members: tuple[str, ...]
    started_at: str
    run: str | None = None
    id: str = ""
    """Of this start: ``r12``."""
    reason: str | None = None
    paused: bool = False
    left_behind: int = 0
    """In the answer to its start: files that are not committed, where an agent works on a node and goes without."""


class WorkflowList(Document, frozen=True, kw_only=True):
    """GET /workflows."""

    workflows: tuple[WorkflowRow, ...]
    schema: str = "awk/workflow-list/1"


class MemberRow(Body, frozen=True, kw_only=True):
    """One member of a space, and what it does."""

    name: str
    state: str
    """As in ``awk ps``."""
    agent: str = ""
    """What its queue is called by: ``name``, or ``name@space`` where it lives inside the workflow."""
    status: AgentStatus | None = None
    """What it said of itself there."""


class MemberList(Document, frozen=True, kw_only=True):
    """GET /spaces/:space/members."""

    space: str
    members: tuple[MemberRow, ...]
    schema: str = "awk/member-list/1"
