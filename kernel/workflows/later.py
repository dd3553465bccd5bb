"""Keys of the workflow file that are known and not taken: of later versions, or not a ref's to say."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kernel.agents.approval_words import kept_word
from kernel.agents.definition import AGENT_SHAPES
from kernel.agents.later import NOT_YET
from kernel.agents.mock_script import full_rules
from kernel.source.located import Shapes
from kernel.workflows.params import text_defaults
from protocol.workflow import Ref, RefPrompt, WorkflowDefinition, Workspace

_REMOVE: Final = "remove it: nothing would act on it"
_OWN: Final = "it is the agent's own: change its file, or write an inline agent"

_WORKFLOW_KEYS: Final = ("rules", "guard")
_REF_OWN: Final = (
    "soul",
    "context",
    "retry",
    "env",
    "name",
    "memory",
    "tools",
    "scopes",
    "mcp_servers",
    "skills",
    "sandbox",
    "limits",
    "command",
)
_WORKSPACE_KEYS: Final = ("document", "documents", "document_owner")

_REFUSED: Final[Mapping[tuple[type, str], tuple[str, str]]] = MappingProxyType(
    {
        **{(WorkflowDefinition, key): (f"{key} {NOT_YET}", _REMOVE) for key in _WORKFLOW_KEYS},
        (WorkflowDefinition, "context"): ("unknown key 'context'", "it is called workspace"),
        **{(Workspace, key): (f"{key} {NOT_YET}", _REMOVE) for key in _WORKSPACE_KEYS},
        **{(Ref, key): (f"a ref cannot override {key}", _OWN) for key in _REF_OWN},
        (RefPrompt, "system"): ("a ref cannot override prompt.system", "write append: to add to the agent's prompt"),
        (RefPrompt, "system_file"): ("a ref cannot override prompt.system_file", "write append: to add to it"),
    }
)

WORKFLOW_SHAPES: Final = Shapes(
    short_forms=MappingProxyType(
        {
            **AGENT_SHAPES.short_forms,
            (Ref, "approval"): kept_word,
            (Ref, "mock"): full_rules,
            (WorkflowDefinition, "params"): text_defaults,
        }
    ),
    refused=MappingProxyType({**AGENT_SHAPES.refused, **_REFUSED}),
    refused_values=AGENT_SHAPES.refused_values,
)
