"""Targets as users type them, checked before anything is started for them."""

import re
from typing import Final

from interface.failure import Failure
from protocol.target import Target, TargetRejected, parse_target

RUN: Final = re.compile(r"r\d{1,18}", re.ASCII)
"""The id of a run."""


def target(text: str) -> Target:
    """``text`` as a target. Raises Failure (bad_target)."""
    try:
        return parse_target(text)
    except TargetRejected as error:
        raise Failure("bad_target", str(error)) from error


def target_query(text: str | None) -> dict[str, str]:
    """How the kernel is asked about one target only; without ``text`` about all. Raises Failure (bad_target)."""
    if text is None:
        return {}
    asked = target(text)
    query = {} if asked.workflow is None else {"space": str(asked.space)}
    return query if asked.agent is None else {**query, "agent": asked.agent}


def workflow_target(text: str) -> Target:
    """As ``target``, and it must name a workflow's channel."""
    found = target(text)
    if found.workflow is None or found.agent is not None:
        raise Failure("bad_target", f"{text!r} is not a workflow's channel", "name it like @review or @review:tag")
    return found
