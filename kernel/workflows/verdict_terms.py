"""What a workflow file says about the vote that decides over its runs, as far as files tell."""

import re
from typing import Final

from kernel.agents.definition import place_at
from kernel.source.nodes import Node
from kernel.source.problems import Problems
from protocol.names import NAME, RESERVED, NameRejected, check_name
from protocol.workflow import VerdictTerms, WorkflowDefinition

_WHERE: Final = "verdict"
_OTHER: Final = re.compile(r"[^a-z0-9_-]+")


def check_verdict(definition: WorkflowDefinition, node: Node, problems: Problems) -> None:
    """Note in ``problems`` what is wrong with the ``verdict`` of ``definition``."""
    terms = definition.verdict_terms
    if terms is None:
        return
    place = place_at(node, _WHERE)
    where = _WHERE if isinstance(definition.verdict, str) else f"{_WHERE}.id"
    try:
        check_name(terms.id)
    except NameRejected as error:
        problems.add(place_at(node, where), where, str(error), _hint(terms.id))
        return
    _check_electors(terms, tuple(definition.agents), node, problems)
    if definition.workspace is False:
        message = "nobody could vote: with workspace: false its agents do not hear each other"
        problems.add(place, _WHERE, message, "remove workspace: false, or verdict:")


def _check_electors(terms: VerdictTerms, members: tuple[str, ...], node: Node, problems: Problems) -> None:
    where = f"{_WHERE}.electors"
    for name in terms.electors:
        if name not in members:
            hint = f"its agents are {', '.join(members)}"
            problems.add(place_at(node, where), where, f"{name[:60]!r} is no agent of this workflow", hint)
        elif terms.electors.count(name) > 1:
            problems.add(place_at(node, where), where, f"{name} is named twice", "everybody has one vote")
            break
    voters = len(terms.electors or members)
    if terms.quorum is not None and terms.quorum > voters:
        where = f"{_WHERE}.quorum"
        problems.add(place_at(node, where), where, f"only {voters} can vote", "leave it out to wait for all of them")
    if terms.tie_breaker is not None and terms.type == "unanimous":
        where = f"{_WHERE}.tie_breaker"
        problems.add(place_at(node, where), where, "a unanimous vote has no ties", "leave it out")


def _hint(text: str) -> str | None:
    """The name that ``text`` is nearest to."""
    near = _OTHER.sub("-", text.lower()).strip("-_0123456789")[:32].rstrip("-")
    return f"did you mean {near}?" if NAME.fullmatch(near) and near not in RESERVED else None
