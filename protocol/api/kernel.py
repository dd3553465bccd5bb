"""The kernel itself: its health, its state, its record, its end."""

from typing import Annotated, Literal

import msgspec

from protocol.api.agents import AgentCondition
from protocol.api.document import Ask, Body, Document
from protocol.api.problem import FileError
from protocol.api.workflows import WorkflowRow


class ShutdownRequest(Ask, frozen=True, kw_only=True):
    """POST /shutdown."""

    grace: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 10.0
    """Seconds for running attempts to end by themselves."""


class Health(Body, frozen=True, kw_only=True, omit_defaults=True):
    """GET /health, the one route without a token. ``proof`` is HMAC-SHA256(token, nonce) in hex."""

    status: Literal["starting", "ok", "stopping"]
    version: str
    proof: str | None = None
    safe_mode: bool = False
    """What is asked of it is kept, and not begun."""


class Ready(Body, frozen=True, kw_only=True):
    """GET /ready: whether work that is accepted now is also begun."""

    ready: bool
    status: Literal["starting", "ok", "stopping", "safe_mode", "storage_full", "busy"]


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
    agents: dict[str, int] = {}
    held: tuple[HeldAgent, ...] = ()
    workflows: tuple[WorkflowRow, ...] = ()
    broken: tuple[FileError, ...] = ()
    """What is wrong with the project file, or else with those of agents and workflows; what they said before counts."""
    schema: str = "awk/status/1"


class Discovery(Body, frozen=True, kw_only=True):
    """The record a kernel leaves for its clients (contracts.md section 3)."""

    pid: int
    started_at: str
    host: str
    port: int
    url: str
    token: str
    version: str
    project: str
    start_time: int
    boot_id: str
