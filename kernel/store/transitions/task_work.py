"""Write, announce and assign tasks, and plan the tasks of a rule in the commit that triggers the rule."""

from collections.abc import Sequence

import msgspec

from kernel.policy.rules import planned
from kernel.policy.tasks import check_plan, claims_against, find_cycle, next_step
from kernel.rule.draft import Draft, TaskGiven
from kernel.rule.effects import Make
from kernel.store import tasks
from kernel.store.rules import TransactionView
from kernel.store.tasks import NewTask, TaskChange, TaskRow, make_step, task_id
from kernel.store.transaction import Transaction
from protocol.errors import Refused
from protocol.message import SYSTEM
from protocol.names import place_of
from protocol.rules import RuleTask
from protocol.tasks import MOST_OPEN, TaskSpec
from protocol.text import one_line


def plan_for_rule(tx: Transaction, asked: Make, task: RuleTask) -> list[Draft]:
    """Plan a rule's task. Return the messages that announce it and, if it is ready, assign it. Raises Refused."""
    link, new = asked.chain, NewTask(asked.creator, asked.hops, vouched=False)
    (row,) = insert_plan(tx, asked.space, (planned(task),), new)
    step = next_step(row.on_failure, row.needs)
    if step is not None:
        make_step(tx, row, TaskChange(step=step, by=SYSTEM, reason=lost_why(row) if step == "cancel" else ""))
    text = "\n".join([f"[TASKS] planned by the rule {link.rule}:", plan_line(row)])
    said = task_status(asked.space, asked.creator, text, asked.hops + 1)
    if step != "free" or not may_be_given(tx, row):
        return [msgspec.structs.replace(said, chain=link)]
    given = msgspec.structs.replace(work_draft(row), hops=row.hops + 1, chain=link, payload=TaskGiven(task=row.number))
    return [msgspec.structs.replace(said, chain=link), given]


def may_be_given(tx: Transaction, row: TaskRow) -> bool:
    """Return whether a ready task's assignee is a member and no other task reserves its files."""
    view, name = TransactionView(tx.conn), row.for_name
    others = (*tasks.claims(tx.conn, row.space), *tasks.soon_claimed(tx.conn, row.space)) if row.files else ()
    if name is None or view.member(row.space, name) is None:
        return False
    return claims_against(others, row.files, name) is None


def work_draft(row: TaskRow) -> Draft:
    """Return the message that assigns a task."""
    to = () if row.for_name is None else (row.for_name,)
    return Draft(kind="said", space=row.space, sender=row.creator, text=work_text(row), to=to, mentions=())


def work_text(row: TaskRow) -> str:
    """Return the text with which an agent receives a task."""
    lines = [
        f"[TASK:{row.id}] {one_line(row.title)}",
        *([row.text.strip()] if row.text.strip() else []),
        *([f"Only you may change these files meanwhile: {', '.join(row.files)}"] if row.files else []),
        *([f"The task is done when this command exits with 0: {one_line(row.command)}"] if row.command else []),
        f'You hold this task. When it is done, call team_task_done with {{"task": "{row.id}", "result": "<what>"}};',
        "if it cannot be done, team_task_fail with a reason.",
        *([f"The task is assigned to you again: {row.reason}."] if row.given_out and row.reason else []),
    ]
    return "\n".join(lines)


def insert_plan(
    tx: Transaction,
    space: str,
    specs: Sequence[TaskSpec],
    new: NewTask,
    before: Sequence[str] = (),
    after: TaskRow | None = None,
) -> list[TaskRow]:
    """Store and return the tasks ``specs``. Each depends on the tasks ``before``; the task
    ``after`` depends on each. Raises Refused.
    """
    view = TransactionView(tx.conn)
    members = (*(name for _, name in view.roster(space)), *view.member_names(space))  # with groups
    check_plan(specs, members)
    if tasks.unfinished(tx.conn, space) + len(specs) > MOST_OPEN:
        raise Refused(
            "conflict", f"{place_of(space)} has the maximum of {MOST_OPEN:,} open tasks", "finish or cancel some first"
        )
    rows: list[tuple[int, int]] = []
    for spec in specs:
        own = {one.key: rows[place][1] for place, one in enumerate(specs[: len(rows)])}
        parent = None
        if spec.parent is not None:
            parent = own[spec.parent] if spec.parent in own else _needed(tx, space, spec, spec.parent, specs).n
        rows.append(tasks.insert(tx, space, spec, new, parent))
    by_key = {spec.key: numbers for spec, numbers in zip(specs, rows, strict=True) if spec.key is not None}
    known = dict(by_key)
    edges: dict[str, list[str]] = tasks.edges(tx.conn, space) if after is not None else {}
    pairs: list[tuple[int, int]] = []
    for spec, (number, n) in zip(specs, rows, strict=True):
        for name in (*spec.needs, *before):
            if name not in known:
                found = _needed(tx, space, spec, name, specs)
                known[name] = found.number, found.n
            other, other_n = known[name]
            pairs.append((number, other))
            edges.setdefault(task_id(n), []).append(task_id(other_n))
    if after is not None:
        pairs += [(after.number, number) for number, _ in rows]
        edges.setdefault(after.id, []).extend(task_id(n) for _, n in rows)
    if cycle := find_cycle(edges):
        names = {task_id(n): key for key, (_, n) in by_key.items()}
        shown = " -> ".join(names.get(one, one) for one in cycle)
        raise Refused("conflict", f"tasks depend on each other: {shown}", "remove one of the needs")
    tasks.add_needs(tx, pairs)
    return [tasks.by_number(tx.conn, number) for number, _ in rows]


def _needed(tx: Transaction, space: str, spec: TaskSpec, name: str, specs: Sequence[TaskSpec]) -> TaskRow:
    found = tasks.find(tx.conn, space, name)
    if found is None:
        keys = ", ".join(one.key for one in specs if one.key is not None)[:200]
        text = f"task {(spec.key or spec.title)[:64]!r} needs {name[:64]!r}: neither a key of this plan nor a task"
        raise Refused("not_found", text, f"keys of this plan: {keys}" if keys else "give the tasks keys")
    return found


def lost_why(row: TaskRow) -> str:
    """Return the reason for cancelling a task: a dependency failed or was cancelled."""
    lost = ", ".join(one.id for one in row.needs if one.state in ("failed", "cancelled"))
    return f"it needs {lost}, which failed or was cancelled"


def plan_line(row: TaskRow) -> str:
    """Return the line about a planned task, for the message that announces the plan."""
    parts = [
        *([f"for {row.for_name}"] if row.for_name else []),
        *([f"after {', '.join(one.id for one in row.needs)}"] if row.needs else []),
        *([f"part of {task_id(row.parent)}"] if row.parent is not None else []),
    ]
    return f"- {row.id} {one_line(row.title)}" + (f" ({'; '.join(parts)})" if parts else "")


def task_status(space: str, sender: str, text: str, hops: int | None = None) -> Draft:
    """Return the message that announces a step of a task; it wakes no agent."""
    return Draft(kind="status", space=space, sender=sender, text=text, mentions=(), hops=hops)
