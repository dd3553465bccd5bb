"""A workspace whose members are at work and may vote: commits on SQLite directly, a transaction each, no threads."""

import random
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import msgspec
import pytest

from kernel.rule.draft import Author, Draft
from kernel.store import voting
from kernel.store.database import MEMORY, Database
from kernel.store.memory_texts import WriterConnection
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import append
from kernel.store.transitions.close import Closed, EndStatus, close
from kernel.store.transitions.due import apply_due
from kernel.store.transitions.lease import lease
from kernel.store.transitions.recovery import recover
from kernel.store.transitions.requeue import Requeue, requeue
from kernel.store.transitions.voting import Cancelled, ProposalMade, VoteCast, cancel_proposal, create, vote
from protocol.errors import Refused
from protocol.message import USER, Event
from protocol.names import InstructionId, inline_key, instruction_id
from protocol.voting import BallotInfo, BallotType, Method, Option, ProposalTerms, Resolution, TieBreaker
from tests.kernel.store.migrated import open_migrated
from tests.kernel.store.running_store import START_MS, started, token_hash
from tests.shorthand import present

P = ParamSpec("P")
T = TypeVar("T")

SPACE: Final = "review:main"
MEMBERS: Final = ("alice", "bob", "carol")
STARVATION_MS: Final = 600_000
LIVE: Final = "SELECT id, epoch FROM instructions WHERE agent = ? AND state IN ('leased', 'running')"
FIRST: Final = "SELECT id FROM instructions WHERE agent = ? AND state IN ('queued', 'yielded') ORDER BY id LIMIT 1"
TOLD: Final = """
SELECT kind, sender, text FROM messages
WHERE space = ? AND kind IN ('proposal', 'vote', 'resolved') ORDER BY seq
"""
WOKEN: Final = """
SELECT d.name FROM messages AS m CROSS JOIN deliveries AS d ON d.message = m.seq
WHERE m.kind = ? AND d.instruction IS NOT NULL ORDER BY m.seq, d.name
"""


def asked(
    type: BallotType = "decision",
    options: str = "ab",
    *,
    name: str | None = None,
    rule: Method = "plurality",
    quorum: int | None = None,
    tie_breaker: TieBreaker | None = None,
    binding: bool = False,
    seconds: float = 60.0,
) -> ProposalTerms:
    """``options``: a letter each."""
    return ProposalTerms(
        type=type,
        title="Which one?",
        id=name,
        options=tuple(Option(id=option, label=f"the {option}") for option in options) if type != "approval" else (),
        resolution=Resolution(type=rule, quorum=quorum, tie_breaker=tie_breaker),
        binding=binding,
        timeout_seconds=seconds,
    )


def refused(step: Any) -> str:
    with pytest.raises(Refused) as caught:
        step()
    return caught.value.code


class BusyWorkspace:
    """``review:main`` with its members, each held by an attempt."""

    def __init__(self, database: Database, life: int = 0) -> None:
        """``life``: another for each that goes on with the same store."""
        self.database = database
        self.now_ms = START_MS
        self.events: list[Event] = []
        self._salt = life * 1_000_000

    @property
    def conn(self) -> WriterConnection:
        return self.database.writer()

    def commit(self, job: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """One job in one transaction; what it raises undoes it."""
        conn = self.conn
        conn.execute("BEGIN IMMEDIATE")
        transaction = Transaction(conn, self.now_ms)
        try:
            answer = job(transaction, *args, **kwargs)
        except BaseException:
            conn.execute("ROLLBACK")
            raise
        conn.execute("COMMIT")
        self.events += transaction.events
        return answer

    def begin(self) -> None:
        self.commit(append, started(*MEMBERS, definition=b"{}"))
        self.take_all()

    def begin_beside(self, space: str) -> None:
        """Start another workflow, with a member of the same name: what is its own is nobody else's."""
        name, _, tag = space.partition(":")
        self.commit(append, started("alice", name=name, tag=tag, definition=b"{}"))

    def take_all(self) -> None:
        """Have every member at work that is not, with something new where nothing is left for it to do."""
        for name in MEMBERS:
            if self._live(name) is not None:
                continue
            if self._first(name) is None:
                self.commit(append, Draft(kind="said", space=SPACE, sender=USER, text="work", to=(name,)))
            waiting = present(self._first(name))
            self._salt += 1
            self.commit(lease, instruction_id(waiting), token_hash(name, self._salt))

    def _first(self, name: str) -> int | None:
        row = self.conn.execute(FIRST, (inline_key(name, SPACE),)).fetchone()
        return None if row is None else int(row[0])

    def restart(self) -> None:
        """The kernel died; the next one takes over, and everybody is put to work again."""
        self.commit(recover)
        self.take_all()

    def _live(self, name: str) -> Author | None:
        row = self.conn.execute(LIVE, (inline_key(name, SPACE),)).fetchone()
        return None if row is None else Author(InstructionId(f"i{row[0]}"), int(row[1]))

    def at_work(self, name: str) -> bool:
        return self._live(name) is not None

    def author(self, name: str, key: str | None = None) -> Author | None:
        """The attempt of a member, with the key of a call; None for the user."""
        if name == USER:
            return None
        live = self._live(name)
        assert live is not None, f"{name} is not at work"
        return msgspec.structs.replace(live, call=key)

    def attempt(self, name: str) -> Author:
        """The attempt of a member."""
        return present(self.author(name))

    def close(self, name: str, text: str = "", status: EndStatus = "done") -> Closed:
        """The instruction of a member ends."""
        author = self.attempt(name)
        return self.commit(close, author.instruction, author.epoch, status=status, text=text)

    def requeue(self, name: str, parking: Requeue) -> Author:
        """The attempt of a member ends, and its instruction does not. Returns the attempt."""
        author = self.attempt(name)
        self.commit(requeue, author.instruction, author.epoch, parking)
        return author

    def create(self, who: str, what: ProposalTerms, key: str | None = None) -> ProposalMade:
        return self.commit(create, SPACE, what, author=self.author(who, key))

    def vote(self, who: str, name: str, choice: str, key: str | None = None, reason: str = "") -> VoteCast:
        return self.commit(vote, SPACE, name, choice, reason, author=self.author(who, key))

    def cancel(self, who: str, name: str, key: str | None = None) -> Cancelled:
        return self.commit(cancel_proposal, SPACE, name, "never mind", author=self.author(who, key))

    def advance(self, seconds: float) -> None:
        """Let time pass, and what it alone decides happen."""
        self.now_ms += round(seconds * 1000)
        self.commit(apply_due, STARVATION_MS)

    def ballot(self, name: str) -> BallotInfo:
        return present(voting.one(self.conn, SPACE, name))

    def told(self) -> list[tuple[str, str, str]]:
        """What the channel says of ballots: kind, sender, and the first line."""
        rows = self.conn.execute(TOLD, (SPACE,))
        return [(str(kind), str(sender), str(text).partition("\n")[0]) for kind, sender, text in rows]

    def woken_by(self, kind: str) -> list[str]:
        """Who was given work by messages of this kind."""
        return [str(name) for (name,) in self.conn.execute(WOKEN, (kind,))]


@contextmanager
def busy_workspace() -> Generator[BusyWorkspace]:
    """A workspace whose members are at work, on a store in memory."""
    database = open_migrated(MEMORY)
    workspace = BusyWorkspace(database)
    workspace.begin()
    yield workspace
    database.close()


class DrawnHistory:
    """A history that its seed draws, in a workspace at work."""

    def __init__(self, workspace: BusyWorkspace, seed: int) -> None:
        self.chance = random.Random(seed)
        self.workspace = workspace
        self.conn = workspace.conn
        self.calls = 0

    def key(self) -> str:
        """Another for each call: none is taken for one that was made before."""
        self.calls += 1
        return f"call {self.calls}"

    def tried(self, job: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T | str:
        """Return the answer of a commit, or the code of its refusal."""
        try:
            return self.workspace.commit(job, *args, **kwargs)
        except Refused as refused:
            return refused.code
