"""An agent or a workflow that was changed, as it is now."""

import msgspec

from interface.cli.escape import one_line
from interface.cli.output import Screen
from protocol.api.agents import AgentChanged
from protocol.api.workflows import WorkflowRow


def lines(body: bytes, _screen: Screen) -> list[str]:
    """One line: which, its state, and what goes on now."""
    if b'"schema":"awk/agent-state/1"' not in body:
        row = msgspec.json.decode(body, type=WorkflowRow)
        return [one_line(f"@{row.name}:{row.tag} is {'paused' if row.paused else row.state}")]
    agent = msgspec.json.decode(body, type=AgentChanged)
    name = agent.name if agent.space is None else f"{agent.name}@{agent.space}"
    until = f" until {agent.until}" if agent.until else ""
    why = f" ({agent.reason})" if agent.reason else ""
    goes_on = f"; goes on: {', '.join(agent.instructions)}" if agent.instructions else ""
    return [one_line(f"{name} is {agent.state}{until}{why}{goes_on}")]
