"""One request for approval, with all of its input, and what became of it."""

import msgspec

from interface.cli.escape import escape, one_line
from interface.cli.output import Screen
from protocol.api.approvals import ApprovalInfo


def lines(body: bytes, _screen: Screen) -> list[str]:
    """Who asks for what, the input as it would be given, then the decision."""
    one = msgspec.json.decode(body, type=ApprovalInfo)
    until = f", until {one.expires_at}" if one.state == "open" else ""
    head = f"{one.id}: {one.agent} in {one.space} asks for {one.tool} ({one.state}{until})"
    given = msgspec.json.format(msgspec.json.encode(one.input, order="sorted"), indent=2).decode()
    reasons = [one_line(f"reason: {one.reason}")] if one.reason else []
    return [one_line(head), *reasons, *escape(given).split("\n"), *decision_lines(one)]


def decision_lines(one: ApprovalInfo) -> list[str]:
    """What became of it, if something did."""
    if one.decided_at is None:
        return []
    why = f": {one.decision_reason}" if one.decision_reason else ""
    if one.state == "expired":  # its time was over, or its work ended: nobody decided
        return [one_line(f"{one.id} is no longer open since {one.decided_at}{why}")]
    return [one_line(f"{one.id} was {one.state} by {one.decided_by} at {one.decided_at}{why}")]
