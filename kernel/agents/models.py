"""Names of models: aliases, known families, and the models of an agent in order of preference."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from protocol.agent import AgentDefinition, model_names
from protocol.backends import BACKENDS, EXEC
from protocol.project import ProjectDefinition

ALIASES: Final[Mapping[str, str]] = {
    "opus": "anthropic/claude-opus-5-5",
    "sonnet": "anthropic/claude-sonnet-5-5",
    "haiku": "anthropic/claude-haiku-5-5",
}
"""Short names for models, with the ids that our version of the anthropic client lists."""

FAMILIES: Final[Mapping[str, str]] = {
    r"claude-": "anthropic",
    r"gpt-|chatgpt-|codex-|o[134](?:-|$)": "openai",
    r"gemini-": "google",
    r"deepseek-": "deepseek",
    r"grok-": "xai",
    r"mistral-|codestral-|devstral-|magistral-": "mistral",
    r"kimi-": "moonshot",
}
"""Prefixes of model names that identify their provider: such a name needs no provider prefix."""


def models_of(definition: AgentDefinition, project: ProjectDefinition) -> tuple[str, ...]:
    """Return the models of ``definition`` in order of preference, with the project's default and aliases replaced."""
    written, aliases = definition.models, project.models.aliases
    if definition.model == "" and (definition.backend == EXEC or not BACKENDS[definition.backend].bare):
        written = model_names(project.models.default)
    if len(written) == 1 and written[0] not in aliases:
        return written
    found = (full_model(name) for text in written for name in model_names(aliases.get(text, (text,))))
    return tuple(dict.fromkeys(found))


def each_model(definition: AgentDefinition, project: ProjectDefinition) -> tuple[AgentDefinition, ...]:
    """Return ``definition`` with each of its models alone, in order of preference; itself if it has no model."""
    found = models_of(definition, project)
    return tuple(msgspec.structs.replace(definition, model=model) for model in found) or (definition,)


def full_model(text: str) -> str:
    """Return ``provider/name`` for an alias or a known model name, any other ``text`` unchanged."""
    if text in ALIASES:
        return ALIASES[text]
    found = next((provider for beginning, provider in FAMILIES.items() if re.match(beginning, text)), None)
    return text if found is None or "/" in text else f"{found}/{text}"
