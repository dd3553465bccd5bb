"""Keys of the agent file that are known and not taken yet: refused with a reason, never accepted and ignored."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from protocol.agent import AgentDefinition, Prompt

NOT_YET: Final = "is not supported in this version"
_REMOVE: Final = "remove it: nothing would act on it"

_AGENT_KEYS: Final = ("memory", "scopes")

REFUSED_KEYS: Final[Mapping[tuple[type, str], tuple[str, str]]] = MappingProxyType(
    {
        **{(AgentDefinition, key): (f"{key} {NOT_YET}", _REMOVE) for key in _AGENT_KEYS},
        (AgentDefinition, "system_prompt"): ("unknown key 'system_prompt'", "write prompt: {system: ...}"),
        (AgentDefinition, "system"): ("unknown key 'system'", "write prompt: {system: ...}"),
        (Prompt, "append"): (
            "append is for a workflow that refers to an agent",
            "write all of the prompt under system or system_file",
        ),
    }
)

REFUSED_VALUES: Final[Mapping[tuple[type, str], Mapping[str, str]]] = MappingProxyType({})
