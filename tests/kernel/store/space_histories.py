"""Random histories of spaces below a run's, held against a plain model (promise P64).

The plain one keeps sets: who is in which space, who ever was, and which are open. It says who may speak where, and of
each space, by what is still to be done in it and in the work that it was opened in, whether it is over.
``python -m tests.kernel.store.space_histories COUNT [FIRST]`` tries many; a seed says all that happens.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from kernel.policy.spaces import MOST_IN_RUN, MOST_OPEN, MembershipChange
from kernel.rule.draft import Author, Draft
from kernel.store import spaces as rows
from kernel.store.transitions.append import append
from kernel.store.transitions.close import close
from kernel.store.transitions.lease import lease
from kernel.store.transitions.recovery import recover
from kernel.store.transitions.runs import stop_workflow
from kernel.store.transitions.spaces import SpaceRequest, change_members, open_space
from kernel.store.transitions.tasks import plan
from kernel.store.transitions.voting import create
from protocol.message import USER
from protocol.names import SpaceId, base_space, instruction_id, is_below, place_of, split_below
from protocol.tasks import TaskSpec
from tests.kernel.store.busy_workspace import MEMBERS, SPACE, BusyWorkspace, DrawnHistory, asked, busy_workspace
from tests.kernel.store.running_store import token_hash
from tests.shorthand import present
from tests.soak import run_seeds, say

STEPS: Final = 60
NAMES: Final = ("design", "budget", "plan")
STRANGER: Final = "mallory"
READY: Final = """
SELECT id FROM instructions WHERE name = ? AND state IN ('queued', 'yielded') ORDER BY lane, id LIMIT 1
"""
LIVE: Final = "SELECT id, epoch, space FROM instructions WHERE name = ? AND state IN ('leased', 'running')"
ENDED: Final = "SELECT ended_ms IS NOT NULL FROM instructions WHERE id = ?"
OPEN_WORK: Final = "SELECT id, name FROM instructions WHERE ended_ms IS NULL AND space = ? ORDER BY id"
BELOW: Final = "SELECT space, closed_ms IS NULL FROM subspaces ORDER BY number"
UNSETTLED: Final = """
SELECT (SELECT count(*) FROM ballots AS b WHERE b.space = ?1 AND b.state = 'open')
  + (SELECT count(*) FROM tasks AS t WHERE t.space = ?1 AND t.state IN ('open', 'ready', 'claimed'))
"""
DELIVERED: Final = "SELECT DISTINCT name FROM deliveries WHERE space = ?"
TOLD: Final = "SELECT count(*) FROM messages WHERE kind = 'due' AND space = ? AND text LIKE '[SPACE]%'"
LEAKED: Final = "SELECT count(*) FROM messages WHERE kind <> 'due' AND space = ? AND text LIKE '[SPACE]%'"


@dataclass
class Plain:
    """One space, as whoever opened it said."""

    opener: str
    instruction: int
    members: set[str]
    ever: set[str]
    open: bool = True
    opener_ended: bool = False


class Trial(DrawnHistory):
    """One run, and the spaces that its members open."""

    def __init__(self, workspace: BusyWorkspace, seed: int) -> None:
        super().__init__(workspace, seed)
        self.plain: dict[SpaceId, Plain] = {}
        self.woken = 0
        """So often an opener was told that all is over."""
        self.stale: list[tuple[str, Author, str]] = []

    def live(self, name: str) -> tuple[Author, str] | None:
        row = self.conn.execute(LIVE, (name,)).fetchone()
        return None if row is None else (Author(instruction_id(int(str(row[0]))), int(str(row[1]))), str(row[2]))

    def someone(self) -> tuple[str, Author, str]:
        """A member at work, its attempt, and where it works."""
        name = self.chance.choice(MEMBERS)
        if (found := self.live(name)) is None:
            row = self.conn.execute(READY, (name,)).fetchone()
            if row is None:
                draft = Draft(kind="said", space=SPACE, sender=USER, text="work", to=(name,))
                self.workspace.commit(append, draft)
                row = self.conn.execute(READY, (name,)).fetchone()
            assert row is not None
            self.calls += 1
            self.workspace.commit(lease, instruction_id(int(str(row[0]))), token_hash(name, 1_000 + self.calls))
            found = self.live(name)
        assert found is not None
        author, where = found
        return name, msgspec.structs.replace(author, call=self.key()), where

    def named(self, name: str) -> tuple[SpaceId, Plain] | None:
        return next(((key, one) for key, one in self.plain.items() if one.open and split_below(key)[1] == name), None)

    def work(self, space: str) -> dict[int, str]:
        return {int(str(number)): str(name) for number, name in self.conn.execute(OPEN_WORK, (space,))}

    # -- what is done ------------------------------------------------------------------------------------

    def open_one(self) -> None:
        who, author, where = self.someone()
        name, wanted = self.chance.choice(NAMES), tuple(self.chance.sample((*MEMBERS, STRANGER), 2))
        made = self.tried(open_space, where, SpaceRequest(name, wanted), author=author)
        full = sum(one.open for one in self.plain.values()) >= MOST_OPEN or len(self.plain) >= MOST_IN_RUN
        may = not is_below(where) and STRANGER not in wanted and self.named(name) is None and not full
        assert may is not isinstance(made, str), made
        if isinstance(made, str):
            return
        row = present(rows.find_open(self.conn, SPACE, name))
        assert (made.space, {*made.members}) == (place_of(row.space), {who, *wanted})
        self.plain[row.space] = Plain(who, int(author.instruction[1:]), {who, *wanted}, {who, *wanted})

    def change(self) -> None:
        who, author, where = self.someone()
        person, name = self.chance.random() < 0.3, self.chance.choice(NAMES)
        add = tuple(self.chance.sample(MEMBERS, self.chance.randrange(3)))
        remove = tuple(self.chance.sample(MEMBERS, self.chance.randrange(3)))
        found = self.named(name)
        before = {} if found is None else self.work(found[0])
        author_or_none = None if person else author
        change = MembershipChange(add, remove)
        made = self.tried(change_members, where, name, change, author=author_or_none)
        if found is None or (not person and who not in found[1].members):
            assert made == "not_found", "to who is not in it, it is missing"
            return
        key, one = found
        added, removed = {*add} - one.members, {*remove} & one.members
        if not person and who != one.opener and (added or removed):
            assert made == "forbidden"
        elif {*add} & {*remove}:
            assert made == "bad_request"
        elif one.opener in removed:
            assert made == "conflict"
        else:
            assert not isinstance(made, str), made
            one.members, one.ever = one.members - removed | added, one.ever | added
            assert {*made.members} == one.members
            kept = {number: name for number, name in before.items() if name not in removed}
            assert self.work(key) == kept, "who is gone has lost its work there, and nobody else"

    def say(self) -> None:
        who, author, where = self.someone()
        key, mention = self.chance.choice([SpaceId(where), *self.plain]), self.chance.choice(MEMBERS)
        draft = Draft(kind="said", space=key, sender=who, text=f"@{mention} look", author=author)
        made = self.tried(append, draft)
        one = self.plain.get(key)
        if one is not None and (not one.open or who not in one.members):
            assert made == "forbidden", f"{who} spoke in {key}"
            return
        assert not isinstance(made, str), made
        hears = mention != who and (one is None or mention in one.members)
        assert len(made.instruction_ids) == hears

    def person_says(self) -> None:
        if not self.plain:
            return
        key, to = self.chance.choice(list(self.plain)), self.chance.choice(MEMBERS)
        made = self.tried(append, Draft(kind="said", space=key, sender=USER, text="do it", to=(to,)))
        one = self.plain[key]
        assert isinstance(made, str) is not (one.open and to in one.members)

    def leave_open(self) -> None:
        """Something is put to the vote, or planned, that is open until the space is closed."""
        if not self.plain:
            return
        key = self.chance.choice(list(self.plain))
        made: object
        if self.chance.random() < 0.5:
            made = self.tried(plan, key, [TaskSpec(title="t")])
        else:
            made = self.tried(create, key, asked(seconds=600.0), salt="s")
        if not self.plain[key].open:
            assert made == "workflow_not_running"

    def end(self) -> None:
        who, author, where = self.someone()
        failed = self.chance.random() < 0.2
        text = "" if failed else self.chance.choice(("all is well", "@bob goes on", "@carol goes on"))
        self.workspace.commit(close, author.instruction, author.epoch, status="failed" if failed else "done", text=text)
        self.stale.append((who, author, where))

    def restart(self) -> None:
        """The kernel died: the next one puts back what was at work, and no space is closed or lost by that."""
        self.stale += [(name, *found) for name in MEMBERS if (found := self.live(name)) is not None]
        self.workspace.commit(recover)

    def steal(self) -> None:
        """An attempt that has ended tries what it could do."""
        if not self.stale:
            return
        who, author, where = self.chance.choice(self.stale)
        answers = (
            self.tried(append, Draft(kind="said", space=where, sender=who, text="still here", author=author)),
            self.tried(change_members, where, "design", MembershipChange(("bob",), ()), author=author),
            self.tried(open_space, where, SpaceRequest("theft", ("bob",)), author=author),
        )
        assert {*answers} == {"stale_attempt"}

    # -- what has to hold --------------------------------------------------------------------------------

    def check(self) -> None:
        """Each space is as the plain model says, once a step is made."""
        for key, one in self.plain.items():
            ended = bool(self.conn.execute(ENDED, (one.instruction,)).get)
            if one.open and ended and not self.work(key):
                one.open = False
                self.woken += one.opener_ended  # before this step: it is not what the step ended
            one.opener_ended = ended
        known = {SpaceId(str(space)): bool(is_open) for space, is_open in self.conn.execute(BELOW)}
        assert known == {key: one.open for key, one in self.plain.items()}
        for key, one in self.plain.items():
            assert {*rows.members(self.conn, key)} == one.members
            assert base_space(key) == SPACE
            assert {*self.work(key).values()} <= one.members
            assert {str(name) for (name,) in self.conn.execute(DELIVERED, (key,))} <= one.ever
            assert one.open or int(self.conn.execute(UNSETTLED, (key,)).get) == 0, "nothing is open in what is closed"
        assert int(self.conn.execute(TOLD, (SPACE,)).get) == self.woken
        assert int(self.conn.execute(LEAKED, (SPACE,)).get) == 0, "the channel of the run does not tell of it"

    def stop(self) -> None:
        """The run ends, and all with it."""
        self.workspace.commit(stop_workflow, SPACE, "stopped", 130)
        for key, one in self.plain.items():
            assert not self.work(key)
            one.open = False
        known = [bool(is_open) for _, is_open in self.conn.execute(BELOW)]
        assert not any(known)
        for key in self.plain:
            assert int(self.conn.execute(UNSETTLED, (key,)).get) == 0
        assert int(self.conn.execute(TOLD, (SPACE,)).get) == self.woken, "nobody is woken in a run that is over"


def trial(seed: int) -> tuple[int, int]:
    """One run. Returns how many spaces there were, and how often an opener was told that one is over."""
    with busy_workspace() as workspace:
        one = Trial(workspace, seed)
        steps: tuple[Callable[[], None], ...] = (
            one.open_one, one.open_one, one.change, one.change, one.say, one.say, one.say, one.person_says,
            one.leave_open, one.end, one.end, one.end, one.steal,
        )  # fmt: skip
        for _ in range(STEPS):
            (one.restart if one.chance.random() < 0.02 else one.chance.choice(steps))()
            one.check()
        one.stop()
        return len(one.plain), one.woken


def main() -> None:
    count, first, (opened, woken) = run_seeds(trial)
    say(f"{count} histories from seed {first}: {opened} spaces, {woken} openers woken")


if __name__ == "__main__":
    main()
