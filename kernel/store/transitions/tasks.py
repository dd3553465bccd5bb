"""Tasks: planned, claimed, done, failed, cancelled, given out; and what follows from that, in the same commit.

Without an author it is the user who acts, who may end any task. An agent's call is recorded: made again, it is answered
the same. What becomes ready and is for an agent is given to it as work, in the words and at the hops of who planned it:
a graph may be deeper than a chain of messages may be long.

A plan is several tasks written at once, or the parts of one: all of it is written or none.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kernel.policy.tasks import claims_against, next_step, waits_for
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
    """The task after a step, and the work that was given to others with it.

    ``withdrawn`` is the work that it had been given out as, which nobody needs any more.
    """

    task: TaskInfo
    message_id: str = ""
    instruction_ids: tuple[InstructionId, ...] = ()
    withdrawn: InstructionId | None = None


def claim(tx: Transaction, space: str, name: str, *, author: Author | None = None) -> TaskChanged:
    """Claim a ready task, for this attempt or the user; again, it changes nothing.

    No ledger answers it: whether it is still held is what counts. Raises Refused: not_found, conflict, forbidden.
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
        raise Refused("conflict", text, f"wait until {met.id} is over, or claim another one")
    epoch = None if author is None else author.epoch
    change = TaskChange(step="claim", by=who.name, holder=who.name, instruction=who.number, epoch=epoch)
    return _step(tx, row, who, change, f"claimed: {one_line(row.title)}")


def finish(
    tx: Transaction,
    space: str,
    name: str,
    result: str = "",
    *,
    author: Author | None = None,
    call_key: str | None = None,
) -> TaskChanged:
    """Say that a task is done; its check was run by then. Raises Refused: not_found, conflict, forbidden."""
    who = task_speaker(tx, space, author, ("task_done", name, result), call_key)
    if (before := who.known(TaskChanged)) is not None:
        return before
    row = find_task(tx, space, name)
    check_holder(row, who)
    words = f"done: {one_line(row.title)}" + (f"\n{result.strip()}" if result.strip() else "")
    return who.keep(tx, _step(tx, row, who, TaskChange(step="finish", by=who.name, result=result), words))


def fail(
    tx: Transaction,
    space: str,
    name: str,
    reason: str,
    *,
    author: Author | None = None,
    call_key: str | None = None,
) -> TaskChanged:
    """Say that a task cannot be done. Raises Refused: not_found, conflict, forbidden."""
    who = task_speaker(tx, space, author, ("task_fail", name, reason), call_key)
    if (before := who.known(TaskChanged)) is not None:
        return before
    row = find_task(tx, space, name)
    check_holder(row, who)
    words = f"failed: {one_line(row.title)}" + (f"\n{reason.strip()}" if reason.strip() else "")
    return who.keep(tx, _step(tx, row, who, TaskChange(step="fail", by=who.name, reason=reason), words))


def cancel_task(tx: Transaction, space: str, name: str, reason: str = "") -> TaskChanged:
    """Cancel a task that is not over, as the user. Raises Refused: not_found, conflict."""
    row = find_task(tx, space, name)
    words = f"cancelled: {one_line(row.title)}" + (f" ({one_line(reason)})" if reason.strip() else "")
    return _step(tx, row, Speaker(USER), TaskChange(step="cancel", by=USER, reason=reason), words)


def assignable(tx: Transaction, space: str, names: Iterable[str]) -> frozenset[str]:
    """Those of ``names`` that are tasks which can be given to a member: they are not over, and nobody is at them."""
    found = {name: tasks.find(tx.conn, space, name) for name in names}
    return frozenset(name for name, row in found.items() if row is not None and row.state in ("open", "ready"))


def assign_tasks(tx: Transaction, space: str, takers: Mapping[str, str], vote: str) -> None:
    """Give each task to the member who takes it, as ``vote`` decided; what is over or claimed by now stays as it is."""
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
    """Let go of what an attempt held that broke off: its instruction takes it again, unless another is faster."""
    for row in tasks.of_instruction(tx.conn, instruction):
        if row.state != "claimed":
            continue
        make_step(tx, row, TaskChange(step="release", by=SYSTEM))
        if row.for_name is None:
            text = f"[TASK:{row.id}] ready again: the attempt of {row.holder} at it has ended"
            _tell(tx, row.space, text, row.hops + 1)


def instruction_over(tx: Transaction, instruction: int, status: Status) -> None:
    """Let go of what an instruction held that has ended; what is for its agent is given to it once more."""
    for row in tasks.of_instruction(tx.conn, instruction):
        why = f"{instruction_id(instruction)} ended ({status}), which said neither done nor fail"
        if row.state == "claimed":
            make_step(tx, row, TaskChange(step="release", by=SYSTEM, reason=why))
            if TransactionView(tx.conn).workspace(row.space) is not None:
                _tell(tx, row.space, f"[TASK:{row.id}] ready again: {why}", row.hops + 1)
        if status != "cancelled":
            give_out(tx, row.space)


def give_out(tx: Transaction, space: str) -> list[InstructionId]:
    """Make work of the ready tasks of ``space`` that are for somebody, and not on their way. Returns what was made."""
    given: list[InstructionId] = []
    if TransactionView(tx.conn).workspace(space) is None:
        return given
    for row in tasks.to_give(tx.conn, space):
        if not may_be_given(tx, row):
            continue
        made = apply_effects.apply_fact(tx, Fact(work_draft(row), hops=row.hops + 1)).instructions
        number = number_of(made[0], "i") if made else None
        if number is not None:
            tasks.give(tx, row.number, number)
            given += made
    return given


def give_out_again(tx: Transaction, space: str) -> None:
    """Have the tasks of ``space`` go on, in which another run begins: what an earlier one left is forgotten."""
    tasks.begin_again(tx, space)
    give_out(tx, space)


def check_holder(row: TaskRow, who: Speaker) -> None:
    """Raise Refused (conflict) where ``who`` may not end ``row``: only its holder may, or a person."""
    if who.held is None or is_holder(row, who.name, who.author):
        return
    if row.state == "claimed":
        raise Refused("conflict", f"{row.id} is claimed by {row.holder}", "only its holder says done, fail or split")
    hint = "claim it first, with team_task_claim" if row.state == "ready" else None
    raise Refused("conflict", _not_ready(row) if row.state != "ready" else f"{row.id} is not claimed", hint)


def is_holder(row: TaskRow, name: str, author: Author | None) -> bool:
    """Return whether ``name`` holds ``row``: by this very attempt, or as the user."""
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


def task_speaker(
    tx: Transaction, space: str, author: Author | None, words: Words | None = None, call_key: str | None = None
) -> Speaker:
    """Return who acts in ``space`` (see speaker). Raises Refused where there can be no tasks, and stale_attempt."""
    if is_personal(space):
        text = f"there are no tasks in {space}: it is between {split_space(space)[1]} and the user"
        raise Refused("not_a_participant", text, "members of a workspace plan for each other")
    channel_of(TransactionView(tx.conn), space)
    return speaker(tx, space, author, words, call_key)


def find_task(tx: Transaction, space: str, name: str) -> TaskRow:
    """The task that is called ``name`` in ``space``. Raises Refused (not_found)."""
    found = tasks.find(tx.conn, space, name)
    if found is None:
        raise Refused(
            "not_found",
            f"there is no task {name[:64]!r} in {place_of(space)}",
            "team_task_list, or awk task list, shows them",
        )
    return found


def free(tx: Transaction, made: Sequence[TaskRow]) -> list[InstructionId]:
    """Let those begin that wait for nothing, and give out what is for somebody. Returns the instructions."""
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
    """Make a step of ``row``, say so, and do what follows. Raises Refused (conflict) where there is no such step."""
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
    """Let the open tasks that need ``row`` take their next step, and those that need them. Returns who is ready now,
    and who was cancelled."""
    freed: list[str] = []
    cancelled: list[str] = []
    changed = [row.number]
    for number in changed:  # it grows on the way
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
    """Say in ``space`` what the kernel did by itself: as far from the first cause as the task that it did it to."""
    Speaker(SYSTEM).say(tx, task_status(space, SYSTEM, text, hops))


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
    if not make_step(tx, row, TaskChange(step="split", by=who.name)):
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
