"""Tasks: planned, claimed, done, failed, split, cancelled; and what follows from that, in the same commit.

Without an author it is the user who acts, who may end any task. An agent's call is recorded: made again, it is answered
the same. What becomes ready and is for an agent is given to it as work, in the words and at the hops of who planned it:
a graph may be deeper than a chain of messages may be long.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from kernel.policy.tasks import claims_against, find_cycle, next_step, plan_fault, waits_for
from kernel.rule.assignment import no_channel, not_running
from kernel.rule.draft import Author, Draft, Fact
from kernel.store import idempotency, tasks
from kernel.store.attempts import Held, held
from kernel.store.quotas import use
from kernel.store.rule_view import TransactionView
from kernel.store.tasks import Change, NewTask, TaskRow, make_step, task_id
from kernel.store.transaction import Transaction
from kernel.store.transitions import apply_effects
from kernel.store.transitions.apply_effects import EffectWriter
from protocol.errors import Refused
from protocol.instruction import Status
from protocol.message import SYSTEM, USER
from protocol.names import InstructionId, instruction_id, is_personal, message_id, number_of, place_of, split_space
from protocol.tasks import MOST_OPEN, TaskInfo, TaskSpec


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of what was planned, by key and in its order; who was given work with it."""

    ids: dict[str, str]
    tasks: tuple[str, ...]
    message_id: str
    instruction_ids: tuple[InstructionId, ...] = ()


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """The task after a step, and the work that was given to others with it.

    ``withdrawn`` is the work that it had been given out as, which nobody needs any more.
    """

    task: TaskInfo
    message_id: str = ""
    instruction_ids: tuple[InstructionId, ...] = ()
    withdrawn: InstructionId | None = None


_encode: Final = msgspec.json.Encoder().encode
_Result = TypeVar("_Result", Planned, Changed)


class Actor(msgspec.Struct, frozen=True):
    """The one who acts: a member's attempt, the user, or the system for the workflow's file; its first message."""

    name: str
    held: Held | None = None
    author: Author | None = None

    @property
    def instruction(self) -> int | None:
        """The instruction that it acts in."""
        return None if self.held is None else self.held.number


FILE: Final = Actor(SYSTEM)
"""The workflow's file."""


def plan(
    tx: Transaction,
    space: str,
    specs: Sequence[TaskSpec],
    *,
    author: Author | None = None,
    call_key: str | None = None,
    confined: bool | None = None,
    by_file: bool = False,
) -> Planned:
    """Plan all of ``specs`` or none. Raises Refused: bad_request, not_found, conflict, workflow_not_running and others.

    ``confined`` is set where checks are an agent's own: whether it is confined. ``by_file``: they are the workflow's.
    """

    def act(actor: Actor) -> Planned:
        own = tasks.of_instruction(tx.conn, actor.instruction) if actor.instruction is not None else ()
        new = NewTask(
            creator=actor.name,
            hops=0 if actor.held is None else actor.held.hops + 1,
            found_in=own[0].n if len(own) == 1 else None,
            vouched=confined is None,
            confined=confined is True,
        )
        made = _insert(tx, space, specs, new)
        lines = [f"- {row.id} {one_line(row.title)}{_remarks(row)}" for row in made]
        text = "\n".join([f"[TASKS] planned, {len(made)}:", *lines])
        said = _say(tx, space, actor, text)
        given = _free_those(tx, made)
        _count(tx, actor, text, given)
        ids = {spec.key or row.id: row.id for spec, row in zip(specs, made, strict=True)}
        return Planned(
            ids=ids,
            tasks=tuple(row.id for row in made),
            message_id=message_id(said.first_seq),
            instruction_ids=tuple(given),
        )

    if by_file:
        return act(FILE)
    return _once(tx, space, author, call_key, ("task_plan", specs), Planned, act)


def claim(tx: Transaction, space: str, name: str, *, author: Author | None = None) -> Changed:
    """Claim a ready task, for this attempt or the user; again, it changes nothing.

    No ledger answers it: whether it is still held is what counts. Raises Refused: not_found, conflict, forbidden.
    """
    actor = _actor(tx, space, author)
    row = _find(tx, space, name)
    if is_holder(row, actor):
        return Changed(task=tasks.info(row))
    if row.for_name not in (None, actor.name) and actor.held is not None:
        raise Refused("forbidden", f"{row.id} is for {row.for_name}", "team_task_list shows what is ready for you")
    if row.state != "ready":
        raise Refused("conflict", _not_ready(row), "team_task_list with state ready shows what can be claimed")
    met = claims_against(tasks.claims(tx.conn, space), row.files, actor.name) if row.files else None
    if met is not None:
        text = f"{row.id} changes files that {met.holder} holds with {met.id}: {', '.join(met.files)}"
        raise Refused("conflict", text, f"wait until {met.id} is over, or claim another one")
    epoch = None if actor.author is None else actor.author.epoch
    change = Change(step="claim", by=actor.name, holder=actor.name, instruction=actor.instruction, epoch=epoch)
    return _step(tx, row, actor, change, f"claimed: {one_line(row.title)}")


def finish(
    tx: Transaction,
    space: str,
    name: str,
    result: str = "",
    *,
    author: Author | None = None,
    call_key: str | None = None,
) -> Changed:
    """Say that a task is done; its check was run by then. Raises Refused: not_found, conflict, forbidden."""

    def act(actor: Actor) -> Changed:
        row = _find(tx, space, name)
        check_holder(row, actor)
        words = f"done: {one_line(row.title)}" + (f"\n{result.strip()}" if result.strip() else "")
        return _step(tx, row, actor, Change(step="finish", by=actor.name, result=result), words)

    return _once(tx, space, author, call_key, ("task_done", name, result), Changed, act)


def fail(
    tx: Transaction,
    space: str,
    name: str,
    reason: str,
    *,
    author: Author | None = None,
    call_key: str | None = None,
) -> Changed:
    """Say that a task cannot be done. Raises Refused: not_found, conflict, forbidden."""

    def act(actor: Actor) -> Changed:
        row = _find(tx, space, name)
        check_holder(row, actor)
        words = f"failed: {one_line(row.title)}" + (f"\n{reason.strip()}" if reason.strip() else "")
        return _step(tx, row, actor, Change(step="fail", by=actor.name, reason=reason), words)

    return _once(tx, space, author, call_key, ("task_fail", name, reason), Changed, act)


def cancel_task(tx: Transaction, space: str, name: str, reason: str = "") -> Changed:
    """Cancel a task that is not over, as the user. Raises Refused: not_found, conflict."""
    row = _find(tx, space, name)
    words = f"cancelled: {one_line(row.title)}" + (f" ({one_line(reason)})" if reason.strip() else "")
    return _step(tx, row, Actor(USER), Change(step="cancel", by=USER, reason=reason), words)


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

    def act(actor: Actor) -> Planned:
        row = _find(tx, space, name)
        if actor.held is not None and row.state != "claimed" and actor.name not in (row.for_name, row.creator):
            raise Refused("forbidden", f"{row.id} is not yours to split", "claim it first, with team_task_claim")
        if row.state == "claimed":
            check_holder(row, actor)
        new = NewTask(
            creator=actor.name,
            hops=row.hops if actor.held is None else actor.held.hops + 1,
            found_in=row.n,
            vouched=confined is None,
            confined=confined is True,
        )
        if not make_step(tx, row, Change(step="split", by=actor.name)):
            raise Refused("conflict", f"{row.id} is {row.state}", "what is over cannot be split")
        inside = [spec if spec.parent is not None else msgspec.structs.replace(spec, parent=row.id) for spec in specs]
        still = waits_for(row.on_failure, row.needs)
        made = _insert(tx, space, inside, new, before=still, after=row)
        lines = [f"- {part.id} {one_line(part.title)}{_remarks(part)}" for part in made]
        text = "\n".join([f"[TASK:{row.id}] split into {len(made)}, and ready again after them:", *lines])
        said = _say(tx, space, actor, text)
        given = [*_free_those(tx, made), *give_out(tx, space)]  # its files are free
        _count(tx, actor, text, given)
        ids = {spec.key or part.id: part.id for spec, part in zip(specs, made, strict=True)}
        return Planned(
            ids=ids,
            tasks=tuple(part.id for part in made),
            message_id=message_id(said.first_seq),
            instruction_ids=tuple(given),
        )

    return _once(tx, space, author, call_key, ("task_split", name, specs), Planned, act)


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
        _say(tx, space, FILE, f"[TASKS] given by the vote {vote}: {', '.join(given)}")
        give_out(tx, space)


def attempt_over(tx: Transaction, instruction: int) -> None:
    """Let go of what an attempt held that broke off: its instruction takes it again, unless another is faster."""
    for row in tasks.of_instruction(tx.conn, instruction):
        if row.state != "claimed":
            continue
        make_step(tx, row, Change(step="release", by=SYSTEM))
        if row.for_name is None:
            _say(tx, row.space, FILE, f"[TASK:{row.id}] ready again: the attempt of {row.holder} at it has ended")


def instruction_over(tx: Transaction, instruction: int, status: Status) -> None:
    """Let go of what an instruction held that has ended; what is for its agent is given to it once more."""
    for row in tasks.of_instruction(tx.conn, instruction):
        why = f"{instruction_id(instruction)} ended ({status}), which said neither done nor fail"
        if row.state == "claimed":
            make_step(tx, row, Change(step="release", by=SYSTEM, reason=why))
            if TransactionView(tx.conn).workspace(row.space) is not None:
                _say(tx, row.space, FILE, f"[TASK:{row.id}] ready again: {why}")
        if status != "cancelled":
            give_out(tx, row.space)


def give_out(tx: Transaction, space: str) -> list[InstructionId]:
    """Make work of the ready tasks of ``space`` that are for somebody, and not on their way. Returns what was made."""
    view = TransactionView(tx.conn)
    given: list[InstructionId] = []
    if view.workspace(space) is None:
        return given
    for row in tasks.to_give(tx.conn, space):
        name = row.for_name or ""
        others = (*tasks.claims(tx.conn, space), *tasks.soon_claimed(tx.conn, space)) if row.files else ()
        if view.member(space, name) is None or claims_against(others, row.files, name) is not None:
            continue
        draft = Draft(
            kind="said",
            space=space,
            sender=row.creator,
            text=work_text(row),
            to=(name,),
            mentions=(),
        )
        made = apply_effects.apply_fact(tx, Fact(draft, hops=row.hops + 1)).instructions
        number = number_of(made[0], "i") if made else None
        if number is not None:
            tasks.give(tx, row, number)
            given += made
    return given


def give_out_again(tx: Transaction, space: str) -> None:
    """Have the tasks of ``space`` go on, in which another run begins: what an earlier one left is forgotten."""
    tasks.begin_again(tx, space)
    give_out(tx, space)


def work_text(row: TaskRow) -> str:
    """The words with which a task is given to the agent that it is for."""
    lines = [
        f"[TASK:{row.id}] {one_line(row.title)}",
        *([row.text.strip()] if row.text.strip() else []),
        *([f"You alone change these files meanwhile: {', '.join(row.files)}"] if row.files else []),
        *([f"It counts as done once this ends with 0: {one_line(row.command)}"] if row.command else []),
        f'You hold this task. When it is done, call team_task_done with {{"task": "{row.id}", "result": "<what>"}};',
        "if it cannot be done, team_task_fail with a reason.",
        *([f"It is given to you again: {row.reason}."] if row.given_out and row.reason else []),
    ]
    return "\n".join(lines)


def one_line(text: str) -> str:
    """``text`` without line breaks, so that it cannot look like a message of its own."""
    return " ".join(text.split())


def check_holder(row: TaskRow, actor: Actor) -> None:
    """Raise Refused (conflict) where ``actor`` may not end ``row``: only its holder may, or a person."""
    if actor.held is None or is_holder(row, actor):
        return
    if row.state == "claimed":
        raise Refused("conflict", f"{row.id} is claimed by {row.holder}", "only its holder says done, fail or split")
    hint = "claim it first, with team_task_claim" if row.state == "ready" else None
    raise Refused("conflict", _not_ready(row) if row.state != "ready" else f"{row.id} is not claimed", hint)


def is_holder(row: TaskRow, actor: Actor) -> bool:
    """Return whether ``actor`` holds ``row``: by this very attempt, or as the user."""
    if row.state != "claimed" or row.holder != actor.name:
        return False
    if actor.author is None:
        return row.epoch is None
    return row.instruction == number_of(actor.author.instruction, "i") and row.epoch == actor.author.epoch


def _not_ready(row: TaskRow) -> str:
    match row.state:
        case "open":
            return f"{row.id} waits for {', '.join(waits_for(row.on_failure, row.needs))}"
        case "claimed":
            return f"{row.id} is claimed by {row.holder}"
        case _:
            return f"{row.id} is {row.state}"


def _once(
    tx: Transaction,
    space: str,
    author: Author | None,
    call_key: str | None,
    words: tuple[object, ...],
    result: type[_Result],
    act: Callable[[Actor], _Result],
) -> _Result:
    """``act`` as ``author``, or as the user; an agent's call that was made before is answered as it was then."""
    actor = _actor(tx, space, author)
    if actor.held is None or author is None:
        return act(actor)
    call = idempotency.find(tx, author, actor.held, words, call_key)
    if call.result is not None:
        return msgspec.json.decode(call.result, type=result)
    answer = act(actor)
    idempotency.record(tx, actor.held, call, _encode(answer))
    return answer


def _actor(tx: Transaction, space: str, author: Author | None) -> Actor:
    """The one who acts in ``space``. Raises Refused where there can be no tasks, and stale_attempt."""
    if is_personal(space):
        text = f"there are no tasks in {space}: it is between {split_space(space)[1]} and the user"
        raise Refused("not_a_participant", text, "members of a workspace plan for each other")
    workspace = TransactionView(tx.conn).workspace(space)
    refuse = not_running(space) if workspace is None else None if workspace.has_channel else no_channel(space)
    if refuse is not None:
        raise Refused(refuse.code, refuse.text, refuse.hint)
    if author is None:
        return Actor(USER)
    holder = held(tx.conn, author.instruction, author.epoch)
    if holder.space != space:
        raise Refused("forbidden", f"{holder.name} is not at work in {place_of(space)}")
    return Actor(holder.name, holder, author)


def _find(tx: Transaction, space: str, name: str) -> TaskRow:
    found = tasks.find(tx.conn, space, name)
    if found is None:
        raise Refused(
            "not_found",
            f"there is no task {name[:64]!r} in {place_of(space)}",
            "team_task_list, or awk task list, shows them",
        )
    return found


def _insert(
    tx: Transaction,
    space: str,
    specs: Sequence[TaskSpec],
    new: NewTask,
    before: Sequence[str] = (),
    after: TaskRow | None = None,
) -> list[TaskRow]:
    """Write ``specs``: all of them wait for ``before`` too, and ``after`` for all of them. Raises Refused."""
    members = [name for _, name in TransactionView(tx.conn).roster(space)]
    fault = plan_fault(specs, members)
    if fault is not None:
        raise Refused("bad_request", *fault)
    if tasks.unfinished(tx.conn, space) + len(specs) > MOST_OPEN:
        raise Refused("conflict", f"{place_of(space)} has {MOST_OPEN:,} tasks that are not over", "end some first")
    rows: list[tuple[int, int]] = []
    for spec in specs:
        own = {one.key: rows[place][1] for place, one in enumerate(specs[: len(rows)])}
        parent = None
        if spec.parent is not None:
            parent = own[spec.parent] if spec.parent in own else _needed(tx, space, spec, spec.parent, specs).n
        rows.append(tasks.insert(tx, space, spec, new, parent))
    by_key = {spec.key: numbers for spec, numbers in zip(specs, rows, strict=True) if spec.key is not None}
    edges: dict[str, list[str]] = tasks.edges(tx.conn, space) if after is not None else {}
    pairs: list[tuple[int, int]] = []
    for spec, (number, n) in zip(specs, rows, strict=True):
        for name in (*spec.needs, *before):
            other, other_n = by_key[name] if name in by_key else _number(_needed(tx, space, spec, name, specs))
            pairs.append((number, other))
            edges.setdefault(task_id(n), []).append(task_id(other_n))
    if after is not None:
        pairs += [(after.number, number) for number, _ in rows]
        edges.setdefault(after.id, []).extend(task_id(n) for _, n in rows)
    _refuse_cycle(find_cycle(edges), {task_id(n): key for key, (_, n) in by_key.items()})
    tasks.add_needs(tx, pairs)
    return [tasks.by_number(tx.conn, number) for number, _ in rows]


def _number(row: TaskRow) -> tuple[int, int]:
    return row.number, row.n


def _needed(tx: Transaction, space: str, spec: TaskSpec, name: str, specs: Sequence[TaskSpec]) -> TaskRow:
    found = tasks.find(tx.conn, space, name)
    if found is None:
        keys = ", ".join(one.key for one in specs if one.key is not None)[:200]
        text = f"{(spec.key or spec.title)[:64]!r} names {name[:64]!r}, which is no key of this plan and no task here"
        raise Refused("not_found", text, f"its keys are {keys}" if keys else "give the tasks keys")
    return found


def _refuse_cycle(cycle: Sequence[str], keys: Mapping[str, str]) -> None:
    if cycle:
        shown = " -> ".join(keys.get(one, one) for one in cycle)
        raise Refused("conflict", f"these tasks would wait for each other: {shown}", "take one of the needs out")


def _free_those(tx: Transaction, made: Sequence[TaskRow]) -> list[InstructionId]:
    """Let those begin that wait for nothing, and give out what is for somebody. Returns the instructions."""
    ready = False
    for row in made:
        step = next_step(row.on_failure, row.needs)
        if step == "free":
            ready = make_step(tx, row, Change(step="free", by=SYSTEM)) or ready
        elif step == "cancel":
            make_step(tx, row, Change(step="cancel", by=SYSTEM, reason=_lost(row)))
            _follow(tx, row)
    return give_out(tx, made[0].space) if ready else []


def _lost(row: TaskRow) -> str:
    lost = ", ".join(one.id for one in row.needs if one.state in ("failed", "cancelled"))
    return f"{lost}, which it needs, is lost"


def _step(tx: Transaction, row: TaskRow, actor: Actor, change: Change, words: str) -> Changed:
    """Make a step of ``row``, say so, and do what follows. Raises Refused (conflict) where there is no such step."""
    if not make_step(tx, row, change):
        raise Refused("conflict", f"{row.id} is {row.state}" + (f" by {row.ended_by}" if row.ended_by else ""))
    freed, cancelled = ([], []) if change.step == "claim" else _follow(tx, row)
    lines = [f"[TASK:{row.id}] {words}"]
    lines += [f"Ready now: {', '.join(freed)}"] if freed else []
    lines += [f"Cancelled with it: {', '.join(cancelled)}"] if cancelled else []
    text = "\n".join(lines)
    said = _say(tx, row.space, actor, text)
    given = [] if change.step == "claim" else give_out(tx, row.space)
    if actor.held is not None:
        use(tx, actor.held, messages=1, text=text)
    own = change.instruction or actor.instruction
    withdrawn = change.step != "claim" and row.instruction not in (None, own) and row.state == "ready"
    return Changed(
        task=tasks.info(tasks.by_number(tx.conn, row.number)),
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
                    make_step(tx, follower, Change(step="free", by=SYSTEM))
                    freed.append(follower.id)
                case "cancel":
                    make_step(tx, follower, Change(step="cancel", by=SYSTEM, reason=_lost(follower)))
                    cancelled.append(follower.id)
                    changed.append(follower.number)
                case None:
                    pass
    return freed, cancelled


def _say(tx: Transaction, space: str, actor: Actor, text: str) -> EffectWriter:
    fact = Fact(
        Draft(kind="status", space=space, sender=actor.name, text=text, mentions=()),
        hops=0 if actor.held is None else actor.held.hops + 1,
        cause=actor.instruction,
        speaker=None if actor.held is None else actor.held.agent,
    )
    return apply_effects.apply_fact(tx, fact)


def _count(tx: Transaction, actor: Actor, text: str, given: Sequence[InstructionId]) -> None:
    if actor.held is not None:
        use(tx, actor.held, messages=1, text=text)
        if given:
            use(tx, actor.held, instructions=len(given))


def _remarks(row: TaskRow) -> str:
    """The rest that one wants to know of a task, behind its title."""
    parts = [
        *([f"for {row.for_name}"] if row.for_name else []),
        *([f"after {', '.join(one.id for one in row.needs)}"] if row.needs else []),
        *([f"part of {task_id(row.parent)}"] if row.parent is not None else []),
    ]
    return f" ({'; '.join(parts)})" if parts else ""
