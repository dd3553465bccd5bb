"""How many attempts one worker serves: ``reuse: auto`` only where nothing of the agent reaches the machine."""

from typing import Any

import pytest

from kernel.policy.reuse import AUTO_ATTEMPTS, attempts_per_worker
from protocol.agent import Action, AgentDefinition, McpServer, Rule

pytestmark = pytest.mark.promise("P36")


@pytest.mark.parametrize(
    ("keys", "served"),
    [
        ({}, AUTO_ATTEMPTS),
        ({"tools": ("feedback",)}, AUTO_ATTEMPTS),
        ({"backend": "mock", "mock": (Rule(do=(Action(text="x"), Action(tool="channel_send"))),)}, AUTO_ATTEMPTS),
        ({"backend": "mock", "mock": (Rule(do=(Action(text="x"), Action(shell="true"))),)}, 1),
        ({"mock": (Rule(do=(Action(shell="true"),)),), "model": "mock/x"}, 1),
        *[({"backend": backend}, 1) for backend in ("claude", "codex", "cursor", "opencode", "acp", "exec", "human")],
        *[({"tools": ("feedback", word)}, 1) for word in ("bash", "files", "skills", "lint")],
        ({"mcp_servers": {"docs": McpServer(url="https://example.org")}}, 1),
        ({"skills": ("skills",)}, 1),
        ({"sandbox": "on"}, 1),
    ],
)
def test_auto_reuses_a_worker_only_where_nothing_reaches_the_machine(keys: dict[str, Any], served: int) -> None:
    unset, auto = AgentDefinition(name="alice", **keys), AgentDefinition(name="alice", reuse="auto", **keys)
    assert attempts_per_worker(auto, None) == attempts_per_worker(unset, "auto") == served
    assert attempts_per_worker(unset, None) == 1


@pytest.mark.parametrize("number", [1, 7])
def test_a_number_of_the_agent_precedes_the_default_of_the_project(number: int) -> None:
    assert attempts_per_worker(AgentDefinition(name="alice", reuse=number), "auto") == number
