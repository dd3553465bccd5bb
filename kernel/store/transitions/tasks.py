"""Tasks: planned, claimed, done, failed, cancelled and assigned, with all consequences in one commit.

Without an author, the user acts, who may end any task. An agent's call is recorded, so that a
repeated call returns the same answer. A ready task becomes an instruction for its assignee, with
its planner's hops: a graph of tasks may be deeper than a chain of messages. A plan is several
tasks, or the parts of a task, that are stored together or not at all.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kernel.policy.tasks import GIVEN_OUT, claims_against, next_step, waits_for
from kernel.rule.assignment import channel_of
from kernel.rule.draft import Author, Fact
from kernel.store import task_views, tasks
from kernel.store.attempts import use
from kernel.store.idempotency import Words
from kernel.store.rules import TransactionView
from kernel.store.tasks import NewTask, TaskChange, TaskRow, make_step
from kernel.store.transaction import Transaction
from kernel.store.transitions import apply_effects
from kernel.store.transitions.append import Speaker, speaker
from kernel.store.transitions.task_work import insert_plan, lost_why, may_be_given, plan_line, task_status, work_draft
from protocol.errors import Refused
from protocol.instruction import Status
from protocol.message import SYSTEM, USER
from protocol.names import InstructionId, instruction_id, is_personal, message_id, number_of, place_of, split_space
from protocol.tasks import TaskInfo, TaskSpec
from protocol.text import one_line


class TaskChanged(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a step: the task, and the instructions that other agents got.

    ``withdrawn``: unfinished instruction of the task that this step made unnecessary.
    """

    task: TaskInfo
    message_id: str = ""
    instruction_ids: tuple[InstructionId, ...] = ()
    withdrawn: InstructionId | None = None


def claim(tx: Transaction, space: str, name: str, *, author: Author | None = None) -> TaskChanged:
    """Claim a ready task for the author's attempt, or the user. Claiming it again changes nothing.

    The call is not recorded, because the claim is. Raises Refused: not_found, conflict, forbidden.
    """
    who = task_speaker(tx, space, author)
    row = find_task(tx, space, name)
    if is_holder(row, who.name, author):
        return TaskChanged(task=task_views.info(row))
    if row.for_name not in (None, who.name) and who.held is not None:
        raise Refused("forbidden", f"{row.id} is for {row.for_name}", "team_task_list shows what is ready for you")
    if row.state != "ready":
        raise Refused("conflict", _not_ready(row), "team_task_list with state ready shows what can be claimed")
    met = claims_against(tasks.claims(tx.conn, space), row.files, who.name) if row.files else None
    if met is not None:
        text = f"{row.id} changes files that {met.holder} holds with {met.id}: {', '.join(met.files)}"
        raise Refused("conflict", text, f"wait until {met.id} has ended, or claim another task")
    epoch = None if author is None else author.epoch
    change = TaskChange(step="claim", by=who.name, holder=who.name, instruction=who.number, epoch=epoch)
    return _step(tx, row, who, change, f"claimed: {one_line(row.title)}")


def finish(tx: Transaction, space: str, name: str, result: str = "", *, author: Author | None = None) -> TaskChanged:
    """Mark a task as done after its check. Raises Refused: not_found, conflict, forbidden."""
    who = task_speaker(tx, space, author, ("task_done", name, result))
    if (before := who.known(TaskChanged)) is not None:
        return before
    row = find_task(tx, space, name)
    check_holder(row, who)
    words = f"done: {one_line(row.title)}" + (f"\n{result.strip()}" if result.strip() else "")
    return who.keep(tx, _step(tx, row, who, TaskChange(step="finish", by=who.name, result=result), words))


def fail(tx: Transaction, space: str, name: str, reason: str, *, author: Author | None = None) -> TaskChanged:
    """Mark a task as failed. Raises Refused: not_found, conflict, forbidden."""
    who = task_speaker(tx, space, author, ("task_fail", name, reason))
    if (before := who.known(TaskChanged)) is not None:
        return before
    row = find_task(tx, space, name)
    check_holder(row, who)
    words = f"failed: {one_line(row.title)}" + (f"\n{reason.strip()}" if reason.strip() else "")
    return who.keep(tx, _step(tx, row, who, TaskChange(step="fail", by=who.name, reason=reason), words))


def cancel_task(tx: Transaction, space: str, name: str, reason: str = "") -> TaskChanged:
    """Cancel a task that has not ended, as the user. Raises Refused: not_found, conflict."""
    row = find_task(tx, space, name)
    words = f"cancelled: {one_line(row.title)}" + (f" ({one_line(reason)})" if reason.strip() else "")
    return _step(tx, row, Speaker(USER), TaskChange(step="cancel", by=USER, reason=reason), words)


def assignable(tx: Transaction, space: str, names: Iterable[str]) -> frozenset[str]:
    """Return the ``names`` whose tasks can be assigned: tasks that are open or ready."""
    found = {name: tasks.find(tx.conn, space, name) for name in names}
    return frozenset(name for name, row in found.items() if row is not None and row.state in ("open", "ready"))


def assign_tasks(tx: Transaction, space: str, takers: Mapping[str, str], vote: str) -> None:
    """Assign tasks (by name) to the ``takers`` that a ``vote`` chose, unless claimed or ended."""
    view = TransactionView(tx.conn)
    given: list[str] = []
    for name, taker in takers.items():
        row = tasks.find(tx.conn, space, name)
        if row is not None and row.state in ("open", "ready") and view.member(space, taker) is not None:
            tasks.set_for(tx, row, taker)
            given.append(f"{row.id} to {taker}")
    if given:
        _tell(tx, space, f"[TASKS] given by the vote {vote}: {', '.join(given)}")
        give_out(tx, space)


def attempt_over(tx: Transaction, instruction: int) -> None:
    """Release the tasks of an attempt that ended without a reply. The next attempt may claim them again."""
    for row in tasks.of_instruction(tx.conn, instruction):
        if row.state != "claimed":
            continue
        make_step(tx, row, TaskChange(step="release", by=SYSTEM))
        if row.for_name is None:
            text = f"[TASK:{row.id}] ready again: the attempt of {row.holder} at it has ended"
            _tell(tx, row.space, text, row.hops + 1)


def instruction_over(tx: Transaction, instruction: int, status: Status) -> None:
    """Release the tasks of an ended instruction; then give ready tasks to their assignees again."""
    for row in tasks.of_instruction(tx.conn, instruction):
        why = f"{instruction_id(instruction)} ended ({status}), without a report of done or fail"
        if row.state == "claimed":
            make_step(tx, row, TaskChange(step="release", by=SYSTEM, reason=why))
            if TransactionView(tx.conn).workspace(row.space) is not None:
                _tell(tx, row.space, f"[TASK:{row.id}] ready again: {why}", row.hops + 1)
        if status != "cancelled":
            give_out(tx, row.space)


def give_out(tx: Transaction, space: str) -> list[InstructionId]:
    """Create instructions for ready, assigned tasks without one. Return the new instructions."""
    given: list[InstructionId] = []
    if TransactionView(tx.conn).workspace(space) is None:
        return given
    for row in tasks.to_give(tx.conn, space, GIVEN_OUT):
        if not may_be_given(tx, row):
            continue
        made = apply_effects.apply_fact(tx, Fact(work_draft(row), hops=row.hops + 1)).instructions
        number = number_of(made[0], "i") if made else None
        if number is not None:
            tasks.give(tx, number, row.number)
            given += made
    return given


def give_out_again(tx: Transaction, space: str) -> None:
    """Give the ready tasks of ``space`` to their assignees in a new run."""
    tasks.begin_again(tx, space)
    give_out(tx, space)


def check_holder(row: TaskRow, who: Speaker) -> None:
    """Raise Refused (conflict) unless ``who`` may end the task: its holder and persons may."""
    if who.held is None or is_holder(row, who.name, who.author):
        return
    if row.state == "claimed":
        raise Refused(
            "conflict", f"{row.id} is claimed by {row.holder}", "only its holder may call done, fail or split"
        )
    hint = "claim it first, with team_task_claim" if row.state == "ready" else None
    raise Refused("conflict", _not_ready(row) if row.state != "ready" else f"{row.id} is not claimed", hint)


def is_holder(row: TaskRow, name: str, author: Author | None) -> bool:
    """Return whether this attempt (``author``), or the user (None), holds the task."""
    if row.state != "claimed" or row.holder != name:
        return False
    if author is None:
        return row.epoch is None
    return row.instruction == number_of(author.instruction, "i") and row.epoch == author.epoch


def _not_ready(row: TaskRow) -> str:
    match row.state:
        case "open":
            return f"{row.id} waits for {', '.join(waits_for(row.on_failure, row.needs))}"
        case "claimed":
            return f"{row.id} is claimed by {row.holder}"
        case _:
            return f"{row.id} is {row.state}"


def task_speaker(tx: Transaction, space: str, author: Author | None, words: Words | None = None) -> Speaker:
    """Return the caller in ``space`` (see speaker). Raises Refused: not_a_participant, etc."""
    if is_personal(space):
        text = f"space {space} has no tasks: it belongs to {split_space(space)[1]} and the user"
        raise Refused("not_a_participant", text, "plan tasks in a workspace")
    channel_of(TransactionView(tx.conn), space)
    return speaker(tx, space, author, words)


def find_task(tx: Transaction, space: str, name: str) -> TaskRow:
    """Return the task with the id or key ``name`` in ``space``. Raises Refused (not_found)."""
    found = tasks.find(tx.conn, space, name)
    if found is None:
        raise Refused(
            "not_found",
            f"task {name[:64]!r} not found in {place_of(space)}",
            "list the tasks: team_task_list or awk task list",
        )
    return found


def free(tx: Transaction, made: Sequence[TaskRow]) -> list[InstructionId]:
    """Make tasks without open dependencies ready. Return instructions for their assignees."""
    ready = False
    for row in made:
        step = next_step(row.on_failure, row.needs)
        if step == "free":
            ready = make_step(tx, row, TaskChange(step="free", by=SYSTEM)) or ready
        elif step == "cancel":
            make_step(tx, row, TaskChange(step="cancel", by=SYSTEM, reason=lost_why(row)))
            _follow(tx, row)
    return give_out(tx, made[0].space) if ready else []


def _step(tx: Transaction, row: TaskRow, who: Speaker, change: TaskChange, words: str) -> TaskChanged:
    if not make_step(tx, row, change):
        raise Refused("conflict", f"{row.id} is {row.state}" + (f" by {row.ended_by}" if row.ended_by else ""))
    freed, cancelled = ([], []) if change.step == "claim" else _follow(tx, row)
    lines = [f"[TASK:{row.id}] {words}"]
    lines += [f"Ready now: {', '.join(freed)}"] if freed else []
    lines += [f"Cancelled with it: {', '.join(cancelled)}"] if cancelled else []
    text = "\n".join(lines)
    said = who.say(tx, task_status(row.space, who.name, text))
    given = [] if change.step == "claim" else give_out(tx, row.space)
    own = change.instruction or who.number
    withdrawn = change.step != "claim" and row.instruction not in (None, own) and row.state == "ready"
    return TaskChanged(
        task=task_views.info(tasks.by_number(tx.conn, row.number)),
        message_id=message_id(said.first_seq),
        instruction_ids=tuple(given),
        withdrawn=instruction_id(row.instruction) if withdrawn and row.instruction is not None else None,
    )


def _follow(tx: Transaction, row: TaskRow) -> tuple[list[str], list[str]]:
    """Update dependents of ``row``. Return the ids of ready tasks, and of cancelled tasks."""
    freed: list[str] = []
    cancelled: list[str] = []
    changed = [row.number]
    for number in changed:  # the list grows in the loop
        for follower in tasks.followers(tx.conn, number):
            match next_step(follower.on_failure, follower.needs):
                case "free":
                    make_step(tx, follower, TaskChange(step="free", by=SYSTEM))
                    freed.append(follower.id)
                case "cancel":
                    make_step(tx, follower, TaskChange(step="cancel", by=SYSTEM, reason=lost_why(follower)))
                    cancelled.append(follower.id)
                    changed.append(follower.number)
                case None:
                    pass
    return freed, cancelled


def _tell(tx: Transaction, space: str, text: str, hops: int = 0) -> None:
    Speaker(SYSTEM).say(tx, task_status(space, SYSTEM, text, hops))


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a plan. ``ids``: task ids by key (or by id); ``tasks``: the ids in order."""

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
    confined: bool | None = None,
) -> Planned:
    """Plan all of ``specs`` or none. Raises Refused: bad_request, not_found, conflict, workflow_not_running and others.

    ``confined`` tells whether the agent that wrote the checks is confined; None if a person vouches for them.
    """
    who = task_speaker(tx, space, author, ("task_plan", specs))
    if (before := who.known(Planned)) is not None:
        return before
    own = () if who.number is None else tasks.of_instruction(tx.conn, who.number)
    found_in = own[0].n if len(own) == 1 else None
    return who.keep(tx, _plan(tx, space, specs, who, _new(who, who.hops, found_in, confined)))


def plan_of_file(tx: Transaction, space: str, specs: Sequence[TaskSpec]) -> Planned:
    """Plan the tasks of the workflow's file, as ``plan`` does, before any agent works in ``space``."""
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
    confined: bool | None = None,
) -> Planned:
    """Split a task into parts. The task depends on its parts and becomes ready again after them.

    The parts inherit the dependencies of the task. Raises Refused: as ``plan`` does, or forbidden for another's task.
    """
    who = task_speaker(tx, space, author, ("task_split", name, specs))
    if (before := who.known(Planned)) is not None:
        return before
    row = find_task(tx, space, name)
    if who.held is not None and row.state != "claimed" and who.name not in (row.for_name, row.creator):
        raise Refused("forbidden", f"{row.id} is not yours to split", "claim it first, with team_task_claim")
    if row.state == "claimed":
        check_holder(row, who)
    if not make_step(tx, row, TaskChange(step="split", by=who.name)):
        raise Refused("conflict", f"{row.id} is {row.state}", "only a task that has not ended can be split")
    inside = [spec if spec.parent is not None else msgspec.structs.replace(spec, parent=row.id) for spec in specs]
    still = waits_for(row.on_failure, row.needs)
    new = _new(who, row.hops if who.held is None else who.hops, row.n, confined)
    made = insert_plan(tx, space, inside, new, before=still, after=row)
    text = "\n".join([f"[TASK:{row.id}] split into {len(made)}, and ready again after them:", *map(plan_line, made)])
    message = who.say(tx, task_status(space, who.name, text)).first_seq
    given = [*free(tx, made), *give_out(tx, space)]  # others may need files that the split released
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
