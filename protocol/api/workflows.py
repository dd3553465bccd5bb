"""Running workflows, their spaces and members."""

from typing import Annotated, Literal

import msgspec

from protocol.api.agents import AgentStatus
from protocol.api.document import Ask, Body, Document


class StartTerms(Ask, frozen=True, kw_only=True):
    """Options of a start of a workflow, both for ``start`` and ``run``."""

    tag: Annotated[str, msgspec.Meta(description="Tag that distinguishes several runs of one workflow.")] = "main"
    params: Annotated[tuple[str, ...], msgspec.Meta(description='Words after --, such as ["--pr", "12"].')] = ()
    trust: bool = False
    agree: tuple[str, ...] = ()
    """Digests of content that was refused as untrusted and is approved for this start (protocol.trust)."""
    update: bool = False
    """Resolve the ref of a remote workflow again."""
    continues: bool = msgspec.field(default=False, name="continue")
    """Continue with the conversation of the previous run in the same space."""


class StartRequest(StartTerms, frozen=True, kw_only=True):
    """POST /workflows."""

    workflow: Annotated[str, msgspec.Meta(description="Name of the workflow, or path of its file.")]


class WorkflowRow(Body, frozen=True, kw_only=True):
    """Running workflow. ``waiting``: a limit (``reason``) pauses it until the user continues it."""

    name: str
    tag: str
    state: Literal["running", "waiting", "stopped"]
    members: tuple[str, ...]
    started_at: str
    run: str | None = None
    id: str = ""
    """Id of this start, such as ``r12``."""
    reason: str | None = None
    paused: bool = False
    left_behind: int = 0
    """In the answer to a start: number of uncommitted files that an agent on a node does not receive."""


class WorkflowList(Document, frozen=True, kw_only=True):
    """GET /workflows."""

    workflows: tuple[WorkflowRow, ...]
    schema: str = "awk/workflow-list/1"


class MemberRow(Body, frozen=True, kw_only=True):
    """Member of a space, with its state."""

    name: str
    state: str
    """State as in ``awk ps``."""
    agent: str = ""
    """Key of its queue: ``name``, or ``name@space`` for an inline agent of the workflow."""
    status: AgentStatus | None = None
    """Status that the member set in this space."""


class MemberList(Document, frozen=True, kw_only=True):
    """GET /spaces/:space/members."""

    space: str
    members: tuple[MemberRow, ...]
    schema: str = "awk/member-list/1"


SpaceState = Literal["open", "closed"]


class SpaceRow(Body, frozen=True, kw_only=True):
    """Space that an agent opened in a run. ``space`` is its full name: ``review:main~design``."""

    name: str
    space: str
    run: str
    opener: str
    instruction: str
    """Instruction in which the space was opened."""
    state: SpaceState
    members: tuple[str, ...]
    """Names of the members; for a closed space, of the members when it was closed."""
    opened_at: str
    closed_at: str | None


class SpaceDocument(SpaceRow, frozen=True, kw_only=True):
    """Space as a top-level JSON document, with the ``schema`` tag."""

    schema: str = "awk/space/1"


class SpaceList(Document, frozen=True, kw_only=True):
    """``awk space list``: the spaces of one run or of all running workflows, in order of creation."""

    spaces: tuple[SpaceRow, ...]
    total: int
    schema: str = "awk/spaces/1"


class SpaceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Space in an answer to its opener. ``message_id`` is the message about the change, in the space's own channel."""

    space: str
    name: str
    members: tuple[str, ...]
    message_id: str | None
