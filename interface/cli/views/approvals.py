"""Requests for approval that were just decided."""

import msgspec

from interface.cli.output import Screen
from interface.cli.views.approval import decision_lines
from protocol.api.approvals import ApprovalInfo


class _Decided(msgspec.Struct, frozen=True):
    approvals: tuple[ApprovalInfo, ...]


def lines(body: bytes, _screen: Screen) -> list[str]:
    """One line for each."""
    return [line for one in msgspec.json.decode(body, type=_Decided).approvals for line in decision_lines(one)]
