"""Plans of tasks: several tasks written at once, or the parts of one, and those given out that wait for nothing.

All of a plan is written or none. An agent's call is recorded: made again, it is answered the same.
"""

from collections.abc import Sequence

import msgspec

from kernel.policy.tasks import waits_for
from kernel.rule.draft import Author
from kernel.store import tasks
from kernel.store.quotas import use
from kernel.store.tasks import Change, NewTask, TaskRow, make_step
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import Speaker
from kernel.store.transitions.task_work import insert_plan, plan_line, task_status
from kernel.store.transitions.tasks import check_holder, find_task, free, give_out, task_speaker
from protocol.errors import Refused
from protocol.message import SYSTEM
from protocol.names import InstructionId, message_id
from protocol.tasks import TaskSpec


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of what was planned, by key and in its order; who was given work with it."""

    ids: dict[str, str]
    tasks: tuple[str, ...]
    message_id: str
    instruction_ids: tuple[InstructionId, ...] = ()


def plan(
    tx: Transaction,
    space: str,
    specs: Sequence[TaskSpec],
    *,
    author: Author | None = None,
    call_key: str | None = None,
    confined: bool | None = None,
) -> Planned:
    """Plan all of ``specs`` or none. Raises Refused: bad_request, not_found, conflict, workflow_not_running and others.

    ``confined`` is set where checks are an agent's own: whether it is confined.
    """
    who = task_speaker(tx, space, author, ("task_plan", specs), call_key)
    if (before := who.known(Planned)) is not None:
        return before
    own = () if who.number is None else tasks.of_instruction(tx.conn, who.number)
    found_in = own[0].n if len(own) == 1 else None
    return who.keep(tx, _plan(tx, space, specs, who, _new(who, who.hops, found_in, confined)))


def plan_of_file(tx: Transaction, space: str, specs: Sequence[TaskSpec]) -> Planned:
    """Plan the tasks of the workflow's file, as ``plan`` does, before anybody is at work in ``space``."""
    return _plan(tx, space, specs, Speaker(SYSTEM), NewTask(SYSTEM, hops=0))


def _plan(tx: Transaction, space: str, specs: Sequence[TaskSpec], who: Speaker, new: NewTask) -> Planned:
    made = insert_plan(tx, space, specs, new)
    said = "\n".join([f"[TASKS] planned, {len(made)}:", *map(plan_line, made)])
    message = who.say(tx, task_status(space, who.name, said)).first_seq
    return _planned(tx, who, specs, made, message, free(tx, made))


def split(
    tx: Transaction,
    space: str,
    name: str,
    specs: Sequence[TaskSpec],
    *,
    author: Author | None = None,
    call_key: str | None = None,
    confined: bool | None = None,
) -> Planned:
    """Make parts of a task, which waits for them from now on, and is ready again once they are done.

    What it waited for its parts wait for. Raises Refused, as ``plan`` does; forbidden where it is another's.
    """
    who = task_speaker(tx, space, author, ("task_split", name, specs), call_key)
    if (before := who.known(Planned)) is not None:
        return before
    row = find_task(tx, space, name)
    if who.held is not None and row.state != "claimed" and who.name not in (row.for_name, row.creator):
        raise Refused("forbidden", f"{row.id} is not yours to split", "claim it first, with team_task_claim")
    if row.state == "claimed":
        check_holder(row, who)
    if not make_step(tx, row, Change(step="split", by=who.name)):
        raise Refused("conflict", f"{row.id} is {row.state}", "what is over cannot be split")
    inside = [spec if spec.parent is not None else msgspec.structs.replace(spec, parent=row.id) for spec in specs]
    still = waits_for(row.on_failure, row.needs)
    new = _new(who, row.hops if who.held is None else who.hops, row.n, confined)
    made = insert_plan(tx, space, inside, new, before=still, after=row)
    text = "\n".join([f"[TASK:{row.id}] split into {len(made)}, and ready again after them:", *map(plan_line, made)])
    message = who.say(tx, task_status(space, who.name, text)).first_seq
    given = [*free(tx, made), *give_out(tx, space)]  # its files are free
    return who.keep(tx, _planned(tx, who, specs, made, message, given))


def _new(who: Speaker, hops: int, found_in: int | None, confined: bool | None) -> NewTask:
    return NewTask(who.name, hops, found_in, vouched=confined is None, confined=confined is True)


def _planned(
    tx: Transaction,
    who: Speaker,
    specs: Sequence[TaskSpec],
    made: Sequence[TaskRow],
    message: int,
    given: Sequence[InstructionId],
) -> Planned:
    if who.held is not None and given:
        use(tx, who.held, instructions=len(given))
    return Planned(
        ids={spec.key or row.id: row.id for spec, row in zip(specs, made, strict=True)},
        tasks=tuple(row.id for row in made),
        message_id=message_id(message),
        instruction_ids=tuple(given),
    )
