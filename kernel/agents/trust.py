"""Trust: the demands of a project's definitions, and the grants that the user gave for them.

Files of a project may run programs and reach servers only as far as the user has granted it. Demands are shown
verbatim; the digest of a unit of demands pins the grant, so that a changed file, or a reworded demand, asks again.
Grants are stored in ``trust.json`` in the state directory and only read here: a file that is not owned by the user, or
is invalid, grants nothing.
"""

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from kernel.agents.catalog import Catalog
from kernel.agents.cli_extras import extras_demands
from kernel.agents.models import each_model
from kernel.agents.providers import MOCK, PROVIDERS, ModelRejected, login_demand, route
from kernel.agents.resources import NOTHING, AgentResources
from kernel.agents.schedule import spends_text, wakes_text
from osfiles.safe_open import read_private
from protocol.agent import AgentDefinition, Schedule
from protocol.backends import CLIS
from protocol.errors import Refused
from protocol.limits import AgentBudget
from protocol.names import split_instance
from protocol.project import ProjectDefinition
from protocol.remote_ref import is_remote
from protocol.trust import TRUST, TRUST_LIMIT_BYTES, Demand, Grant, Grants, TrustUnit, changes, unit

HINT: Final = "repeat with --trust (or AGENT_WORKER_TRUST=1) to allow it once, or review and grant it with awk trust"
REMOTE_HINT: Final = (
    "repeat with --trust (or AGENT_WORKER_TRUST=1) to allow it once, or run it on a terminal to review and grant it"
)
UNTRUSTED: Final = "not trusted yet: review and grant it with awk trust"
_SHOWN: Final = 5
_SHOWN_CHARACTERS: Final = 140

GrantSource = Callable[[], Iterable[Grant]]
"""Returns the current grants of the user."""
Signature = tuple[int, int, int, int]
"""Modification and change time, size and inode of a file."""

logger = logging.getLogger(__name__)
_decode: Final = msgspec.json.Decoder(Grants).decode


class Untrusted(Refused):
    """Refusal because demands of files are not granted; ``wants`` are the missing demands."""

    def __init__(self, wants: tuple[Demand, ...]) -> None:
        fetched = any(is_remote(one.subject.removeprefix("workflow ")) for one in wants)
        changed = all(one.before for one in wants)
        super().__init__(
            "untrusted",
            f"{'changed since it was trusted' if changed else 'not trusted yet'}: {demands_text(wants)}",
            REMOTE_HINT if fetched else HINT,
        )
        self.wants = wants


class TrustRequest(msgspec.Struct, frozen=True):
    """Trust for one request: in ``everything``, else by unit digests or the user's ``grants``."""

    everything: bool = False
    granted_digests: frozenset[str] = frozenset()
    grants: GrantSource = tuple


class ProjectTrust(msgspec.Struct, frozen=True):
    """Trust in all the project's files (``awk start --trust``) or in what ``awk trust`` granted."""

    everything: bool = False
    kept: GrantSource = tuple

    def request(self, everything: bool, agreed: Iterable[str]) -> TrustRequest:
        """Return the trust for one request: the project's, and what the request itself grants."""
        return TrustRequest(everything or self.everything, frozenset(agreed), self.kept)

    def fault(self, *wanted: TrustUnit) -> str | None:
        """Return the reason why a setting that needs the grants ``wanted`` is not used; None if it is trusted."""
        return UNTRUSTED if not self.everything and missing_grants(wanted, self.kept) else None


class TrustedFiles(NamedTuple):
    """The files of a project, the environment that they refer to, and the trust in them."""

    catalog: Catalog
    environ: Mapping[str, str]
    trust: ProjectTrust


def demands(definition: AgentDefinition, project: ProjectDefinition, own: AgentResources = NOTHING) -> tuple[str, ...]:
    """Return the demands of an attempt of ``definition`` with its own resources, verbatim."""
    definition, found = _of_group(definition), list[str]()
    for one in each_model(definition, project) if definition.backend != MOCK else ():
        with suppress(ModelRejected):
            way = route(one, project)
            keys = [f"${key}" for key in way.keys if way.foreign or key not in PROVIDERS[way.name].key_variables]
            what = " and ".join(["its prompts", *keys] if way.foreign else keys)
            found += [f"{definition.name} sends {what} to {way.base_url or way.name}"] if what else []
    login = login_demand(definition)
    found += [login] if login is not None else []
    found += extras_demands(definition)
    found += [f"{definition.name} gets ${name} of your environment" for name in definition.env]
    if definition.backend == MOCK or definition.first_model.startswith(f"{MOCK}/"):
        shells = [action.shell for rule in definition.mock for action in rule.do if action.shell is not None]
        found += [f"{definition.name} runs: {shell}" for shell in shells]
    found += (
        [f"{definition.name} approves calls of others in your place (scopes: auth)"]
        if "auth" in definition.scopes
        else []
    )
    return (*dict.fromkeys(found), *_unasked_demands(definition, own), *own.demands)


def agent_units(definition: AgentDefinition, project: ProjectDefinition, own: AgentResources) -> tuple[TrustUnit, ...]:
    """Return the demands of ``definition`` and its own resources as one unit; empty without demands."""
    found = demands(definition, project, own)
    return (unit(f"agent {_of_group(definition).name}", found),) if found else ()


def _of_group(definition: AgentDefinition) -> AgentDefinition:
    """Return ``definition`` with the name of its group: trust in a group applies to each instance."""
    name, number = split_instance(definition.name)
    return msgspec.structs.replace(definition, name=name) if number else definition


def schedule_units(definition: AgentDefinition) -> tuple[TrustUnit, ...]:
    """Return the demands of the schedule of ``definition``, a separate unit: messages do not need the schedule."""
    if definition.schedule is None:
        return ()
    name = definition.name
    return (unit(schedule_subject(name), schedule_demands(name, definition.schedule, definition.budget)),)


def schedule_subject(name: str) -> str:
    """Return the subject of a grant for the schedule of the agent ``name``."""
    return f"schedule of {name}"


def schedule_demands(name: str, schedule: Schedule, budget: AgentBudget) -> tuple[str, ...]:
    """Return the demands of an agent's own schedule."""
    return (wakes_text(name, schedule), spends_text(name, budget))


def require_trust(wanted: Iterable[TrustUnit], trust: TrustRequest) -> tuple[str, ...]:
    """Raise Untrusted unless all units ``wanted`` are granted.

    Returns the demands that are granted only for this request: the user's grants are checked again at each use, so that
    they can be revoked.
    """
    for_now: list[str] = []
    rest: list[TrustUnit] = []
    for one in wanted:
        if trust.everything or one.digest in trust.granted_digests:
            for_now += one.demands
        else:
            rest.append(one)
    missing = missing_grants(rest, trust.grants) if rest else ()
    if missing:
        raise Untrusted(missing)
    return tuple(for_now)


def missing_grants(wanted: Iterable[TrustUnit], source: GrantSource) -> tuple[Demand, ...]:
    """Return the demands of the units in ``wanted`` without a grant, each with the earlier grant for its subject."""
    grants = tuple(source())
    digests = {one.digest for one in grants}
    before = {one.subject: one.demands for one in grants}
    return tuple(
        Demand(subject=one.subject, demands=one.demands, digest=one.digest, before=before.get(one.subject, ()))
        for one in wanted
        if one.digest not in digests
    )


def demands_text(wants: Iterable[Demand]) -> str:
    """Return the demands on one line; for a subject with an earlier grant, only the changes."""
    parts: list[str] = []
    for one in wants:
        moved = f"{one.subject}: demands were reordered or removed"
        parts += (changes(one) or (moved,)) if one.before else one.demands
    lines = [" ".join(part.split()) for part in parts[:_SHOWN]]
    cut = [line if len(line) <= _SHOWN_CHARACTERS else f"{line[: _SHOWN_CHARACTERS - 3]}..." for line in lines]
    more = f"; and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return "; ".join(cut) + more


def _unasked_demands(definition: AgentDefinition, own: AgentResources) -> list[str]:
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


class TrustStore:
    """The grants for the project at ``root``, read from ``trust.json``. Costs one stat if the file is unchanged."""

    def __init__(self, state: str, root: str) -> None:
        self._path = os.path.join(state, TRUST)
        self._root = root
        self._read: tuple[Signature | None, tuple[Grant, ...]] = (None, ())

    def __call__(self) -> tuple[Grant, ...]:
        """Return the current grants. Never raises: an unreadable file grants nothing."""
        try:
            found = os.lstat(self._path)
        except OSError:
            return ()
        now = found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
        if now != self._read[0]:
            grants: tuple[Grant, ...] = ()
            try:
                grants = _decode(read_private(self._path, TRUST_LIMIT_BYTES)).sound(self._root)
            except (OSError, UnicodeDecodeError, msgspec.MsgspecError) as error:
                logger.warning("trust.unreadable %s is ignored: %s", self._path, error)
            self._read = (now, grants)
        return self._read[1]
