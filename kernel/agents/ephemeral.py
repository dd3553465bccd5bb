"""An agent made at run time (``awk new``, POST /agents): the request checked by the rules of the agent file."""

from typing import Any, Final

import msgspec

from kernel.agents.definition import AGENT_SHAPES, Named, check_agent, convert_agent
from kernel.agents.providers import MOCK
from kernel.source.files import tree_of
from kernel.source.located import Converter
from kernel.source.problems import fail
from protocol.agent import AgentDefinition
from protocol.api.agents import AgentRequest
from protocol.project import ProjectDefinition

_SHOWN: Final = "request"


def agent_from_request(request: AgentRequest, name: str, project: ProjectDefinition) -> AgentDefinition:
    """The definition that ``request`` asks for, under ``name``. Raises BadDefinition."""
    if request.system is None and request.mock is None and not _is_mock(request):
        raise fail(_SHOWN, "is missing", "give one: new -s TEXT, or system in the request", where="prompt")
    keys: dict[str, Any] = {"model": request.model}
    keys |= {
        key: value
        for key, value in (
            ("backend", request.backend),
            ("provider", request.provider),
            ("prompt", None if request.system is None else {"system": request.system}),
            ("mock", request.mock),
        )
        if value is not None
    }
    node, problems = tree_of(msgspec.json.format(msgspec.json.encode(keys)), _SHOWN)
    definition = convert_agent(node, Named(name, "asked for"), Converter(problems, AGENT_SHAPES), problems)
    if definition is not None:
        check_agent(definition, node, project, problems)
    problems.check()
    assert definition is not None
    return definition


def _is_mock(request: AgentRequest) -> bool:
    """Whether it plays a script, and needs no prompt."""
    return request.backend == MOCK or request.model.startswith(f"{MOCK}/")
