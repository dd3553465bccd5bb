"""Kernel: health, state, discovery record and shutdown; usage, providers, backends and webhooks."""

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
    """Seconds for running attempts to end before they are stopped."""


class UpgradeRequest(Ask, frozen=True, kw_only=True):
    """POST /upgrade. ``to``: absolute path of a virtual environment or its agent-worker. Null: the installed
    version."""

    to: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)] | None = None


UpgradeState = Literal["none", "checking", "waiting", "replacing", "done", "failed"]
"""``checking``: the new version is tested. ``waiting``: running work has not reached a point of transfer."""


class UpgradeReport(Document, frozen=True, kw_only=True):
    """Last or current upgrade. ``before`` and ``to`` are versions; ``to`` is a path until the version is known."""

    schema: str = "awk/upgrade/1"
    id: str
    state: UpgradeState
    before: str
    to: str
    pid: int | None = None
    """Process id of the new kernel process."""
    attempts: int = 0
    """Number of attempts that continued without a restart."""
    waited_seconds: float | None = None
    """Longest time that any client waited."""
    reason: str | None = None
    """Reason of a failed upgrade. The old version still runs."""


class Health(Body, frozen=True, kw_only=True, omit_defaults=True):
    """GET /health, the only route without a token. ``proof`` is HMAC-SHA256(token, nonce) in hex.

    The token is the discovery record's, or the created token that the request names;
    ``admin_proof`` uses the administrator's."""

    status: Literal["starting", "ok", "stopping"]
    version: str
    proof: str | None = None
    admin_proof: str | None = None
    safe_mode: bool = False
    """Safe mode: requests are stored, but no work starts."""


class Ready(Body, frozen=True, kw_only=True):
    """GET /ready: whether accepted work also starts now."""

    ready: bool
    status: Literal["starting", "ok", "stopping", "safe_mode", "storage_full", "busy", "project_lost"]


class KernelInfo(Body, frozen=True, kw_only=True):
    """Kernel in ``awk status``."""

    pid: int
    url: str
    version: str
    project: str
    uptime_seconds: float


class HeldAgent(AgentCondition, frozen=True, kw_only=True):
    """Agent that receives no work, with the reason."""


class StatusReport(Document, frozen=True, kw_only=True):
    """``awk status``. For a target, all fields except ``kernel`` describe the target; a stopped workflow is
    ``down``."""

    state: Literal["up", "degraded", "down"]
    notice: str | None = None
    """Problems that a person has to solve: the kernel runs no work, stores nothing, or rejected changed files."""
    storage: Literal["storage_full", "busy"] | None = None
    """Reason that nothing can be written now."""
    kernel: KernelInfo | None = None
    term: int | None = None
    """Number of the kernel's start: higher than at each earlier start in the project, and far
    higher for a promoted copy."""
    standby: StandbyState | None = None
    """Copy of the log at another location, if the project has one."""
    agents: dict[str, int] = {}
    needs: int = 0
    """Number of needs of the whole project, the ``total`` of ``awk needs``."""
    held: tuple[HeldAgent, ...] = ()
    workflows: tuple[WorkflowRow, ...] = ()
    broken: tuple[FileError, ...] = ()
    """Errors in the project file, or else in the files of agents and workflows. The previous versions stay in
    effect."""
    schema: str = "awk/status/1"


class UsageNumbers(Body, frozen=True, kw_only=True):
    """Usage of a set of instructions."""

    usage: Usage
    """Usage. The cost covers calls with a known price; see ``unpriced``."""
    instructions: int
    ended: dict[str, int]
    """Number of ended instructions by status. The others are unfinished."""
    steps: int
    worked_seconds: float
    """Working time of all ended attempts, if known. Waiting time does not count."""
    unpriced: int
    """Number of instructions with tokens of unknown price."""


class UsageRow(UsageNumbers, frozen=True, kw_only=True):
    """Usage of one agent (``alice`` or ``helper@review:main``), workspace or model, named by ``key``."""

    key: str
    failures: int
    """Number of failed and dead-lettered instructions."""


GroupedBy = Literal["agent", "workflow", "model", "day"]
GROUPED_BY: Final[tuple[GroupedBy, ...]] = ("agent", "workflow", "model", "day")
"""Criteria by which the work of a period can be grouped."""


class UsageGroup(UsageNumbers, frozen=True, kw_only=True):
    """Usage of instructions that ended in a period and share the values in ``key``, by criterion. {}: all instructions.

    The model is the last attempt's, days are in UTC. Value ``""``: work in no workflow, or work that never started."""

    key: dict[str, str]
    success: float | None
    """Share of successful instructions. Null if none ended."""
    retries: int
    """Number of attempts after the first attempt of each instruction."""
    merges: int | None
    """Number of merges. Null for groups by agent or model, or for one agent."""
    cost_per_merge: float | None
    """Cost per merge of the runs that were merged. Null without merges or without a known price."""


class UsageReport(Document, frozen=True, kw_only=True):
    """GET /usage, ``awk stats``: a row for each agent that ever received work, and other views of the same work."""

    rows: tuple[UsageRow, ...]
    workflows: tuple[UsageRow, ...]
    """Usage by workspace (``review:main``), over all its runs. Direct messages belong to no workspace."""
    models: tuple[UsageRow, ...]
    """Usage by the model of the last attempt, or by the backend if it names no model. Work that never started is
    omitted."""
    total: UsageRow
    groups: tuple[UsageGroup, ...] = ()
    """Groups of a requested period or criterion; the total comes last. ``rows`` cover all work."""
    schema: str = "awk/stats/1"


class ProviderRow(Body, frozen=True, kw_only=True):
    """Provider. ``key_set``: whether the kernel's environment has one of ``key_variables``. The key is never shown."""

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
    """Backend, and whether an agent can use it on this machine. ``missing`` has the reason and the
    installation command.

    ``path`` and ``version`` describe its program, if any; ``tested`` is the version that tests
    cover. ``notes`` explain abilities with the value ``weaker`` or ``no``.
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
    """GET /openapi.json: the REST API in OpenAPI 3.1."""

    openapi: str
    info: dict[str, str]
    paths: dict[str, dict[str, Any]]
    components: dict[str, dict[str, Any]]
    security: tuple[dict[str, tuple[str, ...]], ...]


PruneGroup = Literal["trees", "unfinished", "logs", "aside", "comparisons", "attempts", "database"]
"""Groups of ``awk prune``, in order of processing. ``unfinished``: leftovers of an interrupted prune."""


class PruneRequest(Ask, frozen=True, kw_only=True):
    """POST /prune: delete the groups ``what`` (empty: all groups). ``dry_run``: only report what would be deleted."""

    what: Annotated[tuple[PruneGroup, ...], msgspec.Meta(max_length=20)] = ()
    dry_run: bool = False


class PrunedRow(Body, frozen=True, kw_only=True):
    """Deleted item, or an item that would be deleted: its kind, the reason, and its size."""

    group: PruneGroup
    what: str
    why: str
    bytes: int


class PruneKept(Body, frozen=True, kw_only=True):
    """Item that was not deleted, with the reason."""

    group: PruneGroup
    what: str
    bytes: int
    kept_because: str


class PruneReport(Document, frozen=True, kw_only=True):
    """``awk prune``: deleted items in order, and checked items that were kept. ``total_bytes`` is the size of the
    deleted items."""

    dry_run: bool
    removed: tuple[PrunedRow, ...]
    kept: tuple[PruneKept, ...]
    total_bytes: int
    schema: str = "awk/prune/1"


WebhookState = Literal["told", "failing", "ended", "unused", "held"]
"""told: no problem is known. failing: repeated deliveries failed. ended: the server answered
410. unused: not trusted, or without a secret. held: the kernel is in safe mode."""


class WebhookRow(Body, frozen=True, kw_only=True):
    """Webhook of the project file. Only ``host`` is shown, because the path can be a secret."""

    id: str
    host: str
    events: tuple[str, ...]
    state: WebhookState
    waiting: int = 0
    """Number of failed deliveries that will be retried."""


class WebhookList(Document, frozen=True, kw_only=True):
    """``awk webhook list``: in the order of the file."""

    webhooks: tuple[WebhookRow, ...]
    schema: str = "awk/webhook-list/1"
