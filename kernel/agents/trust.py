"""What in a definition needs the user's trust: files of a project are not believed by themselves (decisions, Trust).

Pure: who grants trust, and where it is kept, is not known here.

What the user keeps to trust of this project: ``trust.json`` in the state directory, read when it is asked for.

Only read here. A file that is not the user's own, or that cannot be understood, is no consent to anything.
"""

import logging
import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from kernel.agents.providers import MOCK, PROVIDERS, ModelRejected, route
from kernel.agents.resources import NOTHING, AgentResources
from kernel.agents.schedule import spends_text, wakes_text
from protocol.agent import AgentDefinition, Schedule
from protocol.backends import CLIS
from protocol.budget import AgentBudget
from protocol.errors import Refused
from protocol.project import ProjectDefinition
from protocol.remote_ref import is_remote
from protocol.trust import TRUST, TRUST_LIMIT_BYTES, Demand, Grant, Grants, TrustUnit, changes, unit

HINT: Final = "repeat with --trust (or AGENT_WORKER_TRUST=1) for this once, or look at it and keep it: awk trust"
REMOTE_HINT: Final = (
    "repeat with --trust (or AGENT_WORKER_TRUST=1) for this once, or run it on a terminal to look at it and keep it"
)
_SHOWN: Final = 5

GrantSource = Callable[[], Iterable[Grant]]
"""What the user keeps to trust, as it is now."""


class Untrusted(Refused):
    """Files would run or reach something that nobody agreed to. ``wants`` is what to ask about."""

    def __init__(self, wants: tuple[Demand, ...]) -> None:
        fetched = any(is_remote(one.subject.removeprefix("workflow ")) for one in wants)
        changed = all(one.before for one in wants)
        super().__init__(
            "untrusted",
            f"{'changed since it was trusted' if changed else 'not trusted yet'}: {demands_text(wants)}",
            REMOTE_HINT if fetched else HINT,
        )
        self.wants = wants


@dataclass(frozen=True, slots=True)
class TrustRequest:
    """What is agreed to for one request: ``everything``, or units by their digest; and what is ``kept``."""

    everything: bool = False
    agreed: frozenset[str] = frozenset()
    kept: GrantSource = tuple


def demands(definition: AgentDefinition, project: ProjectDefinition, own: AgentResources = NOTHING) -> tuple[str, ...]:
    """What an attempt of ``definition`` would do that needs trust, verbatim; empty where it needs none.

    ``own`` is what it brings along.
    """
    found: list[str] = []
    if definition.backend != MOCK and definition.model:
        try:
            way = route(definition, project)
        except ModelRejected:
            way = None
        if way is not None:
            keys = [f"${key}" for key in way.keys if way.foreign or key not in PROVIDERS[way.name].key_variables]
            what = " and ".join(["its prompts", *keys] if way.foreign else keys)
            found += [f"{definition.name} sends {what} to {way.base_url or way.name}"] if what else []
    found += [f"{definition.name} gets ${name} of your environment" for name in definition.env]
    if definition.backend == MOCK or definition.model.startswith(f"{MOCK}/"):
        shells = [action.shell for rule in definition.mock for action in rule.do if action.shell is not None]
        found += [f"{definition.name} runs: {shell}" for shell in shells]
    return (*found, *_unasked(definition, own), *own.demands)


def agent_units(definition: AgentDefinition, project: ProjectDefinition, own: AgentResources) -> tuple[TrustUnit, ...]:
    """What ``definition`` needs trust for, with what it brings along, as a unit; none where it needs none."""
    found = demands(definition, project, own)
    return (unit(f"agent {definition.name}", found),) if found else ()


def schedule_units(definition: AgentDefinition) -> tuple[TrustUnit, ...]:
    """What the schedule of ``definition`` needs trust for. It is a unit of its own: a message needs no schedule."""
    if definition.schedule is None:
        return ()
    name = definition.name
    return (unit(schedule_subject(name), schedule_demands(name, definition.schedule, definition.budget)),)


def schedule_subject(name: str) -> str:
    """Whose consent is meant."""
    return f"schedule of {name}"


def schedule_demands(name: str, schedule: Schedule, budget: AgentBudget) -> tuple[str, ...]:
    """What an agent's own schedule would do."""
    return (wakes_text(name, schedule), spends_text(name, budget))


def require_trust(wanted: Iterable[TrustUnit], say: TrustRequest) -> tuple[str, ...]:
    """Raise Untrusted unless all that is ``wanted`` is agreed to.

    Returns the demands that are, for this request alone: what is kept is looked up again whenever it matters, so that
    it can be taken back.
    """
    for_now: list[str] = []
    rest: list[TrustUnit] = []
    for one in wanted:
        if say.everything or one.digest in say.agreed:
            for_now += one.demands
        else:
            rest.append(one)
    missing = missing_grants(rest, say.kept) if rest else ()
    if missing:
        raise Untrusted(missing)
    return tuple(for_now)


def missing_grants(wanted: Iterable[TrustUnit], kept: GrantSource) -> tuple[Demand, ...]:
    """Those of ``wanted`` that are not kept, each beside what was kept for the same subject."""
    consents = tuple(kept())
    digests = {one.digest for one in consents}
    before = {one.subject: one.demands for one in consents}
    return tuple(
        Demand(subject=one.subject, demands=one.demands, digest=one.digest, before=before.get(one.subject, ()))
        for one in wanted
        if one.digest not in digests
    )


def demands_text(wants: Iterable[Demand]) -> str:
    """What is not agreed to, on one line: of what was trusted once, only what is new."""
    parts = [part for one in wants for part in _parts(one)]
    more = f"; and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return "; ".join(map(_cut, parts[:_SHOWN])) + more


def _parts(asked: Demand) -> tuple[str, ...]:
    if not asked.before:
        return asked.demands
    return changes(asked) or (f"what {asked.subject} does is in another order, or a part of it is gone",)


def _unasked(definition: AgentDefinition, own: AgentResources) -> list[str]:
    """A file that gives a model a shell, or tools that change something, and says that nobody is to be asked."""
    if definition.approval != "auto":
        unasked = [word for word in definition.read_only if own.servers and definition.approval != "all"]
        return [f"{definition.name} uses {', '.join(unasked)} unasked (read_only)"] if unasked else []
    if definition.backend in CLIS:
        return [f"{definition.name} runs whatever its model writes, unasked ({definition.backend}, approval: auto)"]
    if "bash" in definition.tools:
        return [f"{definition.name} runs whatever its model writes, unasked (bash, approval: auto)"]
    tools = [name for name, tool in own.tools.items() if tool.mock is None and not tool.read_only]
    used = [*tools, *(f"MCP server {name}" for name in own.servers)]
    return [f"{definition.name} uses {', '.join(used)} as its model likes, unasked (approval: auto)"] if used else []


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 140 else f"{line[:137]}..."


logger = logging.getLogger(__name__)

Signature = tuple[int, int, int, int]
_decode: Final = msgspec.json.Decoder(Grants).decode


class TrustStore:
    """The consents of the project at ``root``. Asking costs one stat where nothing changed."""

    def __init__(self, state: str, root: str) -> None:
        self._path = os.path.join(state, TRUST)
        self._root = root
        self._read: tuple[Signature | None, tuple[Grant, ...]] = (None, ())

    def __call__(self) -> tuple[Grant, ...]:
        """What is kept now. Never raises: what cannot be read is not there."""
        now = _signature(self._path)
        if now is None:
            return ()
        if now != self._read[0]:
            load: tuple[Grant, ...]
            try:
                # The content of a file that is ours and closed to others. Raises OSError for any other.
                descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
                with open(descriptor, "rb") as file:
                    info = os.fstat(descriptor)
                    if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o077:
                        raise PermissionError(f"mode {info.st_mode & 0o7777:04o}, owner {info.st_uid}")
                    if info.st_size > TRUST_LIMIT_BYTES:
                        raise OSError(f"it has {info.st_size} bytes")
                    read_private = file.read(TRUST_LIMIT_BYTES)
                load = _decode(read_private).sound(self._root)
            except (OSError, msgspec.MsgspecError) as error:
                logger.warning("trust.unreadable %s is not believed: %s", self._path, error)
                load = ()
            self._read = (now, load)
        return self._read[1]


def _signature(path: str) -> Signature | None:
    """What changes with the file."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
