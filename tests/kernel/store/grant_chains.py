"""Random chains of grants, hand-overs, revocations and uses, held against a plain model (promises P61, P62).

The plain one keeps no counters: it has a list of what was done by which grant, and looks along every line anew.
``python -m tests.kernel.store.grant_chains COUNT [FIRST]`` tries many; a seed says all that happens.
"""

import random
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Final

import msgspec

from kernel.policy.grants import ScopeGrant, WantedGrant, authority, delegation
from kernel.rule.draft import Author, Draft
from kernel.store import grants as rows
from kernel.store.attempts import narrow
from kernel.store.transaction import Transaction
from kernel.store.transitions import grants
from kernel.store.transitions.append import append
from kernel.store.transitions.runs import stop_workflow
from protocol.agent import Scope
from protocol.errors import Refused
from protocol.message import USER
from protocol.names import InstructionId, inline_key
from tests.kernel.store.busy_workspace import MEMBERS, SPACE, BusyWorkspace, DrawnHistory, busy_workspace
from tests.shorthand import present
from tests.soak import run_seeds, say

STEPS: Final = 30
SCOPES: Final[tuple[Scope, ...]] = ("auth", "channel.write", "votes")
FILES: Final[dict[str, frozenset[Scope]]] = {
    "alice": frozenset({"auth", "channel.write"}),
    "bob": frozenset({"votes"}),
    "carol": frozenset(),
}
SAID: Final = "SELECT count(*) FROM messages WHERE space = ? AND text = 'by a grant'"
USED: Final = "SELECT id, used FROM grants ORDER BY id"
ATTACKS: Final = 100_000


@dataclass
class Plain:
    """One grant, as whoever gave it said."""

    to: str
    scope: str
    giver: str
    above: tuple[str | None, str | None]
    """By which its giver has the scope, and by which he may give."""
    until: float
    uses: float
    run: int
    revoked: bool = False


class Trial(DrawnHistory):
    """One run of a workspace, and what its members give each other."""

    def __init__(self, workspace: BusyWorkspace, seed: int) -> None:
        super().__init__(workspace, seed)
        self.read_files()
        self.plain: dict[str, Plain] = {}
        self.run = 0
        self.done: list[str] = []
        """By which grant each effect was made."""
        self.stale: list[tuple[str, Author]] = []

    def read_files(self) -> None:
        for name in MEMBERS:
            author = self.workspace.attempt(name)
            self.workspace.commit(narrow, author.instruction, author.epoch, FILES[name])

    # -- the plain model ---------------------------------------------------------------------------------

    def stands(self, grant: str) -> bool:
        one = self.plain[grant]
        return (
            not one.revoked
            and one.run == self.run
            and one.until > self.workspace.now_ms
            and all(self.stands(above) for above in one.above if above)
        )

    def line(self, grant: str) -> list[str]:
        above = self.plain[grant].above[0]
        return [grant] if above is None else [grant, *self.line(above)]

    def left(self, grant: str) -> float:
        return min(
            self.plain[one].uses - sum(1 for by in self.done if one in self.line(by)) for one in self.line(grant)
        )

    def held(self, name: str, scope: str) -> list[str]:
        return [one for one, row in self.plain.items() if (row.to, row.scope) == (name, scope) and self.stands(one)]

    def may_give(self, giver: str, scope: str, until: float | None, uses: int | None) -> bool:
        own = FILES[giver]
        warrants = [None] if "auth" in own else self.held(giver, "auth")
        sources = [None] if scope in own else self.held(giver, scope)
        return any(
            (until is None or until <= min(self.plain[one].until if one else inf for one in (source, warrant)))
            and (source is None or (self.left(source) > 0 and (uses or 0) <= self.left(source)))
            for source in sources
            for warrant in warrants
        )

    # -- what is done ------------------------------------------------------------------------------------

    def give(self) -> None:
        giver = self.chance.choice((USER, *MEMBERS))
        to = self.chance.choice([name for name in MEMBERS if name != giver])
        scope = self.chance.choice(SCOPES)
        until = self.chance.choice((None, None, self.workspace.now_ms + self.chance.randrange(1_000, 60_000)))
        uses = self.chance.choice((None, None, 1, 2, 5))
        key = f"give {self.chance.random()}"  # without one a next attempt that says the same repeats it
        made = self.tried(
            grants.give, SPACE, WantedGrant(scope, until, uses), to, author=self.workspace.author(giver, key)
        )
        if isinstance(made, str):
            assert made == "forbidden"
            assert not self.may_give(giver, scope, until, uses), f"{giver} could give {scope}"
            return
        row = present(rows.find(self.conn, made.id))
        above = (_name(row.parent), _name(row.warrant))
        if giver != USER:
            assert self.may_give(giver, scope, until, uses), f"{giver} gave {scope} beyond its own"
            source, warrant = above
            assert source is None or source in self.held(giver, scope)
            assert source is not None or scope in FILES[giver]
            assert warrant is None or warrant in self.held(giver, "auth")
            assert warrant is not None or "auth" in FILES[giver]
        ends = inf if row.until_ms is None else row.until_ms
        assert ends <= min(self.plain[one].until if one else inf for one in above)
        self.plain[made.id] = Plain(to, scope, giver, above, ends, inf if uses is None else uses, self.run)

    def use(self) -> None:
        name, scope = self.chance.choice(MEMBERS), self.chance.choice(SCOPES)
        self.make(name, scope, self.workspace.attempt(name))

    def make(self, name: str, scope: Scope, author: Author) -> None:
        """One effect, or its refusal."""
        conn = self.conn
        before = {int(str(row[0])): row[1] for row in conn.execute(USED)}
        said = int(conn.execute(SAID, (SPACE,)).get)

        def job(tx: Transaction) -> None:
            calling = msgspec.structs.replace(author, call=f"call {len(self.done)}")
            append(tx, Draft(kind="said", space=SPACE, sender=name, text="by a grant", author=calling))

        usable = [one for one in self.held(name, scope) if self.left(one) > 0]
        if isinstance(code := self.tried(grants.under_grant, author, scope, job, counts=True), str):
            assert code == "forbidden"
            assert not usable, f"{name} may use {scope} by {usable}"
            assert int(conn.execute(SAID, (SPACE,)).get) == said, "what is refused is not done"
            return
        counted = {f"w{number}" for number, used in conn.execute(USED) if used != before[int(str(number))]}
        assert usable, f"{name} used {scope} without authority"
        by = [one for one in usable if set(self.line(one)) == counted]
        assert by, f"counted in {counted}, and not in the line of one of {usable}"
        self.done.append(by[0])

    def revoke(self) -> None:
        if not self.plain:
            return
        grant, who = self.chance.choice(list(self.plain)), self.chance.choice((USER, *MEMBERS))
        author = None if who == USER else self.workspace.attempt(who)
        if isinstance(code := self.tried(grants.revoke, None if who == USER else SPACE, grant, author=author), str):
            assert code == "forbidden"
            assert who not in (USER, self.plain[grant].giver), f"{who} gave {grant}"
            return
        assert who in (USER, self.plain[grant].giver), f"{who} took back {grant} of another"
        self.plain[grant].revoked = True

    def pass_time(self) -> None:
        self.workspace.now_ms += self.chance.randrange(1, 20_000)

    def restart(self) -> None:
        """Every attempt ends, and others go on: what the old ones know is worth nothing."""
        self.stale += [(name, self.workspace.attempt(name)) for name in MEMBERS]
        self.workspace.restart()
        self.read_files()

    def begin_again(self) -> None:
        """The run is stopped, and another begins: what was given in the one counts in no other."""
        self.stale += [(name, self.workspace.attempt(name)) for name in MEMBERS]
        self.workspace.commit(stop_workflow, SPACE, "stopped", 0)
        self.workspace.begin()
        self.read_files()
        self.run += 1

    def steal(self) -> None:
        """A stale attempt, or one that never was, tries what its agent may do."""
        name, author = self.chance.choice([*self.stale, ("bob", Author(InstructionId("i999"), 1))])
        answers = (
            self.tried(grants.use, author, self.chance.choice(SCOPES)),
            self.tried(grants.give, SPACE, WantedGrant("votes", None, None), "carol", author=author),
            self.tried(grants.revoke, SPACE, next(iter(self.plain), "w1"), author=author),
        )
        assert {*answers} <= {"stale_attempt", "not_found"}, f"{name} acts by an attempt that has ended"


def _name(number: int | None) -> str | None:
    return None if number is None else rows.grant_id(number)


def trial(seed: int) -> tuple[int, int]:
    """One run. Returns how many grants there were, and how many effects by them."""
    with busy_workspace() as workspace:
        one = Trial(workspace, seed)
        steps: tuple[Callable[[], None], ...] = (
            one.give, one.give, one.give, one.use, one.use, one.use, one.revoke, one.pass_time, one.steal,
        )  # fmt: skip
        for _ in range(STEPS):
            rare = one.chance.random()
            (one.restart if rare < 0.02 else one.begin_again if rare < 0.05 else one.chance.choice(steps))()
        conn = one.conn
        assert int(conn.execute(SAID, (SPACE,)).get) == len(one.done), "each effect has its use"
        for grant, row in one.plain.items():
            kept = present(rows.find(conn, grant))
            assert kept.used == sum(1 for by in one.done if grant in one.line(by))
            assert kept.used <= row.uses
        return len(one.plain), len(one.done)


def attacks(seed: int, count: int) -> int:
    """Try ``count`` calls with other agents' grants. Returns how many had authority: by a whole line of their own."""
    chance = random.Random(seed)
    keys = [inline_key(name, SPACE) for name in MEMBERS]
    had = 0
    for _ in range(count):
        book: dict[int, ScopeGrant] = {}
        for number in range(1, chance.randrange(2, 6)):
            above = [None, None, *range(1, number + 1)]
            book[number] = ScopeGrant(
                number=number,
                agent=chance.choice(keys),
                scope=chance.choice(SCOPES),
                parent=chance.choice([one for one in above if one != number]),
                warrant=chance.choice(above),  # also itself
                until_ms=chance.choice((None, None, 50, 150)),
                uses=chance.choice((None, 0, 1)),
                revoked=chance.random() < 0.2,
            )
        agent, scope = chance.choice(keys), chance.choice(SCOPES)
        found = authority(book, agent, scope, 100)
        own = [one for one in book.values() if (one.agent, one.scope) == (agent, scope)]
        whole = [one.number for one in own if _whole(book, one.number, frozenset())]
        assert (found is None) == (not whole), (book, agent, scope)
        if found is not None:
            assert found.line[0] in whole
            had += 1
        with suppress(Refused):
            given = delegation(book, agent, (), WantedGrant(scope, None, None), 100)
            assert given.parent in whole
            assert given.warrant is not None
    return had


def _whole(book: dict[int, ScopeGrant], number: int, seen: frozenset[int]) -> bool:
    one = book[number]
    above = [up for up in (one.parent, one.warrant) if up is not None and up not in seen | {number}]
    counts = not one.revoked and (one.until_ms is None or one.until_ms > 100)
    return counts and all(_whole(book, up, seen | {number}) for up in above)


def main() -> None:
    count, first, (given, done) = run_seeds(trial)
    say(f"{count:,} chains from seed {first}, {given:,} grants, {done:,} effects: each had authority at its commit")
    had = attacks(first, ATTACKS)
    sys.stdout.write(
        f"{ATTACKS:,} tries by other agents' grants: {had:,} had a whole line of their own, no other did\n"
    )


if __name__ == "__main__":
    main()
