"""Unblock a target: one operation that resumes, continues, retries, resets or restarts what blocks its work."""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from kernel.operations.context import ProcessControl, ProjectFiles, StoreAccess, check_known, known_space
from kernel.operations.needs import silent_steps
from kernel.operations.operation import ToolFront, operation
from kernel.policy.unblock import ACTIONS, PERSONS, first_of
from kernel.store import agents, instruction_views, instructions, workflows
from kernel.store.transaction import Transaction
from kernel.store.transitions import bulk, steering
from protocol.api.document import Ask
from protocol.api.instructions import BulkRetryRequest, UnblockAction, Unblocked
from protocol.errors import Refused
from protocol.names import AgentKey, SpaceId, base_space, number_of, place_of
from protocol.target import Target, TargetRejected, parse_target

TEXT = "Agent (alice, alice@review), workflow (@review) or instruction (i7)."


class UnblockRequest(Ask, frozen=True, kw_only=True):
    """POST /unblock."""

    target: Annotated[str, msgspec.Meta(min_length=1, max_length=300, description=TEXT)]


Actions = Mapping[UnblockAction, Callable[[Transaction, Any], object]]
OF_WORKFLOW: Final[Actions] = {"resume": steering.resume_workflow, "continue": steering.continue_workflow}
OF_AGENT: Final[Actions] = {
    "resume": steering.resume_agent,
    "continue": steering.continue_agent,
    "reset": steering.reset_agent,
    "restart": steering.reset_agent,
}
"""The kernel interrupts the attempt of a restarted agent after the commit."""


class Candidate(NamedTuple):
    """Agent, workflow or instruction that may block the work: its states, its key, and the functions of actions."""

    subject: str
    states: tuple[str | None, ...]
    key: str = ""
    actions: Actions = {}


async def unblock(
    asked: UnblockRequest, store: StoreAccess, files: ProjectFiles, processes: ProcessControl
) -> Unblocked:
    """Let blocked work continue: resume, continue, retry, reset or restart, by the state of the target.

    Returns the action. Fails if the work is not blocked, or waits for a decision of the user.
    """
    try:
        target = None if number_of(asked.target, "i") is not None else parse_target(asked.target)
    except TargetRejected as error:
        raise Refused("bad_request", str(error)) from error
    space = None
    if target is not None and target.workflow is not None:
        space = known_space(store, files, str(target.space))
    elif target is not None:
        check_known(store, files, asked.target)

    silent = frozenset(step.id for step in silent_steps(processes, store.now_ms()))

    def change(tx: Transaction) -> tuple[Unblocked, str]:
        found = tuple(_candidates(tx, asked.target, target, space, silent))
        for subject, states, key, actions in found:
            action, because = first_of(states, ACTIONS) or (None, "")
            if action is None or action not in actions:
                continue
            freed = actions[action](tx, key)
            given = freed if isinstance(freed, tuple) else (subject,) * (action == "retry")
            if action == "retry" and not given:
                raise Refused("conflict", f"the dead work of {subject} cannot be retried", "see awk dead")
            done = Unblocked(target=asked.target, action=action, subject=subject, because=because, instructions=given)
            return done, key
        decision = first_of((state for one in found for state in one.states), PERSONS)
        if decision is not None:
            raise Refused("conflict", f"{asked.target} waits for your decision", decision[0])
        hint = "see awk needs and awk ps; if a step hangs: awk restart"
        raise Refused("conflict", f"{asked.target} is not blocked", hint)

    done, key = await store.writer.commit(change)
    if done.action == "restart":
        processes.attempts.interrupt(AgentKey(key))
    return done


def _candidates(
    tx: Transaction, text: str, target: Target | None, space: SpaceId | None, silent: frozenset[str]
) -> Iterator[Candidate]:
    """Yield what may block ``target``, or without a target the instruction ``text``, the workflow first."""
    if target is None:
        found, shown = instructions.find(tx.conn, text), instruction_views.info(tx.conn, text, tx.now_ms)
        yield Candidate(text, (found.state,), text, {"retry": steering.retry})
        if shown is not None and shown.standing in ("time", "person"):
            yield from _workflow(tx, base_space(found.space))
            yield from _agent(tx, found.agent, found.agent)
            yield Candidate(text, (shown.waits_for,))
        elif text in silent:
            yield from _agent(tx, found.agent, found.agent, silent)
        return
    members = {} if target.agent is None else {text: AgentKey(target.agent)}
    if space is not None:
        known = [one for one in agents.members(tx.conn, space) if target.agent in (None, one.name)]
        members = {str(Target(one.name, target.workflow, target.tag)): one.key for one in known}
    if target.agent is not None and not members:
        raise Refused("not_a_participant", f"{target.agent} is not a member of {target.space}")
    for place in (space,) if space is not None else agents.workspaces(tx.conn, AgentKey(text)):
        yield from _workflow(tx, base_space(place))
    for subject, member in members.items():
        yield from _agent(tx, member, subject, silent)
    chosen = (next(iter(members.values())), None) if target.agent is not None else (None, space)
    dead = bulk.retry_many(tx, BulkRetryRequest(dry_run=True), *chosen).matched

    def retry(tx: Transaction, _key: str) -> tuple[str, ...]:
        return tuple(one.id for one in bulk.retry_many(tx, BulkRetryRequest(), *chosen).instructions)

    yield Candidate(str(target), ("dead" if dead else None,), "", {"retry": retry})


def _workflow(tx: Transaction, space: str) -> Iterator[Candidate]:
    record = workflows.running_at(tx.conn, place_of(space))
    if record is not None:
        states = ("paused" if workflows.paused(tx.conn, record.id) else None, record.limited_by)
        yield Candidate(str(Target(None, record.name, record.tag)), states, record.space, OF_WORKFLOW)


def _agent(tx: Transaction, key: AgentKey, subject: str, silent: frozenset[str] = frozenset()) -> Iterator[Candidate]:
    record, process = agents.row(tx.conn, key), agents.process(tx.conn, key, tx.now_ms)
    if record is not None and process is not None:
        running = ("silent",) * (process.instruction in silent)
        shown = running if process.shown.state == "running" else (process.shown.reason, process.shown.state)
        yield Candidate(subject, (record.state, *shown), key, OF_AGENT)


OPERATIONS = (operation(unblock, "POST /unblock", scope="approve", manage=ToolFront("unblock", idempotent=False)),)
