"""Requests for approval that were just decided."""

import msgspec

from interface.cli.escape import one_line
from interface.cli.output import Screen
from interface.cli.views.approval import decision_lines
from protocol.api.approvals import ApprovalInfo


class _Decided(msgspec.Struct, frozen=True):
    approvals: tuple[ApprovalInfo, ...]


def lines(body: bytes, _screen: Screen) -> list[str]:
    """One line for each, and one for what its pattern granted with it."""
    decided = msgspec.json.decode(body, type=_Decided).approvals
    return [line for one in decided for line in (*decision_lines(one), *_others(one))]


def _others(one: ApprovalInfo) -> list[str]:
    return [one_line(f"granted with it: {', '.join(one.also_granted)}")] if one.also_granted else []
