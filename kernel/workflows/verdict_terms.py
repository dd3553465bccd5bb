"""What a workflow file says about the vote that decides over its runs, as far as files tell."""

import re
from typing import Final

from kernel.agents.definition import place_at
from kernel.source.nodes import Node
from kernel.source.problems import Problems
from protocol.names import NAME, RESERVED, NameRejected, check_name
from protocol.workflow import WorkflowDefinition

_WHERE: Final = "verdict"
_OTHER: Final = re.compile(r"[^a-z0-9_-]+")


def check_verdict(definition: WorkflowDefinition, node: Node, problems: Problems) -> None:
    """Note in ``problems`` what is wrong with the ``verdict`` of ``definition``."""
    name = definition.verdict
    if name is None:
        return
    place = place_at(node, _WHERE)
    try:
        check_name(name)
    except NameRejected as error:
        problems.add(place, _WHERE, str(error), _hint(name))
        return
    if definition.workspace is False:
        message = "nobody could vote: with workspace: false its agents do not hear each other"
        problems.add(place, _WHERE, message, "remove workspace: false, or verdict:")


def _hint(text: str) -> str | None:
    """The name that ``text`` is nearest to."""
    near = _OTHER.sub("-", text.lower()).strip("-_0123456789")[:32].rstrip("-")
    return f"did you mean {near}?" if NAME.fullmatch(near) and near not in RESERVED else None
