"""What an attempt is told: today's definition, the provider and its key, the assembled prompt.

Read again at each lease, so an edited file takes effect with the next attempt (fault CF18). Everything that can be
wrong with it is found here, before a process is spent on it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kernel.agents.catalog import Catalog
from kernel.agents.environment import worker_environment
from kernel.agents.preload import sdks_for
from kernel.agents.prompt import Scene, assemble
from kernel.agents.providers import CauseError, ModelRejected, resolve
from kernel.agents.trust import demands
from kernel.store import agents, entries, messages
from kernel.store.commits.lease import Leased
from kernel.store.reader import Reader
from kernel.workflows.member_definition import definition_for
from protocol.agent import AgentDefinition
from protocol.errors import Cause, Refused
from protocol.ipc import Limits, McpAddress, Start
from protocol.names import is_personal
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
    ) -> None:
        self._catalog = catalog
        self._reader = reader
        self._environ = environ
        self._own_bin = own_bin
        self._url = url
        self._trusted = trusted

    def prepare(self, leased: Leased, token: str) -> Briefing:
        """The briefing of one attempt. Raises CannotStart."""
        try:
            definition = definition_for(leased.agent, leased.space, self._catalog, self._reader)
            return self._brief(leased, token, definition)
        except Refused as refused:
            hint = f" ({refused.hint})" if refused.hint else ""
            raise CannotStart("definition_missing", f"{refused.text}{hint}") from refused
        except ModelRejected as rejected:
            raise CannotStart("definition_missing", f"{rejected.message} ({rejected.hint})") from rejected
        except CauseError as error:
            raise CannotStart(error.cause, error.text) from error

    def _brief(self, leased: Leased, token: str, definition: AgentDefinition) -> Briefing:
        project = self._catalog.project()
        self._check_trust(leased, definition, project)
        resolved = resolve(definition, project, self._environ)
        message = self._reader.now(messages.report, leased.message_seq)
        assert message is not None, leased
        thread = self._reader.now(messages.thread, leased.space, leased.message_seq, definition.context.thin_thread)
        prompt = assemble(
            definition, self._catalog.system_text(definition), self._scene(leased), thread, message.message
        )
        start = Start(
            instruction=leased.instruction,
            attempt=leased.attempt,
            epoch=leased.epoch,
            agent=leased.name,
            space=leased.space,
            backend=definition.backend,
            model=resolved.model,
            provider=resolved.provider,
            system=prompt.system,
            messages=prompt.messages,
            message=prompt.message,
            entries=self._reader.now(entries.of, leased.instruction) if leased.entries else (),
            limits=Limits(
                max_steps=definition.max_steps,
                max_tokens=definition.max_tokens,
                tool_seconds=definition.timeouts.tool,
                idle_seconds=definition.timeouts.idle,
            ),
            mcp=McpAddress(url=self._url),
            token=token,
            cwd=str(self._catalog.root),
            env=worker_environment(self._environ, definition.env, self._own_bin),
            idempotency_key=leased.instruction,
            mock=definition.mock,
            source_text=leased.source_text if definition.mock else "",
        )
        return Briefing(definition, start, prompt.manifest, sdks_for((definition,), project))

    def _check_trust(self, leased: Leased, definition: AgentDefinition, project: ProjectDefinition) -> None:
        """What was edited since somebody vouched for it is not vouched for (promise P19)."""
        new = [demand for demand in demands(definition, project) if demand not in leased.vouched]
        if new and not self._trusted:
            raise CannotStart("untrusted", f"the files changed since they were trusted: {'; '.join(new)[:500]}")

    def _scene(self, leased: Leased) -> Scene:
        if is_personal(leased.space):
            return Scene(name=leased.name, space=leased.space)
        members = tuple(member.name for member in self._reader.now(agents.members, leased.space))
        return Scene(name=leased.name, space=leased.space, members=members)
