"""The agents of the project."""

import msgspec

from interface.cli.output import Screen
from interface.cli.plain_table import table
from protocol.api.agents import AgentList, AgentRow


def lines(body: bytes, screen: Screen) -> list[str]:
    """One line for each agent; its source is a file, a running workflow, or "ephemeral": until the kernel stops."""
    agents = msgspec.json.decode(body, type=AgentList).agents
    if not agents:
        return ["no agents: write .agents/<name>.yaml, or see init"]
    return table(["NAME", "STATE", "BACKEND", "MODEL", "SOURCE", "FILE"], [_row(agent) for agent in agents], screen)


def _row(agent: AgentRow) -> list[str]:
    wrong = agent.error and f"{agent.error}{'' if agent.state == 'error' else ' (what it said before counts)'}"
    return [agent.name, agent.state, agent.backend, agent.model or "-", agent.source, wrong or agent.file or "-"]
