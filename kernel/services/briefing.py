"""What an attempt is told: today's definition, the provider and its key, the assembled prompt.

Read again at each lease, so an edited file takes effect with the next attempt (fault CF18), but for the prompt: that
is frozen with the first entry. Everything that can be wrong with it is found here, before a process is spent on it.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import msgspec
import trio

from kernel.agents.belongings import NOTHING, Belongings, belongings, brings_along
from kernel.agents.catalog import Catalog
from kernel.agents.environment import worker_environment
from kernel.agents.preload import sdks_for
from kernel.agents.programs import command_of
from kernel.agents.prompt import Prompt
from kernel.agents.providers import MOCK, CauseError, ModelRejected, Resolved, resolve
from kernel.agents.servers import filled
from kernel.agents.skills import told
from kernel.agents.trust import Kept, agent_units, changed_text, missing_consent
from kernel.policy.breaker import Endpoint
from kernel.services.folders import Folders
from kernel.services.ground import Ground, project_ground
from kernel.services.opening import opening
from kernel.store import approvals
from kernel.store.commits.freeze import Freeze
from kernel.store.commits.lease import Leased
from kernel.store.reader import Reader
from kernel.workflows.assembled import assembled
from kernel.workflows.member_definition import definition_for
from protocol.agent import AgentDefinition
from protocol.backends import CLIS
from protocol.errors import Cause, Refused
from protocol.ipc import Limits, McpAddress, Sandbox, Start
from protocol.project import ProjectDefinition


class CannotStart(Exception):
    """An attempt cannot be made: its definition is gone or wrong, or a key is missing."""

    def __init__(self, cause: Cause, text: str) -> None:
        super().__init__(text)
        self.cause: Cause = cause


@dataclass(frozen=True, slots=True)
class Briefing:
    """All that an attempt needs to start, and what its prompt was made of."""

    definition: AgentDefinition
    start: Start
    manifest: tuple[str, ...]
    sdks: frozenset[str]
    """What the worker will import."""
    endpoint: Endpoint
    """Whom its model calls go to, as breakers know it."""
    freeze: Freeze | None = None
    """What is to be kept with its first entry."""
    beside: str = ""
    """The project's folder, where the agent works in another."""


class Briefings:
    """Makes briefings. ``own_bin``: directories that workers must not find our commands in."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        reader: Reader,
        environ: Mapping[str, str],
        own_bin: frozenset[str],
        url: str,
        trusted: bool,
        folders: Folders,
        kept: Kept = tuple,
        ground: Callable[[Leased], Ground] | None = None,
        confine: Callable[[AgentDefinition, Ground, Start], Sandbox | None] = lambda _definition, _ground, _start: None,
    ) -> None:
        """``ground``: where an attempt works; in the project unless given. ``confine`` may raise CauseError."""
        self._ground = ground or project_ground(catalog.root)
        self._confine = confine
        self._folders = folders
        self._catalog = catalog
        self._reader = reader
        self._environ = environ
        self._own_bin = own_bin
        self._url = url
        self._trusted = trusted
        self._kept = kept

    async def prepare(self, leased: Leased, token: str) -> Briefing:
        """The briefing of one attempt. Raises CannotStart. What an agent brings along is read in a thread."""
        try:
            definition = definition_for(leased.agent, leased.space, self._catalog, self._reader)
            project = self._catalog.kept_project()
            own = NOTHING
            if brings_along(definition, project):
                own = await trio.to_thread.run_sync(belongings, definition, project, self._catalog.root)
            return self._brief(leased, token, definition, project, own)
        except Refused as refused:
            hint = f" ({refused.hint})" if refused.hint else ""
            raise CannotStart("definition_missing", f"{refused.text}{hint}") from refused
        except ModelRejected as rejected:
            raise CannotStart("definition_missing", f"{rejected.message} ({rejected.hint})") from rejected
        except CauseError as error:
            raise CannotStart(error.cause, error.text) from error

    def _brief(
        self, leased: Leased, token: str, definition: AgentDefinition, project: ProjectDefinition, own: Belongings
    ) -> Briefing:
        self._check_trust(leased, definition, project, own)
        resolved = resolve(definition, project, self._environ)
        opened = opening(
            leased, definition.backend, resolved, self._reader, partial(self._assemble, leased, definition)
        )
        prompt = opened.prompt
        env = worker_environment(self._environ, definition.env, self._own_bin)
        ground = self._ground(leased)
        start = Start(
            instruction=leased.instruction,
            attempt=leased.attempt,
            epoch=leased.epoch,
            agent=leased.name,
            space=leased.space,
            backend=definition.backend,
            model=resolved.model,
            provider=resolved.provider,
            system=_system(prompt.system, definition, own),
            messages=prompt.messages,
            message=prompt.message,
            entries=opened.entries,
            limits=_limits(definition),
            mcp=McpAddress(url=self._url),
            token=token,
            cwd=ground.cwd,
            env=env,
            idempotency_key=leased.instruction,
            mock=definition.mock,
            source_text=opened.source_text if definition.mock else "",
            earlier_steps=opened.earlier_steps,
            first_k=opened.first_k,
            compact=leased.compacted,
            interrupted=leased.interrupted,
            tools=definition.tools,
            project_tools=dict(own.tools),
            pinned=dict(own.pinned),
            skills=own.skills,
            mcp_servers=filled(own.servers, self._environ),
            read_only=definition.read_only,
            approval=leased.approval or definition.approval,
            granted=self._reader.now(approvals.granted, leased.instruction) if leased.entries else (),
            command=command_of(definition, self._catalog.root, env["PATH"]),
            attempt_dir=self._folders.attempt(leased),
            session_dir=self._folders.session(leased, definition),
            hidden=self._folders.hidden,
        )
        start = _spoken(start, definition, self._confine(definition, ground, start))
        sdks = sdks_for((definition,), project)
        root = str(self._catalog.root)
        return Briefing(
            definition,
            start,
            prompt.manifest,
            sdks,
            _endpoint(leased, resolved),
            opened.freeze,
            beside="" if ground.top == root else root,
        )

    def _assemble(self, leased: Leased, definition: AgentDefinition) -> Prompt:
        """Today's prompt."""
        return assembled(leased, definition, self._catalog, self._reader)

    def _check_trust(
        self, leased: Leased, definition: AgentDefinition, project: ProjectDefinition, own: Belongings
    ) -> None:
        """What was edited since somebody vouched for it is not vouched for, nor what was taken back (promise P19)."""
        if self._trusted:
            return
        found = (one for one in agent_units(definition, project, own) if not leased.vouched.issuperset(one.demands))
        wants = missing_consent(found, self._kept)
        if wants:
            said = "changed since they were trusted" if leased.vouched or wants[0].before else "are not trusted"
            raise CannotStart("untrusted", f"the files {said}: {changed_text(wants)[:500]}")


def _spoken(start: Start, definition: AgentDefinition, sandbox: Sandbox | None) -> Start:
    """``start`` with its sandbox, and what the agent's file says of how its model thinks and speaks."""
    return msgspec.structs.replace(
        start,
        sandbox=sandbox,
        effort=definition.effort,
        thinking_tokens=None if definition.thinking is None else definition.thinking.budget_tokens,
        temperature=definition.temperature,
    )


def _limits(definition: AgentDefinition) -> Limits:
    return Limits(
        max_steps=definition.max_steps,
        max_tokens=definition.max_tokens,
        tool_seconds=definition.timeouts.tool,
        idle_seconds=definition.timeouts.idle,
    )


def _system(text: str, definition: AgentDefinition, own: Belongings) -> str:
    """Our own loop has a tool for skills. Other programs read files, and are told where."""
    more = told(own.skills) if definition.backend in CLIS else ""
    return "\n\n".join(part for part in (text, more) if part)


def _endpoint(leased: Leased, resolved: Resolved) -> Endpoint:
    """What calls no provider that we know of shares it with nobody: a failure that a script plays is its agent's."""
    provider = resolved.provider
    if provider is None or provider.dialect == MOCK:
        return Endpoint(f"mock-{leased.agent}", "none", resolved.model)
    credential = hashlib.sha256(provider.api_key.encode()).hexdigest()[:8] if provider.api_key else "none"
    return Endpoint(provider.name, credential, resolved.model)
