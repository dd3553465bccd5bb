"""Random graphs of tasks with failures, splits and kills, held against a plain scheduler after each step (promise P39).

The plain one knows no claims: to it a task is free, waits, or is over. Who holds what is held against the attempts that
live. ``python -m tests.kernel.store.task_graphs COUNT [FIRST]`` tries many; a seed says all that happens.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, get_args

from kernel.policy.needs import needs as needs_of
from kernel.store import task_views
from kernel.store.needs import snapshot
from kernel.store.rows import RowPage
from kernel.store.transitions import tasks
from kernel.store.transitions.close import close
from kernel.store.transitions.requeue import Requeue
from protocol.errors import Refused
from protocol.message import USER
from protocol.tasks import OnFailure, TaskInfo, TaskSpec
from tests.kernel.store.busy_workspace import MEMBERS, SPACE, BusyWorkspace, DrawnHistory, busy_workspace
from tests.soak import run_seeds, say

STEPS: Final = 24
ENDS: Final = "SELECT text FROM messages WHERE space = ? AND kind = 'status' AND text LIKE '[TASK:%] done: %'"
HOLDERS: Final = """
SELECT count(*) FROM tasks AS t WHERE t.state = 'claimed' AND t.epoch IS NOT NULL AND NOT EXISTS (
  SELECT 1 FROM instructions AS i WHERE i.id = t.instruction AND i.epoch = t.epoch AND i.state IN ('leased', 'running'))
"""


@dataclass
class Plain:
    """One task, as it ought to be: ``waits``, ``free``, or over."""

    needs: set[str] = field(default_factory=set)
    own: OnFailure | None = None
    state: str = "waits"


class Trial(DrawnHistory):
    """One graph and what is done with it."""

    def __init__(self, workspace: BusyWorkspace, seed: int) -> None:
        super().__init__(workspace, seed)
        self.plain: dict[str, Plain] = {}

    # -- the plain scheduler -----------------------------------------------------------------------------

    def fate(self, task: Plain, lost: Plain) -> OnFailure:
        return task.own or lost.own or "hold"

    def settle(self) -> None:
        """Do whatever follows, until nothing does."""
        changed = True
        while changed:
            changed = False
            for task in self.plain.values():
                if task.state != "waits":
                    continue
                others = [self.plain[name] for name in task.needs]
                lost = [one for one in others if one.state in ("failed", "cancelled")]
                if any(self.fate(task, one) == "cancel" for one in lost):
                    task.state, changed = "cancelled", True
                elif all(one.state == "done" or (one in lost and self.fate(task, one) == "skip") for one in others):
                    task.state, changed = "free", True

    # -- steps -------------------------------------------------------------------------------------------

    def specs(self) -> list[TaskSpec]:
        """Up to five tasks that need each other, and some that are there."""
        known = list(self.plain)
        keys = [f"k{n}" for n in range(self.chance.randint(1, 5))]
        made: list[TaskSpec] = []
        for place, key in enumerate(keys):
            some = [*keys[:place], *self.chance.sample(known, min(2, len(known)))]
            needs = tuple(self.chance.sample(some, self.chance.randint(0, min(2, len(some)))))
            own = self.chance.choice((None, None, *get_args(OnFailure)))
            whom = self.chance.choice((None, None, *MEMBERS))
            made.append(TaskSpec(key=key, title=f"do {key}", needs=needs, on_failure=own, for_=whom))
        return made

    def note(self, specs: list[TaskSpec], ids: dict[str, str], before: tuple[str, ...] = ()) -> None:
        for spec in specs:
            needs = {ids.get(name, name) for name in (*spec.needs, *before)}
            self.plain[ids[spec.key or ""]] = Plain(needs, spec.on_failure)

    def plan(self) -> None:
        specs = self.specs()
        who = self.chance.choice((*MEMBERS, USER))
        planned = self.workspace.commit(tasks.plan, SPACE, specs, author=self.workspace.author(who, self.key()))
        self.note(specs, planned.ids)

    def plan_in_a_circle(self) -> None:
        specs = [TaskSpec(key="a", title="a", needs=("b",)), TaskSpec(key="b", title="b", needs=("a",))]
        self.refused(lambda: self.workspace.commit(tasks.plan, SPACE, specs), "conflict")

    def claim(self) -> None:
        """A member claims one: it gets it if it is ready, and for nobody else."""
        who, one = self.chance.choice(MEMBERS), self.pick()
        if one is None:
            return
        wanted = one.state == "ready" and one.for_ in (None, who)
        mine = one.state == "claimed" and one.holder == who

        def act() -> tasks.TaskChanged:
            return self.workspace.commit(tasks.claim, SPACE, one.id, author=self.workspace.author(who))

        if wanted or mine:
            assert act().task.holder == who
        else:
            self.refused(act, "conflict", "forbidden")

    def assign(self) -> None:
        """A vote gives tasks to members, or to one who is none: what was claimed or has ended meanwhile stays."""
        before = self.all()
        takers = {one.id: self.chance.choice((*MEMBERS, "dave")) for one in before if self.chance.random() < 0.4}
        self.workspace.commit(tasks.assign_tasks, SPACE, takers, "p1")
        for old, new in zip(before, self.all(), strict=True):
            given = takers.get(old.id) if old.state in ("open", "ready") else None
            assert new.for_ == (given if given in MEMBERS else old.for_)
            assert (new.state, new.holder) == (old.state, old.holder)

    def end(self) -> None:
        """Somebody says that one is done, or has failed: its holder may, and a person."""
        one, good = self.pick(), self.chance.random() < 0.7
        if one is None:
            return
        who = self.chance.choice((*MEMBERS, USER, one.holder or USER))
        transition: Callable[..., tasks.TaskChanged] = tasks.finish if good else tasks.fail

        def act() -> tasks.TaskChanged:
            return self.workspace.commit(transition, SPACE, one.id, "so", author=self.workspace.author(who, self.key()))

        if who == USER:
            may = one.state in ("open", "ready", "claimed") or (one.state == "failed" and good)
        else:
            may = one.state == "claimed" and one.holder == who
        if may:
            act()
            self.plain[one.id].state = "done" if good else "failed"
        else:
            self.refused(act, "conflict")

    def cancel(self) -> None:
        one = self.pick()
        if one is not None and one.state not in ("done", "cancelled"):
            self.workspace.commit(tasks.cancel_task, SPACE, one.id)
            self.plain[one.id].state = "cancelled"

    def split(self) -> None:
        """Its holder makes parts of one."""
        one = self.pick()
        if one is None or one.state != "claimed" or one.holder == USER:
            return
        specs = [
            TaskSpec(key=f"p{n}", title="a part", needs=(f"p{n - 1}",) if n and self.chance.random() < 0.5 else ())
            for n in range(self.chance.randint(1, 3))
        ]
        author = self.workspace.author(one.holder or "", self.key())
        made = self.workspace.commit(tasks.split, SPACE, one.id, specs, author=author)
        self.note(specs, made.ids)
        whole = self.plain[one.id]
        whole.state = "waits"
        whole.needs |= set(made.tasks)

    def crash(self) -> None:
        """An attempt breaks off, and its instruction is tried again."""
        who = self.chance.choice(MEMBERS)
        back = Requeue(status="queued", outcome="crash", cause="crash", charge="crash")
        self.workspace.requeue(who, back)
        self.check_holders()
        self.workspace.take_all()

    def finish_work(self) -> None:
        """An instruction ends, and its agent begins with the next."""
        who = self.chance.choice(MEMBERS)
        self.workspace.close(who, "I am done.")
        self.check_holders()
        self.workspace.take_all()

    def kill(self) -> None:
        self.workspace.restart()

    # -- what has to hold --------------------------------------------------------------------------------

    def all(self) -> list[TaskInfo]:
        return list(task_views.listed(self.conn, SPACE, RowPage()).tasks)

    def pick(self) -> TaskInfo | None:
        found = self.all()
        return self.chance.choice(found) if found else None

    def refused(self, act: Callable[[], object], *codes: str) -> None:
        try:
            act()
        except Refused as refused:
            assert refused.code in codes, refused  # noqa: PT017  (several may be right)
        else:
            raise AssertionError(f"it was not refused: {codes}")

    def check_holders(self) -> None:
        """A dead agent holds nothing."""
        assert int(self.conn.execute(HOLDERS).get) == 0

    def check(self) -> None:
        """It stands as the plain scheduler says: what is ready is ready, and nothing else."""
        self.settle()
        self.check_holders()
        shown = {one.id: one for one in self.all()}
        names = {"ready": "free", "claimed": "free", "open": "waits"}
        assert {name: names.get(one.state, one.state) for name, one in shown.items()} == {
            name: one.state for name, one in self.plain.items()
        }
        ends = Counter(str(text).partition("]")[0] for (text,) in self.conn.execute(ENDS, (SPACE,)))
        assert all(count == 1 for count in ends.values()), "done at most once"

    def drain(self) -> None:
        """Everybody does what there is to do: then all is over, or waits for a person, who is told."""
        for _round in range(4 * len(self.plain) + 8):
            self.workspace.take_all()
            left = [one for one in self.all() if one.state in ("ready", "claimed")]
            if not left:
                break
            for one in left:
                if one.state == "ready" and one.for_ is None:
                    self.workspace.commit(tasks.claim, SPACE, one.id, author=self.workspace.author("alice"))
            for one in self.all():
                if one.state == "claimed" and one.holder is not None:
                    self.workspace.commit(tasks.finish, SPACE, one.id, author=self.workspace.author(one.holder))
                    self.plain[one.id].state = "done"
            for who in MEMBERS:
                self.workspace.close(who)
            self.settle()
        self.workspace.now_ms += 120_000
        for who in MEMBERS:  # nobody is at work any more
            author = self.workspace.author(who) if self.workspace.at_work(who) else None
            if author is not None:
                self.workspace.commit(close, author.instruction, author.epoch, status="done", text="")
        self.check()
        told = {need.id for need in needs_of(snapshot(self.conn, self.workspace.now_ms))}
        for one in self.all():
            settled = one.state in ("done", "failed", "cancelled")
            behind = one.state == "open" and all(
                other.state in ("open", "ready") for other in self.all() if other.id in one.blocked_by
            )
            assert settled or behind or one.id in told, f"{one.id} is forgotten: {one}"


def trial(seed: int) -> int:
    """One graph from its plan to its end. Returns how many tasks it had."""
    with busy_workspace() as workspace:
        one = Trial(workspace, seed)
        one.plan()
        one.check()
        steps = (
            one.plan, one.claim, one.claim, one.claim, one.end, one.end, one.end, one.split, one.crash,
            one.finish_work, one.finish_work, one.kill, one.cancel, one.assign, one.plan_in_a_circle,
        )  # fmt: skip
        for _ in range(STEPS):
            one.chance.choice(steps)()
            one.check()
        one.drain()
        return len(one.plain)


def main() -> None:
    count, first, (planned,) = run_seeds(lambda seed: (trial(seed),))
    say(f"{count:,} graphs from seed {first}, {planned:,} tasks: each as the plain scheduler says")


if __name__ == "__main__":
    main()
