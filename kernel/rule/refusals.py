"""Refusals that several proposals share: of what is said where there is no workspace, or no channel. Pure."""

from kernel.rule.effects import Refuse
from protocol.names import DEFAULT_TAG, place_of, split_space


def not_running(space: str) -> Refuse:
    """Its workflow does not run."""
    name, tag = split_space(space)
    option = "" if tag == DEFAULT_TAG else f" --tag {tag}"
    return Refuse(
        "workflow_not_running", f"workflow {place_of(space)} is not running", f"start it: awk start {name}{option}"
    )


def no_channel(space: str) -> Refuse:
    """Its agents do not hear each other."""
    hint = "do your part alone: your final answer goes to the user"
    return Refuse("not_a_participant", f"{place_of(space)} has no channel: its agents do not hear each other", hint)
