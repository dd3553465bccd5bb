"""Keys that tell a model how to think and speak (effort, thinking, temperature): who takes which. Pure.

A key that nobody would be told of is a fault of the file: an agent that was to think hard and does not is not noticed.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from kernel.agents.providers import Route
from protocol.agent import AgentDefinition, Backend

EFFORT: Final = "effort"
THINKING: Final = "thinking"
TEMPERATURE: Final = "temperature"
_ALL: Final = frozenset({EFFORT, THINKING, TEMPERATURE})

TAKEN: Final[Mapping[tuple[Backend, str], frozenset[str]]] = MappingProxyType(
    {
        ("sdk", "anthropic"): _ALL,
        ("sdk", "openai"): frozenset({EFFORT, TEMPERATURE}),
        ("claude", "anthropic"): frozenset({EFFORT, THINKING}),
        ("codex", "openai"): frozenset({EFFORT}),
        ("opencode", "anthropic"): _ALL,
        ("opencode", "openai"): frozenset({EFFORT, TEMPERATURE}),
    }
)
"""Backend and dialect -> what can be told there."""
_TAKES_ALL: Final = frozenset({"exec", "mock"})
"""Backends that get them in their start frame, or stand for any other; so does a model that is a mock's."""
_MOCK: Final = "mock"
_WARMEST: Final[Mapping[str, float]] = MappingProxyType({"anthropic": 1.0})
"""The highest temperature of a dialect, where that is not 2."""


class Untaken(msgspec.Struct, frozen=True):
    """A key that cannot be told, why, and what to do."""

    key: str
    message: str
    hint: str


def untaken(definition: AgentDefinition, way: Route) -> Iterator[Untaken]:
    """The options that ``definition`` sets and its backend, or the provider at the end of ``way``, does not take."""
    if definition.backend in _TAKES_ALL or way.dialect == _MOCK:
        return
    taken = TAKEN.get((definition.backend, way.dialect), frozenset())
    asked = [key for key in (EFFORT, THINKING, TEMPERATURE) if getattr(definition, key) is not None]
    for key in asked:
        if key not in taken:
            able = ", ".join(sorted(taken)) or "none of effort, thinking, temperature"
            who = f"backend {definition.backend} with a model of {way.name}"
            yield Untaken(key, f"is not taken by {who}", f"remove it; taken here: {able}")
    if {THINKING, TEMPERATURE} <= set(asked) <= taken and way.dialect == "anthropic":
        yield Untaken(TEMPERATURE, "is not taken together with thinking", "keep one of them")
    warmest = _WARMEST.get(way.dialect)
    if TEMPERATURE in taken and definition.temperature is not None and warmest and definition.temperature > warmest:
        yield Untaken(TEMPERATURE, f"{definition.temperature:g} is too high: {way.name} takes 0 to 1", "lower it")
    if definition.thinking is not None and THINKING in taken:
        tokens = definition.thinking.budget_tokens
        if tokens >= definition.max_tokens:
            text = f"{tokens} is not below max_tokens, of which it is a part ({definition.max_tokens})"
            yield Untaken(f"{THINKING}.budget_tokens", text, "raise max_tokens, or lower it")
