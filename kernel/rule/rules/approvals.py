"""A tool is to be called only if somebody agrees: who asks waits, and who decides lets it go on.

What was agreed to once for all is granted without a person. A request is decided once; the same decision again
changes nothing. These messages have no author: only the administrator's API appends them, and an agent's grant where it
may decide (kernel.store.transitions.grants).
"""

from typing import Final

from kernel.policy.approvals import covering, matches
from kernel.rule.draft import ApprovalAsked, ApprovalDecided, Fact
from kernel.rule.effects import ApprovalDecision, ApprovalRequest, ApprovalRule, Effect, Refuse, Rule, WriteRow
from kernel.rule.view import PendingApproval, View
from protocol.names import approval_id


def decide(fact: Fact, view: View) -> tuple[Effect, ...]:
    """Keep the request, or what became of it."""
    match fact.draft.payload:
        case ApprovalAsked() as asked:
            return _ask(fact, asked, view)
        case ApprovalDecided() as decided if fact.cause is None:
            return _decided(decided, view)
        case _:
            return ()


def _ask(fact: Fact, asked: ApprovalAsked, view: View) -> tuple[Effect, ...]:
    if fact.cause is None or fact.speaker is None:
        return (Refuse("forbidden", "only an agent at work asks for an approval"),)
    rule = covering(view.approval_rules(fact.speaker, asked.tool), asked.input.decode())
    workspace = view.workspace(fact.draft.space)
    request = ApprovalRequest(
        asked=asked,
        instruction=fact.cause,
        agent=fact.speaker,
        name=fact.draft.sender,
        space=fact.draft.space,
        waits_ms=asked.expires_ms if workspace is not None and workspace.options.attended else 0,
        rule=None if rule is None else rule.number,
    )
    return (WriteRow(request),)


def _decided(decided: ApprovalDecided, view: View) -> tuple[Effect, ...]:
    request = view.request(decided.approval)
    if request is None:
        text = f"there is no request {approval_id(decided.approval)}"
        return (Refuse("not_found", text, "awk pending lists what waits for a decision"),)
    if request.state not in ("open", decided.decision):
        too_late: Refuse
        name = approval_id(decided.approval)
        if request.state == "expired":
            too_late = Refuse("conflict", f"{name} is no longer open: {request.reason or 'its time is over'}")
        else:
            by = f" by {request.decided_by}" if request.decided_by else ""
            too_late = Refuse("conflict", f"{name} is {request.state} already{by}")
        return (too_late,)
    effects: list[Effect] = []
    if request.state == "open":
        effects.append(_decision(decided.approval, decided))
    if decided.always is not None:
        effects += _always(decided, decided.always, request, view)
    return tuple(effects)


def _decision(approval: int, decided: ApprovalDecided) -> Effect:
    row = ApprovalDecision(approval=approval, decision=decided.decision, by=decided.by, reason=decided.reason)
    return WriteRow(row)


def _always(decided: ApprovalDecided, pattern: str, request: PendingApproval, view: View) -> list[Effect]:
    if not matches(pattern, request.input):
        text = f"the pattern is not that of {approval_id(decided.approval)}, whose input is {request.input[:200]}"
        return [Refuse("bad_request", text, "it has to fit the whole input; * stands for any text")]
    agent = None if decided.everybody else request.agent
    rule = ApprovalRule(agent=agent, tool=request.tool, pattern=pattern, by=decided.by)
    others = (
        number
        for number, given in view.open_requests(agent, request.tool)
        if number != decided.approval and matches(pattern, given)
    )
    return [WriteRow(rule), *(_decision(number, decided) for number in others)]


APPROVAL: Final = Rule(name="approval", kinds=frozenset({"approval"}), decide=decide)
