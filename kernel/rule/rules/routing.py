"""Routing of messages: recipients and wakeups, replies, failure notices, workflow starts, and schedules. Pure.

A message without an addressee or a mention wakes no agent, and no agent wakes itself. At a limit of the workflow,
agents still receive the work, but it waits until a person continues the workflow.

The final answer of an agent becomes a reply in the space of its work. A failure is announced there once, by the
system; for repeated failures of scheduled work with the same cause, only the first is announced. A change of a
document wakes no agent, a suggestion wakes the document's owner, and shared memory only goes to the recipient's inbox.

A proposal wakes members like a mention. Its result wakes its creator unless the creator's own call ended the vote,
because the answer of that call contains the result.

A schedule wakes its agent in the background lane: in the named workspace if that is running, else in its personal
space or in the workspace of the workflow whose file has the schedule. A workspace at a limit is skipped, so that
unrequested work does not pile up.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from kernel.policy.voting import ProposalOpened, check_terms
from kernel.rule.assignment import (
    assign,
    assign_mentioned,
    channel_of,
    check_question,
    check_recipient,
    continues,
    limit_reached,
    limited,
    no_channel,
    not_running,
)
from kernel.rule.draft import Draft, Fact, GuardAsked, InstructionOutcome, ProposalEnded, RunSpec, Wakes, WakeupDue
from kernel.rule.effects import (
    Append,
    Assign,
    Effect,
    InboxDelivery,
    LimitRun,
    OpenProposal,
    Rule,
    RuleView,
    RunningWorkspace,
    SetMembers,
    StartRun,
    WriteRow,
)
from protocol.errors import Refused
from protocol.instruction import Lane, Status, WaitReason
from protocol.message import HOOK, RESOURCE_LIMIT_BYTES, SYSTEM, TOO_LARGE_HINT, USER
from protocol.names import (
    AgentKey,
    AgentName,
    group_of,
    is_below,
    is_personal,
    name_of,
    place_of,
    split_space,
    workflow_space,
)
from protocol.target import find_mentions, limit_mentions
from protocol.workflow import RunLimits

NOTICES: Final[Mapping[Status, str]] = {
    "failed": "failed and will not be retried",
    "dead": "was dead-lettered after its last attempt",
    "incomplete": "ended incomplete",
}
"""Text of the failure notice for each status; other statuses are not announced."""


def decide_failure(fact: Fact, view: RuleView) -> tuple[Effect, ...]:
    """Return a failure notice with the agent, instruction, class and cause; none for a repeated
    failure of a schedule."""
    outcome = fact.draft.payload
    if not isinstance(outcome, InstructionOutcome) or outcome.status not in NOTICES or _told(fact, outcome, view):
        return ()
    why = ": ".join(part for part in (outcome.error_class, outcome.cause) if part) or "cause unknown"
    text = f"{outcome.instruction} of {fact.draft.sender} {NOTICES[outcome.status]} ({why})"
    return (Append(Draft(kind="system", space=fact.draft.space, sender=SYSTEM, text=text)),)


def _told(fact: Fact, outcome: InstructionOutcome, view: RuleView) -> bool:
    if fact.cause is None or outcome.cause is None:
        return False
    before = view.wakeup_before(fact.cause)
    return before is not None and before.status in NOTICES and before.cause == outcome.cause


FAILURE: Final = Rule(name="failure", kinds=frozenset({"done", "failed"}), decide=decide_failure)


def decide_reply(fact: Fact, _view: RuleView) -> tuple[Effect, ...]:
    """Return the agent's final answer as a reply, unless it is empty."""
    if not isinstance(fact.draft.payload, InstructionOutcome) or not fact.draft.payload.text.strip():
        return ()
    return (
        Append(Draft(kind="reply", space=fact.draft.space, sender=fact.draft.sender, text=fact.draft.payload.text)),
    )


REPLY: Final = Rule(name="reply", kinds=frozenset({"done"}), decide=decide_reply)


def decide_mentions(fact: Fact, view: RuleView) -> tuple[Effect, ...]:
    """Deliver and assign the message. Raises Refused."""
    if fact.draft.kind == "said" and len(fact.draft.text.encode("utf-8", "replace")) > RESOURCE_LIMIT_BYTES:
        raise Refused("too_large", f"message too large: the limit is {RESOURCE_LIMIT_BYTES} bytes", TOO_LARGE_HINT)
    if is_personal(fact.draft.space):
        if fact.draft.asks:
            raise check_recipient(fact.draft.space)
        name = split_space(fact.draft.space)[1]
        key, told = AgentKey(name), (*fact.draft.to, *(fact.draft.mentions or ()))
        by_rule = fact.draft.chain is not None and fact.speaker != key and name in told
        if fact.draft.sender != USER and not fact.draft.sender.startswith(HOOK) and not by_rule:
            return ()
        if fact.hops > (most := RunLimits().hops):
            raise Refused("conflict", f"the hop limit of {most} is reached", "send the agent a message")
        if not view.agent_exists(key):
            raise Refused("unknown_agent", f"agent {name!r} not found", "list agents: awk agent list")
        return assign(key, name, "immediate", fact.hops, continues=continues(fact, key, view))
    workspace = view.workspace(fact.draft.space)
    if workspace is None:
        raise not_running(fact.draft.space)
    return _workspace(fact, workspace, view)


def _workspace(fact: Fact, workspace: RunningWorkspace, view: RuleView) -> tuple[Effect, ...]:
    if fact.speaker is not None and not workspace.has_channel:
        if fact.draft.kind == "reply":
            return ()
        raise no_channel(fact.draft.space)
    direct: dict[AgentKey, str] = {}
    for name in fact.draft.to:
        key = view.member(fact.draft.space, name.lower())
        if key is None:
            members = ", ".join(view.member_names(fact.draft.space))
            text = f"agent {name!r} is not a member of {place_of(fact.draft.space)}; members: {members}"
            add = f"add the agent under agents: in {workspace.file}"
            hint = "ask the opener of the space to add the agent" if is_below(fact.draft.space) else add
            raise Refused("not_a_participant", text, hint)
        direct.setdefault(key, name.lower())
    if fact.draft.asks:
        check_question(fact, direct, view)
    named = {key: name for key, name in _mentioned(fact, view).items() if key not in direct}
    if not direct and not named:
        return ()
    woken, over = limit_mentions(named.values())
    limit = limit_reached(fact, workspace, len(direct) + len(woken))
    waits_for = None if limit is None else limit.waits_for
    effects: list[Effect] = []
    for key, name in direct.items():
        effects.extend(_address(fact, key, name, view, waits_for))
    for key, name in named.items():
        effects.extend(
            (InboxDelivery(key, AgentName(name)),)
            if name in over
            else assign(key, name, "immediate", fact.hops, joins=True, waits_for=waits_for)
        )
    return (*effects, *(() if limit is None else limited(fact.draft.space, workspace, limit)))


def _address(fact: Fact, key: AgentKey, name: str, view: RuleView, waits_for: WaitReason | None) -> tuple[Effect, ...]:
    if fact.draft.asks:
        return assign(key, name, "immediate", fact.hops, waits_for=waits_for, asked_by=fact.cause)
    return assign(key, name, "normal", fact.hops, waits_for=waits_for, continues=continues(fact, key, view))


def _mentioned(fact: Fact, view: RuleView) -> dict[AgentKey, str]:
    """Return mentioned members in order, without the speaker and its group and, in a reply, earlier addressees and the
    asker."""
    names = find_mentions(fact.draft.text) if fact.draft.mentions is None else fact.draft.mentions
    if not names:
        return {}
    silent = {fact.speaker, group_of(fact.speaker or "")}
    if fact.draft.kind == "reply" and fact.cause is not None:
        silent |= {*view.addressed_by(fact.cause), *view.askers(fact.cause)[:1]}
    found: dict[AgentKey, str] = {}
    for name in names:
        key = view.member(fact.draft.space, name.lower())
        if key is not None and key not in silent:
            found.setdefault(key, name.lower())
    return found


ROUTING: Final = Rule(name="routing", kinds=frozenset({"kickoff", "said", "reply"}), decide=decide_mentions)


def decide_document(fact: Fact, view: RuleView) -> tuple[Effect, ...]:
    """Wake the addressees of a suggestion; agents that are only mentioned find it in the inbox."""
    workspace = view.workspace(fact.draft.space)
    if workspace is None:
        return ()
    told = _members(fact, fact.draft.mentions or (), view)
    woken = assign_mentioned(fact, workspace, _members(fact, fact.draft.to, view))
    return (*(InboxDelivery(key, AgentName(name)) for key, name in told), *woken)


def _members(fact: Fact, names: tuple[str, ...], view: RuleView) -> tuple[tuple[AgentKey, str], ...]:
    keys = ((view.member(fact.draft.space, name), name) for name in names)
    return tuple((key, name) for key, name in keys if key is not None and key != fact.speaker)


DOCUMENT: Final = Rule(name="document", kinds=frozenset({"document", "grant"}), decide=decide_document)


MOST_OPEN: Final = 16
"""Maximum number of open proposals of a space. Each proposal wakes all members."""


def decide_proposal(fact: Fact, view: RuleView) -> tuple[Effect, ...]:
    """Open a proposal, or wake the creator of an ended proposal. Raises Refused."""
    match fact.draft.payload:
        case ProposalOpened() as opened:
            return _open(fact, opened, view)
        case Wakes() as woken:
            return _call_creator(fact, woken, view)
        case ProposalEnded(wakes=Wakes() as woken):
            return _call_creator(fact, woken, view)
        case _:
            return ()


def _open(fact: Fact, opened: ProposalOpened, view: RuleView) -> tuple[Effect, ...]:
    space = fact.draft.space
    if is_personal(space):
        text = f"space {space} has no votes: it is between {split_space(space)[1]} and the user"
        raise Refused("not_a_participant", text, "open the proposal in a workspace")
    workspace = channel_of(view, space)
    members = view.roster(space)
    electors = members if opened.electors is None else tuple(one for one in members if one[1] in opened.electors)
    if view.has_ballot(space, opened.name):
        text = f"proposal {opened.name!r} already exists (open or ended)"
        raise Refused("already_exists", text, "use another id, or none; list proposals with team_proposal_status")
    if view.open_ballots(space) >= MOST_OPEN:
        text = f"too many open proposals in {place_of(space)}: the limit is {MOST_OPEN}"
        raise Refused("conflict", text, "vote on the open ones first, or cancel one")
    check_terms(opened, len(opened.electors or electors))
    row = OpenProposal(
        opened=opened,
        space=space,
        creator=fact.draft.sender,
        creator_key=fact.speaker,
        hops=fact.hops,
        electors=(*(name for _, name in electors), *((USER,) if USER in (opened.electors or ()) else ())),
    )
    others = (one for one in electors if one[0] != fact.speaker)
    return (WriteRow(row), *assign_mentioned(fact, workspace, others))


def _call_creator(fact: Fact, creator: Wakes, view: RuleView) -> tuple[Effect, ...]:
    workspace = view.workspace(fact.draft.space)
    if workspace is None:
        return ()
    limit = limit_reached(fact, workspace, 1)
    if limit is not None and workspace.mode == "run":
        # A run (mode ``run``) cannot be continued, so the instruction would only be cancelled.
        return limited(fact.draft.space, workspace, limit)
    return assign_mentioned(fact, workspace, [(creator.agent, creator.name)])


PROPOSAL: Final = Rule(name="ballot", kinds=frozenset({"proposal", "resolved"}), decide=decide_proposal)


def decide_wakeup(fact: Fact, view: RuleView) -> tuple[Effect, ...]:
    """Wake an agent for its schedule (in the message's space or the scheduled workspace), a
    guard, or the opener of a closed subspace."""
    due = fact.draft.payload
    if isinstance(due, GuardAsked):
        return _wake(due.agent, name_of(due.agent), fact.hops, "immediate" if due.waited_for else "background")
    if isinstance(due, Wakes):
        workspace = view.workspace(fact.draft.space)
        return () if workspace is None else assign_mentioned(fact, workspace, ((due.agent, due.name),))
    if not isinstance(due, WakeupDue):
        return ()
    elsewhere = None if due.workspace is None else _running(due.agent, due.workspace, view)
    if elsewhere is not None and elsewhere != fact.draft.space:
        there = WakeupDue(agent=due.agent)
        return (
            Append(Draft(kind="due", space=elsewhere, sender=fact.draft.sender, text=fact.draft.text, payload=there)),
        )
    if is_personal(fact.draft.space):
        return _wake(due.agent, split_space(fact.draft.space)[1], fact.hops) if view.agent_exists(due.agent) else ()
    return _in_workspace(fact, due.agent, view)


def _running(agent: AgentKey, wanted: str, view: RuleView) -> str | None:
    """Return the running space of ``wanted`` (``review`` or ``review:tag``) of which ``agent``
    is a member, or None. Without a tag, ``main`` has precedence."""
    workflow, _, tag = wanted.partition(":")
    spaces = [seat.space for seat in view.seats(agent, workflow)]
    return next((space for space in spaces if not tag or place_of(space) == workflow_space(workflow, tag)), None)


def _in_workspace(fact: Fact, agent: AgentKey, view: RuleView) -> tuple[Effect, ...]:
    workspace = view.workspace(fact.draft.space)
    if workspace is None or workspace.limited:
        return ()
    name = next((seat.name for seat in view.seats(agent, workspace.name) if seat.space == fact.draft.space), None)
    if name is None:
        return ()
    if workspace.assigned >= workspace.instructions_limit:
        target = f"@{workspace.name}:{workspace.tag}"
        text = (
            f"the limit of {workspace.instructions_limit} instructions is reached: schedules start no work until "
            f"you continue the workflow (awk continue {target})"
        )
        notice = Draft(kind="system", space=fact.draft.space, sender=SYSTEM, text=text)
        return (WriteRow(LimitRun(space=fact.draft.space, by="instructions")), Append(notice))
    return _wake(agent, name, fact.hops)


def _wake(agent: AgentKey, name: str, hops: int, lane: Lane = "background") -> tuple[Effect, ...]:
    return (Assign(agent, AgentName(name), lane, hops), InboxDelivery(agent, AgentName(name)))


WAKEUP: Final = Rule(name="wakeup", kinds=frozenset({"due"}), decide=decide_wakeup)


class _Limited(msgspec.Struct, frozen=True):
    limits: RunLimits = RunLimits()


_definition: Final = msgspec.json.Decoder(_Limited)


def decide_workflow(fact: Fact, view: RuleView) -> tuple[Effect, ...]:
    """Return the effects that start the workflow of the fact's space; none for other status
    messages. Raises Refused."""
    match fact.draft.payload:
        case RunSpec() as started:
            if view.workspace(fact.draft.space) is not None:
                hint = f"stop it first: awk stop @{started.name}:{started.tag}"
                raise Refused("already_running", f"workflow {place_of(fact.draft.space)} is already running", hint)
            limits = _definition.decode(started.definition).limits
            begin = StartRun(space=fact.draft.space, spec=started, limits=limits)
            kickoff: tuple[Effect, ...] = ()
            if started.kickoff:
                draft = Draft(
                    kind="kickoff",
                    space=fact.draft.space,
                    sender=started.kickoff_by,
                    text=started.kickoff,
                    to=started.kickoff_to,
                    mentions=started.kickoff_mentions,
                )
                kickoff = (Append(draft),)
            return (WriteRow(begin), WriteRow(SetMembers(space=fact.draft.space, members=started.members)), *kickoff)
        case _:
            return ()


WORKFLOW: Final = Rule(name="workflow", kinds=frozenset({"status"}), decide=decide_workflow)
