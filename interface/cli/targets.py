"""Targets as users type them, checked before anything is started for them, and their paths in the API."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from interface.client import quoted
from interface.failure import Failure
from protocol.names import BELOW, split_space
from protocol.target import Target, TargetRejected, parse_target

RUN: Final = re.compile(r"r\d{1,18}", re.ASCII)
"""The id of a run."""


def target(text: str) -> Target:
    """Parse ``text`` as a target. Raises Failure (bad_target)."""
    try:
        return parse_target(text)
    except TargetRejected as error:
        raise Failure("bad_target", str(error)) from error


def agent_target(text: str) -> Target:
    """Parse ``text`` as a target that names an agent. Raises Failure (bad_target)."""
    asked = target(text)
    if asked.agent is None:
        raise Failure("bad_target", f"{text!r} does not name an agent", f"for example: alice{text}")
    return asked


def workflow_target(text: str) -> Target:
    """Parse ``text`` as a target that names a workflow's channel. Raises Failure (bad_target)."""
    found = target(text)
    if found.workflow is None or found.agent is not None:
        raise Failure("bad_target", f"{text!r} is not the channel of a workflow", "use @review or @review:tag")
    return found


def typed_name(name: str, space: str) -> str:
    """Parse the name of an object in a workflow's space: ``release@review[:tag]``."""
    workflow, tag = split_space(space)
    return str(Target(name, workflow, tag))


def concerns(message: Mapping[str, Any], agent: str) -> bool:
    """Return whether ``agent`` is sender or recipient of ``message`` (a Message as JSON), or is mentioned in it."""
    return (
        agent == message.get("from") or agent in message.get("to", ()) or f"@{agent}" in message.get("text", "").lower()
    )


def matches(asked: Sequence[Target], agent: str, space: str | None) -> bool:
    """Return whether a row or event of ``agent`` in ``space`` belongs to one of the targets; none of them: to all."""
    places = {space, (space or "").partition(BELOW)[0]}
    return not asked or any(
        one.agent in (None, agent) and (one.workflow is None or str(one.space) in places) for one in asked
    )


def target_query(text: str) -> dict[str, str]:
    """Return the query that limits an answer to one target. Raises Failure (bad_target)."""
    asked = target(text)
    query = {} if asked.workflow is None else {"space": str(asked.space)}
    return query if asked.agent is None else {**query, "agent": asked.agent}


def agent_path(asked: Target, what: str) -> str:
    """Return the path of ``what`` (queue, reset, ...) of the agent."""
    where = "" if asked.workflow is None else f"@{asked.space}"
    return f"/agents/{quoted(f'{asked.agent}{where}')}/{what}"
