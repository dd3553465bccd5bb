"""Project file, ``moniro.yaml`` or ``.agents.yaml``, which is optional. ``guard`` also occurs in workflow files."""

from typing import Annotated, Literal

import msgspec

from protocol.agent import AgentDefinition, Duration, OpenAIApi, Recording, Rule
from protocol.limits import AgentBudget, StrictStruct
from protocol.tools import ProjectTool

SoulEvolution = Literal["propose", "auto", "disabled"]
TrayKind = Literal["decision", "pattern", "work_log"]


class GuardSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Guard of the agents' knowledge and identity. The ``guard`` of a workflow replaces the project's."""

    soul_evolution: SoulEvolution = "propose"
    """Effect of a suggested change of a soul. ``propose``: the change waits for a person. ``auto``: an agent's change
    of its own soul and a guard's change of low risk take effect immediately and can be rolled back. ``disabled``:
    changes cannot be suggested."""
    model: str | None = None
    """Model of the guard, preferably a cheap one. Unset: no model is used, and ``auto_store``, ``observe``,
    ``llm_curation`` and ``llm_recall`` have no effect. The model also summarizes the results of ``memory_ask``.
    Invalid or missing answers of the model change nothing."""
    provider: str | None = None
    """Name of the endpoint and key, if the model's prefix does not determine them."""
    auto_store: bool = False
    """When a run ends, or direct messages or a started workflow are quiet, the model extracts decisions, patterns and
    work that agents should remember. The items wait in the agents' trays for a person, their owner or a vote."""
    quiet: Duration = 300.0
    """Seconds without a new message after which ``auto_store`` reads direct messages and started workflows."""
    auto_approve: tuple[TrayKind, ...] = ()
    """Kinds of items that are stored without a decision, if the model saw only messages of people and agents."""
    observe: bool = False
    """After every 20 instructions of an agent, the model proposes changes of its soul, with the work as evidence. Only
    the project's setting counts."""
    llm_curation: bool = False
    """The model checks what agents write into their memory: whether the item is worth storing, and in which tier.
    Without an answer within 20 seconds, the item is stored as the agent requested."""
    llm_recall: bool = False
    """The model chooses the items for a prompt among the at most 25 that a search finds in the agent's memory. Without
    an answer within 20 seconds, the prompt has all found items, in the order of the search."""
    budget: AgentBudget | None = None
    """Spending limits of the guard of a workspace, separate from the budget of the run."""
    mock: tuple[Rule, ...] = ()
    """Script for a ``mock/...`` model, as in an agent file."""


Retention = Annotated[float, msgspec.Meta(ge=60, le=315_360_000, extra={"duration": True})]
"""Seconds; ``30d`` in the file. From a minute to ten years."""
Workers = Annotated[int, msgspec.Meta(ge=1, le=1000)]


class ProviderEntry(StrictStruct, frozen=True, kw_only=True):
    """Endpoint that agents can name. ``api_key`` is ``$NAME`` of a variable in the kernel's environment."""

    base_url: str | None = None
    """URL for requests. It needs trust."""
    api_key: str | None = None
    """``$NAME`` of a variable in the kernel's environment."""
    dialect: Literal["anthropic", "openai"] | None = None
    """API dialect of the endpoint. Default: by the model's prefix."""
    api: OpenAIApi | None = None
    """For dialect ``openai``: ``responses`` for models that only that API serves. Not needed for
    OpenAI's own models."""


class ProjectModels(StrictStruct, frozen=True, kw_only=True):
    """Models of agents that name none, and names for lists of models."""

    default: str | tuple[str, ...] = ""
    """Model of agents without ``model``: a name, an alias or a list of them."""
    aliases: dict[str, str | tuple[str, ...]] = {}
    """Names that agents can write instead of a model: name to a model or to a list of models."""
    fallback_after: Duration = 60.0
    """Time until the reset of a rate limit beyond which the next model of a list is used."""


class AgentDefaults(StrictStruct, frozen=True, kw_only=True):
    """Defaults for keys that an agent does not set."""

    reuse: Literal["auto"] | None = None
    """``auto``: consecutive instructions of an agent share a worker process where ``reuse: auto`` allows it. They are
    then not isolated from each other by a process. Unset: a new process for each instruction."""


class ProjectLimits(StrictStruct, frozen=True, kw_only=True):
    """Limits of the whole kernel. ``workers`` limits the attempts that run at a time on this machine (a node has its
    own limit), ``per_provider`` the attempts that call one provider, on any machine: a number for each provider, or a
    number by name. ``memory_reserve`` is the share of memory below which no attempt starts (``10%`` in the file)."""

    workers: Workers = 32
    """Maximum number of attempts at a time on this machine. A node has its own limit."""
    per_provider: Workers | dict[str, Workers] | None = None
    """Maximum number of attempts that call one provider: a number for each provider, or a number by name."""
    memory_reserve: Annotated[float, msgspec.Meta(ge=0, le=0.9)] = 0.1
    """Share of memory below which no attempt starts."""


WorkspaceProvider = Literal["sqlite", "file", "memory"]


class ProjectWorkspace(StrictStruct, frozen=True, kw_only=True):
    """Default storage for workflows. ``base`` is the folder of their workspaces."""

    provider: WorkspaceProvider = "sqlite"
    """Storage of messages for workflows that set none: ``sqlite``, ``file`` or ``memory``."""
    base: str = ".workspace/"
    """Folder of the workflows' workspaces."""


class IncomingHook(StrictStruct, frozen=True, kw_only=True):
    """Incoming hook. A request to ``/hooks/NAME`` that is signed with the secret delivers a message. It needs trust."""

    to: str
    """Recipient of the message: ``@workflow``, ``agent@workflow`` or an agent."""
    secret: str
    """``$NAME`` of a variable in the kernel's environment. The secret is a Standard Webhooks secret, ``whsec_...``."""


class OutgoingHook(StrictStruct, frozen=True, kw_only=True):
    """Outgoing webhook: a server that receives events, signed with the secret. It needs trust."""

    url: str
    """URL that receives each event by POST. Redirects are not followed."""
    events: tuple[str, ...]
    """Event types as in ``awk events``, or ``'*'`` for all."""
    secret: str
    """``$NAME`` of a variable in the kernel's environment. The secret is a Standard Webhooks secret, ``whsec_...``."""
    allow_private: bool = False
    """Whether the server may be on this machine or its private networks."""


class OtelSettings(StrictStruct, frozen=True, kw_only=True):
    """OpenTelemetry collector that receives spans of all work (OTLP over HTTP). It needs trust."""

    endpoint: str
    """URL of the collector. ``/v1/traces`` is added unless the path already ends with it."""
    headers: dict[str, str] = {}
    """Header fields of each request, ``name: $NAME`` of a variable in the kernel's environment."""
    content: bool = False
    """Whether spans contain messages of models and tools, at most 4,000 characters each, without secrets."""
    allow_private: bool = False
    """Whether a host name may resolve to this machine or its private networks. Addresses and localhost are always
    allowed."""


NodeVia = Literal["ssh", "slurm", "kubectl", "docker", "ray", "command", "join"]


class NodeSettings(StrictStruct, frozen=True, kw_only=True):
    """Node: another machine, container or allocation that runs agents. It needs trust."""

    via: NodeVia
    """Connection to the node: a program that runs here, or ``join`` if the node connects to the kernel."""
    host: str | None = None
    """``ssh``: a host, as ssh accepts it. ``slurm``: the requested machine, if a particular one is required."""
    args: tuple[str, ...] = ()
    """Additional arguments of the program that ``via`` names: ``['-p', '2222']``."""
    command: str = "agent-worker"
    """Program on the node. The text is split into words as a shell does, but no shell runs."""
    argv: tuple[str, ...] = ()
    """``command``: program on this machine whose standard streams lead to the node, and its arguments."""
    image: str | None = None
    """``docker``, ``kubectl``: image of a container that starts and ends with the node."""
    container: str | None = None
    """``docker``: an existing container. ``kubectl``: the container in the pod."""
    pod: str | None = None
    """``kubectl``: an existing pod."""
    namespace: str | None = None
    """``kubectl``: namespace of the pod."""
    address: str | None = None
    """``ray``: address of the cluster for ``ray.init``. Default: the cluster of this machine."""
    resources: dict[str, Annotated[float, msgspec.Meta(gt=0, le=1_000_000)]] = {}
    """``ray``: resources that each node requests: ``{CPU: 2, GPU: 1}``."""
    python: str | None = None
    """``ray``: Python with the package ray. Default: the kernel's Python."""
    least: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 1
    """``ray``: minimum number of nodes, which remain without work."""
    most: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    """``ray``: maximum number of nodes. The number follows the waiting work."""
    labels: tuple[str, ...] = ()
    """Labels that agents can require in ``needs``."""
    workers: Workers = 8
    """Maximum number of attempts at a time on the node."""


class StandbySettings(StrictStruct, frozen=True, kw_only=True):
    """Folder at another location that receives a continuous copy of the log. It needs trust."""

    to: str
    """Absolute path of an existing folder: a mounted folder, or one that another program copies elsewhere."""
    every: Annotated[float, msgspec.Meta(ge=0.1, le=3600, extra={"duration": True})] = 1.0
    """Interval between copies in seconds."""


class Embeddings(StrictStruct, frozen=True, kw_only=True):
    """Endpoint that computes vectors of texts (``/v1/embeddings``). It needs trust.

    The endpoint receives queries and the turns that a word search of history returns. An agent's searches use vectors
    only after ``awk memory eval`` has shown a gain on questions about its history.
    """

    model: str
    """Model of the endpoint, such as ``openai/text-embedding-3-small``."""
    provider: str | None = None
    """Name of the endpoint and key, if the model's prefix does not determine them."""


class ProjectDefinition(StrictStruct, frozen=True, kw_only=True):
    """Project file."""

    agents: dict[str, str | AgentDefinition] = {}
    """Agents in addition to ``.agents/``: name to an inline agent or to the path of a file; or a list of both."""
    defaults: AgentDefaults = AgentDefaults()
    """Defaults for agents."""
    default_agent: str | None = None
    """Agent that receives messages without a recipient: ``awk send MESSAGE``."""
    providers: dict[str, ProviderEntry] = {}
    """Endpoints that agents can name."""
    models: ProjectModels = ProjectModels()
    """Default model, aliases of models, and when the next model of a list is used."""
    tools: dict[str, ProjectTool] = {}
    """Tools of the project, which agents enable by name."""
    workflows: dict[str, str] = {}
    """Workflow files besides those in ``.workflows/``: name to path."""
    workspace: ProjectWorkspace = ProjectWorkspace()
    """Storage of the messages in workflows."""
    recording: Recording = "off"
    """Recording of the requests to model providers, for agents without their own ``recording``: ``on``, ``off``, or
    ``errors`` alone. ``awk show INSTRUCTION --wire`` prints them."""
    conversations: bool = True
    """Whether direct messages to an agent are also written to ``.agents/<name>/conversations/``."""
    hooks: dict[str, IncomingHook] = {}
    """Incoming hooks for programs without a token: name to hook."""
    nodes: dict[str, NodeSettings] = {}
    """Other machines that run agents: name to node."""
    nodes_listen: str | None = None
    """``HOST:PORT`` at which nodes of ``via: join`` connect over TLS. Default: a port of this machine only."""
    rules_off: tuple[str, ...] = ()
    """Names of rules of installed packages that are disabled in this project. ``awk rule list`` shows them."""
    webhooks: tuple[OutgoingHook, ...] = ()
    """Servers that receive events, at most 20."""
    otel: OtelSettings | None = None
    """Collector of traces of work. Spans are sent after the work is in the log."""
    standby: StandbySettings | None = None
    """Copy of the log at another location, from which a kernel can take over if this machine is lost."""
    env_file: str | None = None
    """File in the project's root with variables, ``NAME=VALUE``, that a starting kernel adds to its environment, such
    as ``.env``. Nothing in it is expanded or run. It needs trust, pinned by content."""
    log: Literal["text", "json"] = "text"
    """Format of the kernel's log: text for people, or one JSON object per line."""
    limits: ProjectLimits = ProjectLimits()
    """Limits of the whole kernel."""
    guard: GuardSettings = GuardSettings()
    """Guard of the agents' knowledge and identity, for workflows without their own ``guard``."""
    embeddings: Embeddings | None = None
    """Vectors for the ranking of history searches. Used for an agent after an evaluation showed better results."""
    starvation: Duration = 300.0
    """Seconds after which waiting work precedes more urgent work."""
    idle_exit: Annotated[float, msgspec.Meta(ge=1, le=2_592_000, extra={"duration": True})] | None = None
    """Seconds after which an idle kernel exits. The next command that needs a kernel starts one.

    Unfinished work keeps the kernel running, even if it waits for a person. So do votes, schedules, ``hooks``, webhooks
    with pending retries, and connected clients.
    """
    retention: Retention = 2_592_000.0
    """Seconds for which the log keeps finished work with its events, and ended runs. Direct
    messages to agents are kept permanently."""
