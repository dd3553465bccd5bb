"""Workflows that run, the spaces below theirs, and who is in them."""

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


SpaceState = Literal["open", "closed"]


class SpaceRow(Body, frozen=True, kw_only=True):
    """One space that an agent opened in a run. ``space`` is what people call it: ``review:main~design``."""

    name: str
    space: str
    run: str
    opener: str
    instruction: str
    """The work that it was opened in."""
    state: SpaceState
    members: tuple[str, ...]
    """Of one that is closed, those that it had then."""
    opened_at: str
    closed_at: str | None


class SpaceDocument(SpaceRow, frozen=True, kw_only=True):
    """One space by itself."""

    schema: str = "awk/space/1"


class SpaceList(Document, frozen=True, kw_only=True):
    """``awk space list``: those of one run, or of all that run, in the order in which they were opened."""

    spaces: tuple[SpaceRow, ...]
    total: int
    schema: str = "awk/spaces/1"


class SpaceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A space as its opener is told. ``message_id``: the message that changed it, in its own channel."""

    space: str
    name: str
    members: tuple[str, ...]
    message_id: str | None
