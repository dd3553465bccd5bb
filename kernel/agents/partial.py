"""An agent with mistakes in some keys: what is wrong between the others is said at the same time."""

from typing import Final

import msgspec

from kernel.agents.definition import AGENT_SHAPES, Named, check_agent, plain_rules
from kernel.source.located import Converter
from kernel.source.nodes import MapNode, Node
from kernel.source.problems import Place, Problems
from protocol.agent import AgentDefinition
from protocol.project import ProjectDefinition

_KEYS: Final = frozenset(info.encode_name for info in msgspec.structs.fields(AgentDefinition))
_DECIDING: Final = frozenset({"backend", "model"})
_MISSING: Final = "is missing"


def check_partial(node: Node, named: Named, project: ProjectDefinition, problems: Problems, where: str = "") -> None:
    """Check those keys of ``node`` that ``problems`` has nothing against; for where it could not be converted."""
    if not isinstance(node, MapNode) or problems.full:
        return
    wrong = {_key(error.where, where) for error in problems.errors}
    sound = MapNode(tuple(pair for pair in node.entries if pair[0].text not in wrong | {"name"}), node.place)
    definition = Converter(Problems(problems.path), AGENT_SHAPES).struct(
        sound, AgentDefinition, where, {"name": named.name}
    )
    if definition is None:
        return
    found = Problems(problems.path, problems.text)
    definition = msgspec.structs.replace(definition, mock=plain_rules(definition.mock))
    check_agent(definition, sound, project, found, where)
    # A key that is not known may be the missing one in other letters; what a wrong backend needs nobody can say.
    unsure = bool(wrong - _KEYS or wrong & _DECIDING)
    for error in found.errors:
        follows = _key(error.where, where) in wrong or (unsure and error.message.startswith(_MISSING))
        if not follows:
            problems.add(Place(error.line, error.column), error.where, error.message, error.hint)


def _key(where: str, above: str) -> str:
    """The key of the agent that ``where`` is in; empty for what is not in it."""
    if above and not where.startswith(f"{above}."):
        return ""
    return where[len(above) :].removeprefix(".").partition(".")[0].partition("[")[0]
