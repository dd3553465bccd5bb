"""Choice of the model of an attempt among those of its agent, and the claim to probe a model that was closed."""

import hashlib
from collections.abc import Callable, Mapping

import msgspec

from kernel.agents.models import each_model
from kernel.agents.providers import MOCK, CauseError, Resolved, resolve
from kernel.policy.circuit_breaker import ModelEndpoint, keys_of
from kernel.policy.fallback import ModelChoice, ModelOption, availability, choose
from kernel.store.circuit_breakers import claim_probes, shut_for
from kernel.store.database import Reader
from kernel.store.transitions.lease import Leased
from kernel.store.writer import Writer
from protocol.agent import AgentDefinition
from protocol.names import number_of
from protocol.project import ProjectDefinition


class ModelChooser(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Chooses models for attempts; one per kernel."""

    reader: Reader
    writer: Writer
    environ: Mapping[str, str]
    now_ms: Callable[[], int]

    async def choose(
        self, leased: Leased, definition: AgentDefinition, project: ProjectDefinition
    ) -> tuple[AgentDefinition, ModelChoice]:
        """Return ``definition`` with one model: the first that can be used, or else the one that is expected first.

        Nothing is awaited after the breakers were read, so the admission of the attempt sees the same ones. A model
        that is due for a probe is claimed first, in a commit, so that only one attempt asks it. Raises ModelRejected,
        and CauseError if the first model has no key. Later models without a key are not used.
        """
        found: list[tuple[AgentDefinition, ModelOption]] = []
        each = each_model(definition, project)
        for one in each:
            try:
                endpoint = endpoint_of(leased, resolve(one, project, self.environ), listed=len(each) > 1)
                found.append((one, ModelOption(one.first_model or one.backend, endpoint)))
            except CauseError:
                if not found:
                    raise
        options = tuple(option for _, option in found)
        after = project.models.fallback_after if definition.fallback_after is None else definition.fallback_after
        while True:
            now_ms = self.now_ms()
            shut = [self.reader.now(shut_for, keys_of(one.endpoint), leased.agent) for one in options]
            states = [availability(one, now_ms, after) for one in shut]
            place = choose(states)
            if not states[place].due:
                return found[place][0], ModelChoice(options, options[place], after)
            await self.writer.commit(claim_probes, states[place].due, number_of(leased.instruction, "i") or 0)


def endpoint_of(leased: Leased, resolved: Resolved, *, listed: bool = False) -> ModelEndpoint:
    """Return the endpoint of model calls; each mock agent has its own, to isolate scripted failures.

    Each mock model of a list (``listed``) has an account of its own.
    """
    provider = resolved.provider
    if provider is None or provider.dialect == MOCK:
        account = hashlib.sha256(resolved.model.encode()).hexdigest()[:8] if listed else "none"
        return ModelEndpoint(f"mock-{leased.agent}", account, resolved.model)
    credential = hashlib.sha256(provider.api_key.encode()).hexdigest()[:8] if provider.api_key else "none"
    return ModelEndpoint(provider.name, credential, resolved.model)
