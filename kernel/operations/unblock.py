"""Unblock a target: one operation that resumes, continues, retries or resets what blocks its work."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Annotated, NamedTuple

import msgspec

from kernel.operations.context import ProjectFiles, StoreAccess, agent_key, check_known, known_space
from kernel.operations.operation import ToolFront, operation
from kernel.policy.unblock import PERSONS, choose, decision_for
from kernel.store import agents, instruction_views, instructions, workflows
from kernel.store.transaction import Transaction
from kernel.store.transitions import bulk, steering
from protocol.api.document import Ask
from protocol.api.instructions import BulkRetryRequest, UnblockAction, Unblocked
from protocol.errors import Refused
from protocol.instruction import ENDED
from protocol.names import AgentKey, SpaceId, base_space, number_of, place_of, split_space
from protocol.target import Target, TargetRejected, parse_target


class UnblockRequest(Ask, frozen=True, kw_only=True):
    """POST /unblock."""

    target: Annotated[
        str,
        msgspec.Meta(
            min_length=1, max_length=300, description="Agent (alice, alice@review), workflow (@review) or i7."
        ),
    ]


class Candidate(NamedTuple):
    """Agent, workflow or instruction that may block the work, with its states and the function of each action."""

    subject: str
    states: tuple[str, ...]
    actions: Mapping[UnblockAction, Callable[[], object]]


Candidates = Iterator[Candidate]


async def unblock(asked: UnblockRequest, store: StoreAccess, files: ProjectFiles) -> Unblocked:
    """Let blocked work continue: resume, continue, retry or reset, by the state of the target.

    Returns the action. Fails if the work is not blocked, or waits for a decision of the user.
    """
    candidates = _candidates(asked.target, store, files)

    def change(tx: Transaction) -> Unblocked:
        found = list(candidates(tx))
        for one in found:
            if (chosen := choose(one.states)) is not None and chosen[0] in one.actions:
                freed = one.actions[chosen[0]]()
                return Unblocked(
                    target=asked.target,
                    action=chosen[0],
                    subject=one.subject,
                    because=chosen[1],
                    instructions=freed if isinstance(freed, tuple) else (),
                )
        decision = decision_for(state for one in found for state in one.states)
        text = f"{asked.target} is not blocked" if decision is None else f"{asked.target} waits for your decision"
        raise Refused("conflict", text, decision or "see awk needs and awk ps")

    return await store.writer.commit(change)


def _candidates(text: str, store: StoreAccess, files: ProjectFiles) -> Callable[[Transaction], Candidates]:
    if number_of(text, "i") is not None:
        return partial(_of_instruction, name=text)
    try:
        target = parse_target(text)
    except TargetRejected as error:
        raise Refused("bad_request", str(error)) from error
    if target.workflow is None:
        check_known(store, files, text)
        return partial(_of_agent, key=agent_key(store, text), subject=text)
    space = known_space(store, files, str(target.space))
    if target.agent is None:
        return partial(_of_workflow, space=space)
    members = store.reader.now(agents.members, space)
    member = next((one for one in members if one.name == target.agent), None)
    if member is None:
        names = ", ".join(one.name for one in members)
        raise Refused("not_a_participant", f"{target.agent} is not a member of {text[:100]}", f"members: {names}")
    return partial(_of_agent, key=member.key, subject=text, space=space)


def _of_instruction(tx: Transaction, name: str) -> Candidates:
    found = instructions.find(tx.conn, name)
    yield Candidate(name, (found.state,), {"retry": partial(_retried, tx, name)})
    shown = instruction_views.info(tx.conn, name, tx.now_ms)
    if found.state in ENDED or shown is None or shown.standing == "runnable":
        return
    yield Candidate(name, (shown.waits_for or "",) if shown.waits_for in PERSONS else (), {})
    yield from _limits(tx, base_space(found.space))
    yield from _state(tx, found.agent, found.agent)


def _of_agent(tx: Transaction, key: AgentKey, subject: str, space: SpaceId | None = None) -> Candidates:
    for place in agents.workspaces(tx.conn, key) if space is None else (base_space(space),):
        yield from _limits(tx, place)
    yield from _state(tx, key, subject)
    yield _dead(tx, subject, key, None)


def _of_workflow(tx: Transaction, space: SpaceId) -> Candidates:
    yield from _limits(tx, space)
    for member in agents.members(tx.conn, space):
        yield from _state(tx, member.key, str(Target(member.name, *split_space(space))))
    yield _dead(tx, str(Target(None, *split_space(space))), None, space)


def _limits(tx: Transaction, space: str) -> Candidates:
    """Yield the running workflow in ``space``, which a pause or a limit may block."""
    record = workflows.running_at(tx.conn, place_of(space))
    if record is not None:
        states = ("paused" if workflows.paused(tx.conn, record.id) else "", record.limited_by or "")
        actions: dict[UnblockAction, Callable[[], object]] = {
            "resume": partial(steering.resume_workflow, tx, record.space),
            "continue": partial(steering.continue_workflow, tx, record.space),
        }
        yield Candidate(str(Target(None, record.name, record.tag)), states, actions)


def _state(tx: Transaction, key: AgentKey, subject: str) -> Candidates:
    record, process = agents.row(tx.conn, key), agents.process(tx.conn, key, tx.now_ms)
    if record is None or process is None or (record.state == "active" and process.shown.state in ("idle", "running")):
        return
    states = (record.state, process.shown.reason or "", process.shown.state)
    actions: dict[UnblockAction, Callable[[], object]] = {
        "resume": partial(steering.resume_agent, tx, key),
        "continue": partial(steering.continue_agent, tx, key),
        "reset": partial(steering.reset_agent, tx, key),
    }
    yield Candidate(subject, states, actions)


def _dead(tx: Transaction, subject: str, agent: AgentKey | None, space: SpaceId | None) -> Candidate:
    matched = bulk.retry_many(tx, BulkRetryRequest(dry_run=True), agent, space).matched
    return Candidate(subject, ("dead",) if matched else (), {"retry": partial(_retried_many, tx, agent, space)})


def _retried(tx: Transaction, name: str) -> tuple[str, ...]:
    steering.retry(tx, name)
    return (name,)


def _retried_many(tx: Transaction, agent: AgentKey | None, space: SpaceId | None) -> tuple[str, ...]:
    report = bulk.retry_many(tx, BulkRetryRequest(), agent, space)
    if not report.changed:
        raise Refused("conflict", report.kept[0].detail, "see awk dead")
    return tuple(one.id for one in report.instructions)


OPERATIONS = (operation(unblock, "POST /unblock", scope="approve", manage=ToolFront("unblock", idempotent=False)),)
