"""The project file, ``moniro.yaml`` or ``.agents.yaml``, which is optional, and ``guard`` of it and of workflows."""

from typing import Annotated, Literal

import msgspec

from protocol.agent import AgentDefinition, Duration, OpenAIApi, Rule
from protocol.limits import AgentBudget
from protocol.tools import ProjectTool

SoulEvolution = Literal["propose", "auto", "disabled"]


class GuardSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The guard of agents' knowledge and identity. A workflow's ``guard`` stands for the project's."""

    soul_evolution: SoulEvolution = "propose"
    """What becomes of a change that an agent suggests of its own soul. ``propose``: it waits for a person. ``auto``: it
    is taken at once, and can be rolled back. ``disabled``: none may be suggested."""
    model: str | None = None
    """A model for the guard, better a cheap one. Unset: nothing is judged by a model, and ``auto_store`` and
    ``llm_curation`` do nothing. Set, it sums up what ``memory_ask`` finds, too. What it says badly, or not at all,
    changes nothing."""
    provider: str | None = None
    """The name of the endpoint and key to use, where the model's prefix does not say it."""
    auto_store: bool = False
    """After a run the model looks for decisions, patterns and work that agents should remember, and puts them into
    their trays, where they wait for a person, their owner or a vote."""
    llm_curation: bool = False
    """The model looks at what agents write into their memory before it is there: whether it is worth keeping, and in
    which tier. Where it does not answer within 20 seconds it is written as the agent asked."""
    budget: AgentBudget | None = None
    """What the guard of a workspace may spend: its own, beside that of the run."""
    mock: tuple[Rule, ...] = ()
    """A script for a ``mock/...`` model, as an agent's."""


Retention = Annotated[float, msgspec.Meta(ge=60, le=315_360_000, extra={"duration": True})]
"""Seconds; ``30d`` in the file. From a minute to ten years."""
Workers = Annotated[int, msgspec.Meta(ge=1, le=1000)]


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class ProviderEntry(_Strict, frozen=True, kw_only=True):
    """An endpoint that agents can name. ``api_key`` is ``$NAME`` of a variable in the kernel's environment."""

    base_url: str | None = None
    """Where requests go. It needs trust."""
    api_key: str | None = None
    """``$NAME`` of a variable in the kernel's environment."""
    dialect: Literal["anthropic", "openai"] | None = None
    """Which API is spoken there; else the model's prefix says it."""
    api: OpenAIApi | None = None
    """Of dialect ``openai``: ``responses`` for models that are served there alone; known of OpenAI's own models."""


class ProjectLimits(_Strict, frozen=True, kw_only=True):
    """Bounds for the whole kernel. ``workers`` is how many attempts run at once on this machine (a node has its own
    limit), ``per_provider`` how many, wherever they are, call one provider: a number for each, or a number by name.
    ``memory_reserve`` is the part of the memory below which nothing more is started (``10%`` in the file).
    """

    workers: Workers = 32
    """How many attempts run at once on this machine. A node has its own limit."""
    per_provider: Workers | dict[str, Workers] | None = None
    """How many of them call one provider: a number for each, or a number by name."""
    memory_reserve: Annotated[float, msgspec.Meta(ge=0, le=0.9)] = 0.1
    """The part of the memory below which nothing more is started."""


WorkspaceProvider = Literal["sqlite", "file", "memory"]


class ProjectWorkspace(_Strict, frozen=True, kw_only=True):
    """What workflows that say nothing else do with what is said; ``base`` is the folder that theirs are in."""

    provider: WorkspaceProvider = "sqlite"
    """As in a workflow that says nothing else."""
    base: str = ".workspace/"
    """The folder that the workspaces of workflows are in."""


class IncomingHook(_Strict, frozen=True, kw_only=True):
    """A hook in: who signs a request to ``/hooks/NAME`` with the secret says what it brings. It needs trust."""

    to: str
    """Who it is said to: ``@workflow``, ``agent@workflow``, or an agent."""
    secret: str
    """``$NAME`` of a variable in the kernel's environment; a secret of Standard Webhooks, ``whsec_...``."""


class OutgoingHook(_Strict, frozen=True, kw_only=True):
    """A hook out: a server that is told what happens, signed with the secret. It needs trust."""

    url: str
    """Where each event is posted to. Redirects are not followed."""
    events: tuple[str, ...]
    """Types of events, as ``awk events`` shows them, or ``'*'`` for all."""
    secret: str
    """``$NAME`` of a variable in the kernel's environment; a secret of Standard Webhooks, ``whsec_...``."""
    allow_private: bool = False
    """Whether it may be on this machine or in its networks."""


class OtelSettings(_Strict, frozen=True, kw_only=True):
    """A collector of OpenTelemetry that is told of work as spans (OTLP over HTTP). It needs trust."""

    endpoint: str
    """Its address; to one without a path, or with another, ``/v1/traces`` is added."""
    headers: dict[str, str] = {}
    """Header fields of each request, ``name: $NAME`` of a variable in the kernel's environment."""
    content: bool = False
    """Whether it is told what models and tools said, up to 4,000 characters each, without secrets."""
    allow_private: bool = False
    """Whether a name may lead to this machine or its networks; what is written as an address, or localhost, may."""


NodeVia = Literal["ssh", "slurm", "kubectl", "docker", "ray", "command", "join"]


class NodeSettings(_Strict, frozen=True, kw_only=True):
    """A node: another machine, container or allocation on which agents work. It needs trust."""

    via: NodeVia
    """How it is reached: a program that is run here, or ``join``, where the node dials the kernel."""
    host: str | None = None
    """``ssh``: a host, as ssh takes it. ``slurm``: the machine that is asked for, if it is to be a certain one."""
    args: tuple[str, ...] = ()
    """More arguments of that program, each one word: ``['-p', '2222']``."""
    command: str = "agent-worker"
    """The program there; words are parted as a shell does, and no shell is asked."""
    argv: tuple[str, ...] = ()
    """``command``: the program here whose standard streams lead there, and its arguments."""
    image: str | None = None
    """``docker``, ``kubectl``: a container of this image is started and goes when the node does."""
    container: str | None = None
    """``docker``: one that runs. ``kubectl``: which of the pod's."""
    pod: str | None = None
    """``kubectl``: one that runs."""
    namespace: str | None = None
    """``kubectl``: the namespace."""
    address: str | None = None
    """``ray``: the cluster, as ``ray.init`` takes it; without it the one of this machine."""
    resources: dict[str, Annotated[float, msgspec.Meta(gt=0, le=1_000_000)]] = {}
    """``ray``: what each node asks for: ``{CPU: 2, GPU: 1}``."""
    python: str | None = None
    """``ray``: the Python that has the package ray, where that is not the kernel's."""
    least: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 1
    """``ray``: how many nodes there are without work."""
    most: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    """``ray``: how many there may be; between both, as many as the work that waits fills."""
    labels: tuple[str, ...] = ()
    """What agents may ask for in ``needs``."""
    workers: Workers = 8
    """How many attempts run there at once."""


class StandbySettings(_Strict, frozen=True, kw_only=True):
    """A folder at another place to which all of the log is copied, again and again. It needs trust."""

    to: str
    """Its whole path: a mounted folder, or one that something else brings elsewhere. It has to be there."""
    every: Annotated[float, msgspec.Meta(ge=0.1, le=3600, extra={"duration": True})] = 1.0
    """Seconds after which what is new is copied."""


class Embeddings(_Strict, frozen=True, kw_only=True):
    """An endpoint of the user's own that makes vectors of texts (``/v1/embeddings``). It needs trust.

    What is said to it: the turns that searches of history find by their words, and what was asked. Searches of an
    agent use it once ``awk memory eval`` has shown a gain on questions about its history.
    """

    model: str
    """The model there, such as ``openai/text-embedding-3-small``."""
    provider: str | None = None
    """The name of the endpoint and key to use, where the model's prefix does not say it."""


class ProjectDefinition(_Strict, frozen=True, kw_only=True):
    """The project file."""

    agents: dict[str, str | AgentDefinition] = {}
    """Agents beside those of ``.agents/``: name to an inline agent, or to the path of a file; or a list of both."""
    providers: dict[str, ProviderEntry] = {}
    """Endpoints that agents can name."""
    tools: dict[str, ProjectTool] = {}
    """Tools of the project's own, which agents switch on by name."""
    workflows: dict[str, str] = {}
    """Name to path of a workflow file, beside those found in ``.workflows/``."""
    workspace: ProjectWorkspace = ProjectWorkspace()
    """Where what is said in workflows is written to."""
    conversations: bool = True
    """Whether what is said to an agent directly is written to ``.agents/<name>/conversations/`` too."""
    hooks: dict[str, IncomingHook] = {}
    """Ways in for programs that have no token: name to hook."""
    nodes: dict[str, NodeSettings] = {}
    """Other machines on which agents work: name to node."""
    nodes_listen: str | None = None
    """``HOST:PORT`` at which nodes of ``via: join`` are let in, over TLS; else a port of this machine alone."""
    rules_off: tuple[str, ...] = ()
    """Rules of installed packages that are not asked here, by their names: ``awk rule list`` has them."""
    webhooks: tuple[OutgoingHook, ...] = ()
    """Servers that are told what happens, at most 20."""
    otel: OtelSettings | None = None
    """A collector of traces that is told of work, once that is in the log."""
    standby: StandbySettings | None = None
    """A copy of the log at another place, to go on with where this machine is lost."""
    log: Literal["text", "json"] = "text"
    """How lines of the kernel's log look: for people, or one JSON object each."""
    limits: ProjectLimits = ProjectLimits()
    """Bounds for the whole kernel."""
    guard: GuardSettings = GuardSettings()
    """What looks after the knowledge and the identity of agents, in workflows that say nothing else."""
    embeddings: Embeddings | None = None
    """What agents said is ranked with vectors, too, where that was shown to find more."""
    starvation: Duration = 300.0
    """Seconds after which waiting work is taken before what is more urgent."""
    idle_exit: Annotated[float, msgspec.Meta(ge=1, le=2_592_000, extra={"duration": True})] | None = None
    """Seconds after which a kernel ends by itself that has nothing to do; the next command that needs one starts it.

    Open work keeps it, also where it waits for a person; so do votes, schedules, ``hooks``, webhooks that will be
    tried again, and clients that are connected.
    """
    retention: Retention = 2_592_000.0
    """Seconds for which the journal of work that has ended is kept, and what happened to it; also ended runs.

    What was said to agents directly stays.
    """
