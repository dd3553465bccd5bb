"""The target grammar: ``alice`` · ``@review`` / ``@review:pr-123`` · ``alice@review[:tag]``."""

from dataclasses import dataclass

from protocol.names import (
    DEFAULT_TAG,
    NameRejected,
    SpaceId,
    check_name,
    check_tag,
    check_workflow_name,
    personal_space,
    workflow_space,
)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a message goes. At least one of ``agent`` and ``workflow`` is set."""

    agent: str | None
    workflow: str | None
    tag: str = DEFAULT_TAG

    @property
    def space(self) -> SpaceId:
        """The space the message is said in: the workspace, or the agent's personal space."""
        if self.workflow is not None:
            return workflow_space(self.workflow, self.tag)
        return personal_space(self.agent or "")

    def __str__(self) -> str:
        """The spelling a person would type; the default tag is left out."""
        if self.workflow is None:
            return self.agent or ""
        tag = "" if self.tag == DEFAULT_TAG else f":{self.tag}"
        return f"{self.agent or ''}@{self.workflow}{tag}"


class TargetRejected(ValueError):
    """Text that is not a target. The text of the error shows the grammar."""


def parse_target(text: str) -> Target:
    """Parse what a user typed. Raises TargetRejected."""
    if not text.strip():
        raise TargetRejected(
            "the target is empty (is a variable unset?); use alice, @review, @review:tag or alice@review[:tag]"
        )
    agent, at, place = text.partition("@")
    try:
        if not at:
            return Target(agent=check_name(agent), workflow=None)
        workflow, colon, tag = place.partition(":")
        return Target(
            agent=check_name(agent) if agent else None,
            workflow=check_workflow_name(workflow),
            tag=check_tag(tag) if colon else DEFAULT_TAG,
        )
    except NameRejected as error:
        raise TargetRejected(
            f"{text[:100]!r} is not a target ({error}); use alice, @review, @review:tag or alice@review[:tag]"
        ) from error
