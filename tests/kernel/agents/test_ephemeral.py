"""Agents made at run time obey the rules of the file."""

import pytest

from kernel.agents.catalog import agent_from_request
from kernel.source.diagnostics import BadDefinition
from protocol.agent import Action, AgentDefinition, Prompt, Rule
from protocol.api.agents import AgentRequest
from protocol.project import ProjectDefinition


def made(request: AgentRequest) -> AgentDefinition:
    return agent_from_request(request, "helper", ProjectDefinition())


def test_a_request_becomes_a_definition() -> None:
    """contracts 4: POST /agents."""
    request = AgentRequest(model="mock/x", system='say "no: 1"\n\u2028', mock=[{"text": "hi"}, {"exit": 3}])
    definition = made(request)
    assert (definition.name, definition.model, definition.prompt) == ("helper", "mock/x", Prompt(system=request.system))
    assert definition.mock[0] == Rule(do=(Action(text="hi"), definition.mock[0].do[1]))


@pytest.mark.parametrize(
    ("request_", "where"),
    [
        (AgentRequest(model="x", system="s"), "model"),
        (AgentRequest(model="openai/x"), "prompt"),
        (AgentRequest(model="mock/x", mock=[{"txt": "hi"}]), "mock[0].do[0].txt"),
        (AgentRequest(model="openai/x", system="s", backend="claude"), "backend"),
        (AgentRequest(model="openai/x", system="s", provider={"name": "x", "base_url": 1}), "provider"),
    ],
)
def test_what_the_file_may_not_say_a_request_may_not_either(request_: AgentRequest, where: str) -> None:
    with pytest.raises(BadDefinition) as caught:
        made(request_)
    assert [error.where for error in caught.value.errors] == [where]
