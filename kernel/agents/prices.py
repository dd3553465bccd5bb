"""Costs of model calls by the price list of genai-prices. A model that is not in the list has no price.

The list is part of the package: no data is downloaded. It is imported when the first price is needed (0.2 s).
"""

from functools import lru_cache
from typing import Final

import msgspec

from kernel.agents.models import each_model
from kernel.agents.providers import MOCK, PROVIDERS, calls_models, route
from protocol.agent import AgentDefinition
from protocol.backends import BACKENDS
from protocol.instruction import Usage
from protocol.limits import AgentBudget, RunBudget
from protocol.project import ProjectDefinition

NO_PRICE_HINT: Final = (
    "set a budget in tokens instead (budget: {tokens: ...}, or --max-tokens); "
    "in a mock script, set the cost of a step with usage: {cost_usd: ...}"
)

_SAMPLE: Final = 1_000
"""Number of tokens to derive the price of one from: below every tier of a price list."""


class Rate(msgspec.Struct, frozen=True):
    """USD per token of input and of output, for calls of ordinary size."""

    input_usd: float
    output_usd: float


def cost_usd(provider: str, model: str, usage: Usage) -> float | None:
    """Return the cost of ``usage`` at ``provider``; None, and never 0, if the price of ``model`` is unknown.

    An endpoint with a custom name has no list price, whatever model it serves.
    """
    if provider not in PROVIDERS:
        return None
    import genai_prices  # noqa: PLC0415  (0.2 s, and only where money is counted)

    amounts = genai_prices.Usage(
        input_tokens=usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
    )
    try:
        return float(genai_prices.calc_price(amounts, model, provider_id=provider).total_price)
    except (LookupError, ValueError):  # not listed, or listed without a price for this kind of token
        return None


@lru_cache(maxsize=256)
def rate(provider: str, model: str) -> Rate | None:
    """Return the price of ``model`` per token, to estimate costs in advance; None if it is unknown."""
    read = cost_usd(provider, model, Usage(input_tokens=_SAMPLE))
    written = cost_usd(provider, model, Usage(output_tokens=_SAMPLE))
    if read is None or written is None:
        return None
    return Rate(read / _SAMPLE, written / _SAMPLE)


def has_price(definition: AgentDefinition, project: ProjectDefinition) -> bool:
    """Return whether the cost of each call is known right after it, so that a USD limit can work.

    Mock agents take the cost from their script. Raises ModelRejected.
    """
    if not calls_models(definition):
        return script_has_prices(definition)
    found = [route(one, project) for one in each_model(definition, project)]
    return all(
        script_has_prices(definition) if one.dialect == MOCK else rate(one.name, one.model) is not None for one in found
    )


def script_has_prices(definition: AgentDefinition) -> bool:
    """Return whether all token usage in the mock script has a cost.

    False for backends with their own models: they report the cost at the end, too late for a limit.
    """
    if BACKENDS[definition.backend].own_models:
        return False
    booked = (action.usage for rule in definition.mock for action in rule.do if action.usage is not None)
    return all(
        usage.cost_usd is not None
        or not (usage.input_tokens or usage.output_tokens or usage.cache_read_tokens or usage.cache_write_tokens)
        for usage in booked
    )


def has_token_limit(agent: AgentBudget, run: RunBudget) -> bool:
    """Return whether a limit that applies to an agent in a run is in tokens."""
    return any(limit is not None for limit in (agent.tokens, agent.instruction.tokens, run.tokens))


def has_usd_limit(agent: AgentBudget, run: RunBudget) -> bool:
    """Return whether a limit that applies to an agent in a run is in USD."""
    return any(limit is not None for limit in (agent.usd, agent.instruction.usd, run.usd))
