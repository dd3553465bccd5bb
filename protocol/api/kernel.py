"""The kernel itself: its health, state, discovery record and end; usage of its work; providers, backends, webhooks."""

from typing import Annotated, Any, Final, Literal

import msgspec

from protocol.api.agents import AgentCondition
from protocol.api.document import Ask, Body, Document, FileError
from protocol.api.workflows import WorkflowRow
from protocol.backends import Ability
from protocol.instruction import Usage
from protocol.standby import StandbyState


class ShutdownRequest(Ask, frozen=True, kw_only=True):
    """POST /shutdown."""

    grace: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 10.0
    """Seconds for running attempts to end by themselves."""


class UpgradeRequest(Ask, frozen=True, kw_only=True):
    """POST /upgrade. ``to``: absolute path of a virtual environment or its agent-worker; null: what is installed."""

    to: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)] | None = None


UpgradeState = Literal["none", "checking", "waiting", "replacing", "done", "failed"]
"""``checking``: the new version is tried. ``waiting``: for work to come to where it can be handed over."""


class UpgradeReport(Document, frozen=True, kw_only=True):
    """The last upgrade, or the one under way. ``before``, ``to``: versions; ``to`` is a path until it is known."""

    schema: str = "awk/upgrade/1"
    id: str
    state: UpgradeState
    before: str
    to: str
    pid: int | None = None
    """Of the kernel that goes on."""
    attempts: int = 0
    """So many went on."""
    waited_seconds: float | None = None
    """Nobody waited longer."""
    reason: str | None = None
    """Of one that failed: the old version goes on."""


class Health(Body, frozen=True, kw_only=True, omit_defaults=True):
    """GET /health, the one route without a token. ``proof`` is HMAC-SHA256(token, nonce) in hex.

    The token is that of the discovery record, or the one that was asked for; ``admin_proof`` is the administrator's.
    """

    status: Literal["starting", "ok", "stopping"]
    version: str
    proof: str | None = None
    admin_proof: str | None = None
    safe_mode: bool = False
    """What is asked of it is kept, and not begun."""


class Ready(Body, frozen=True, kw_only=True):
    """GET /ready: whether work that is accepted now is also begun."""

    ready: bool
    status: Literal["starting", "ok", "stopping", "safe_mode", "storage_full", "busy", "project_lost"]


class KernelInfo(Body, frozen=True, kw_only=True):
    """The kernel behind ``awk status``."""

    pid: int
    url: str
    version: str
    project: str
    uptime_seconds: float


class HeldAgent(AgentCondition, frozen=True, kw_only=True):
    """An agent that does no work for now, and why."""


class StatusReport(Document, frozen=True, kw_only=True):
    """``awk status``; asked about a target, all but ``kernel`` is about that, and a stopped workflow is ``down``."""

    state: Literal["up", "degraded", "down"]
    notice: str | None = None
    """What a person should know and do: the kernel does no work or keeps nothing, or files were not taken over."""
    storage: Literal["storage_full", "busy"] | None = None
    """Why nothing can be written now."""
    kernel: KernelInfo | None = None
    term: int | None = None
    """The kernel's: higher than that of any kernel of the project before, and far higher in a copy that took over."""
    standby: StandbyState | None = None
    """The copy of the log at another place, where the project has one."""
    agents: dict[str, int] = {}
    needs: int = 0
    """How many things need a person: the ``total`` of ``awk needs``, in all of the project."""
    held: tuple[HeldAgent, ...] = ()
    workflows: tuple[WorkflowRow, ...] = ()
    broken: tuple[FileError, ...] = ()
    """What is wrong with the project file, or else with those of agents and workflows; what they said before counts."""
    schema: str = "awk/status/1"


class UsageNumbers(Body, frozen=True, kw_only=True):
    """The numbers of some work."""

    usage: Usage
    """Its cost is of what has a known price; see ``unpriced``."""
    instructions: int
    ended: dict[str, int]
    """How many ended in which status; those that ended in none have not ended."""
    steps: int
    worked_seconds: float
    """Of all attempts that have ended, as far as that is known. Waiting is no work."""
    unpriced: int
    """Instructions that used tokens of which nobody knows the price."""


class UsageRow(UsageNumbers, frozen=True, kw_only=True):
    """The usage of some work. ``key`` is an agent (``alice``, or ``helper@review:main``), a workspace or a model."""

    key: str
    failures: int
    """Those that failed, or are dead."""


GroupedBy = Literal["agent", "workflow", "model", "day"]
GROUPED_BY: Final[tuple[GroupedBy, ...]] = ("agent", "workflow", "model", "day")
"""What work over a time can be parted by."""


class UsageGroup(UsageNumbers, frozen=True, kw_only=True):
    """Work that ended in a time. ``key`` has the value of each thing it is parted by; {}: all of it.

    A model is that of the last attempt, a day one of UTC; ``""``: in no workflow, or never begun.
    """

    key: dict[str, str]
    success: float | None
    """The share that is done; null where nothing ended."""
    retries: int
    """Attempts that followed another one."""
    merges: int | None
    """Landings then; null where they are nobody's: by agent or model, or of one agent."""
    cost_per_merge: float | None
    """What the runs took that landed then, for each landing; null without landings, or where no price is known."""


class UsageReport(Document, frozen=True, kw_only=True):
    """GET /usage, ``awk stats``: a row for each agent that was ever given work, and the same work seen otherwise."""

    rows: tuple[UsageRow, ...]
    workflows: tuple[UsageRow, ...]
    """By workspace (``review:main``), over all its runs. Direct messages are in none."""
    models: tuple[UsageRow, ...]
    """By the model of the last attempt, or the backend where that names none; without work that was never begun."""
    total: UsageRow
    groups: tuple[UsageGroup, ...] = ()
    """Where a time or a part was asked for: work that ended then; all of it last. ``rows`` are of all work."""
    schema: str = "awk/stats/1"


class ProviderRow(Body, frozen=True, kw_only=True):
    """One provider. ``key_set``: whether one of ``key_variables`` is set where the kernel runs; never the key."""

    name: str
    dialect: Literal["anthropic", "openai", "cursor", "mock"]
    base_url: str | None
    key_variables: tuple[str, ...]
    key_set: bool
    source: Literal["builtin", "project"]


class ProviderList(Document, frozen=True, kw_only=True):
    """``awk providers``. ``aliases`` are short names of models."""

    providers: tuple[ProviderRow, ...]
    aliases: dict[str, str]
    schema: str = "awk/providers/1"


class BackendRow(Body, frozen=True, kw_only=True):
    """One backend, and whether an agent can use it here. ``missing`` says why not, and how to get it.

    ``path`` and ``version`` are its program's, where it has one; ``tested`` is the version that was tested.
    What ``weaker`` and ``no`` mean is in ``notes``.
    """

    name: str
    title: str
    available: bool
    path: str | None = None
    version: str | None = None
    tested: str | None = None
    missing: str | None = None
    steps: Ability
    resume: Ability
    permission_prompt: Ability
    budget: Ability
    system_prompt: Ability
    daemon_check: Ability
    notes: tuple[str, ...] = ()


class BackendList(Document, frozen=True, kw_only=True):
    """``awk backends``."""

    backends: tuple[BackendRow, ...]
    schema: str = "awk/backends/1"


class OpenApi(Body, frozen=True, kw_only=True):
    """GET /openapi.json: the REST API as OpenAPI 3.1 describes it."""

    openapi: str
    info: dict[str, str]
    paths: dict[str, dict[str, Any]]
    components: dict[str, dict[str, Any]]
    security: tuple[dict[str, tuple[str, ...]], ...]


PruneGroup = Literal["trees", "unfinished", "logs", "aside", "comparisons", "attempts", "database"]
"""What ``awk prune`` can be asked for, in the order of its work. ``unfinished``: what an earlier one left."""


class PruneRequest(Ask, frozen=True, kw_only=True):
    """POST /prune: only these groups (none: all); ``dry_run`` removes nothing."""

    what: Annotated[tuple[PruneGroup, ...], msgspec.Meta(max_length=20)] = ()
    dry_run: bool = False


class PrunedRow(Body, frozen=True, kw_only=True):
    """One thing that is gone, or would be: what it is, why it may go, and the room it took."""

    group: PruneGroup
    what: str
    why: str
    bytes: int


class PruneKept(Body, frozen=True, kw_only=True):
    """One thing that stays, and why."""

    group: PruneGroup
    what: str
    bytes: int
    kept_because: str


class PruneReport(Document, frozen=True, kw_only=True):
    """``awk prune``: all that went, in order, and what was looked at and stays. ``total_bytes``: of what went."""

    dry_run: bool
    removed: tuple[PrunedRow, ...]
    kept: tuple[PruneKept, ...]
    total_bytes: int
    schema: str = "awk/prune/1"


WebhookState = Literal["told", "failing", "ended", "unused", "held"]
"""ended: its server answered 410; unused: not trusted, or without its secret; held: the kernel is in safe mode."""


class WebhookRow(Body, frozen=True, kw_only=True):
    """One webhook of the project file. ``host`` is where it is: the path may be as good as a password."""

    id: str
    host: str
    events: tuple[str, ...]
    state: WebhookState
    waiting: int = 0
    """Deliveries that failed and are tried again."""


class WebhookList(Document, frozen=True, kw_only=True):
    """``awk webhook list``: in the order of the file."""

    webhooks: tuple[WebhookRow, ...]
    schema: str = "awk/webhook-list/1"
