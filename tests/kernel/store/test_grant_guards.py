"""Second conditions of grants: of another run, space or agent; used, ended or taken back meanwhile."""

from typing import Any, Final

import pytest

from kernel.policy.grants import WantedGrant
from kernel.rule.draft import Draft
from kernel.store import grants as rows
from kernel.store.attempts import narrow
from kernel.store.rows import RowPage
from kernel.store.spaces import find_open
from kernel.store.transaction import Transaction
from kernel.store.transitions import grants, spaces
from kernel.store.transitions.append import append
from kernel.store.transitions.runs import stop_workflow
from protocol.agent import Scope
from protocol.errors import Refused
from protocol.message import USER
from tests.kernel.store.busy_workspace import SPACE, BusyWorkspace, refused
from tests.shorthand import present

pytestmark = pytest.mark.promise("P61", "P62")

VOTES: Final = WantedGrant("votes", None, None)
BELOW: Final = "review:main~design"


@pytest.fixture
def work(workspace: BusyWorkspace) -> BusyWorkspace:
    """alice may give and vote, bob may nothing."""
    take(workspace)
    return workspace


def take(work: BusyWorkspace) -> None:
    files: dict[str, frozenset[Scope]] = {
        "alice": frozenset({"auth", "votes"}),
        "bob": frozenset(),
        "carol": frozenset({"auth"}),
    }
    for name, scopes in files.items():
        author = work.attempt(name)
        work.commit(narrow, author.instruction, author.epoch, scopes)


def give(work: BusyWorkspace, wanted: WantedGrant = VOTES, to: str = "bob", by: str = USER, space: str = SPACE) -> str:
    return work.commit(grants.give, space, wanted, to, author=work.author(by)).id


def uses(work: BusyWorkspace, who: str = "bob", *, counts: bool = True) -> Any:
    """Do something by a grant: whether it counted, or the code of the refusal."""

    def say(tx: Transaction) -> None:
        append(tx, Draft(kind="said", space=SPACE, sender=USER, text="by a grant"))

    try:
        return work.commit(grants.under_grant, work.attempt(who), "votes", say, counts=counts)[1]
    except Refused as refused:
        return refused.code


def state(work: BusyWorkspace, grant: str) -> str:
    return present(rows.info(work.conn, grant, work.now_ms)).state


def used(work: BusyWorkspace, grant: str) -> int:
    return present(rows.find(work.conn, grant)).used


def test_what_was_given_in_an_earlier_run_counts_in_no_later_one(work: BusyWorkspace) -> None:
    grant = give(work)
    assert (uses(work), state(work, grant)) == (True, "in force")
    work.commit(stop_workflow, SPACE, "stopped", 0)
    assert state(work, grant) == "void"
    work.begin()
    take(work)
    assert (uses(work), state(work, grant)) == ("forbidden", "void")
    assert give(work) != grant
    assert uses(work) is True


def test_what_was_given_in_a_space_is_void_once_that_is_closed(work: BusyWorkspace) -> None:
    work.commit(spaces.open_space, SPACE, spaces.SpaceRequest("design", ("bob",)), author=work.attempt("alice"))
    opened = present(find_open(work.conn, SPACE, "design"))
    grant = give(work, space=opened.space)
    assert state(work, grant) == "in force"
    work.commit(spaces.close_by_person, opened.space)
    assert state(work, grant) == "void"


def test_what_was_given_elsewhere_or_to_another_one_counts_for_nobody_else(work: BusyWorkspace) -> None:
    give(work, to="carol")
    give(work, WantedGrant("tasks", None, None))
    assert uses(work) == "forbidden"
    give(work)
    work.commit(grants.revoke, None, "w3")
    assert uses(work) == "forbidden"
    work.conn.execute("UPDATE grants SET revoked_ms = NULL, space = ? WHERE id = 3", (BELOW,))
    assert uses(work) == "forbidden"


def test_a_grant_that_is_revoked_stays_as_it_was_revoked(work: BusyWorkspace) -> None:
    grant = give(work, by="alice")
    work.commit(grants.revoke, SPACE, grant, author=work.author("alice"))
    first = rows.info(work.conn, grant, work.now_ms)
    work.now_ms += 1000
    assert work.commit(grants.revoke, None, grant).message_id == ""
    work.commit(rows.revoke, rows.find(work.conn, grant).number, "mallory")  # type: ignore[union-attr]
    assert rows.info(work.conn, grant, work.now_ms) == first
    assert first is not None
    assert (first.state, first.revoked_by) == ("revoked", "alice")


def test_only_who_gave_it_or_a_person_takes_a_grant_back(work: BusyWorkspace) -> None:
    grant = give(work, by="alice")
    assert refused(lambda: work.commit(grants.revoke, SPACE, grant, author=work.author("carol"))) == "forbidden"
    assert refused(lambda: work.commit(grants.revoke, BELOW, grant)) == "not_found"
    assert refused(lambda: work.commit(grants.revoke, None, "w99")) == "not_found"
    assert (uses(work), bool(work.commit(grants.revoke, None, grant).message_id)) == (True, True)


def test_what_has_ended_or_is_used_up_is_told_so(work: BusyWorkspace) -> None:
    ends = work.now_ms + 1000
    short, once = give(work, WantedGrant("votes", ends, None)), give(work, WantedGrant("tasks", None, 1))
    assert (state(work, short), state(work, once)) == ("in force", "in force")
    work.conn.execute("UPDATE grants SET used = 1 WHERE id = 2")
    work.now_ms = ends
    assert (state(work, short), state(work, once), uses(work)) == ("expired", "used", "forbidden")
    work.commit(grants.revoke, None, short)
    assert state(work, short) == "revoked"
    assert refused(lambda: give(work, WantedGrant("votes", ends, None))) == "bad_request"
    assert give(work, WantedGrant("votes", ends + 1, None))


def test_a_use_counts_where_it_is_one_and_changed_something(work: BusyWorkspace) -> None:
    """What only reads is none; a step that does not count is none; a spent one is refused where it counts."""
    grant = give(work, WantedGrant("votes", None, 1))
    assert (uses(work, counts=False), used(work, grant)) == (False, 0)
    assert work.commit(grants.under_grant, work.attempt("bob"), "votes", lambda _tx: 7, counts=True) == (7, False)
    assert (uses(work), used(work, grant)) == (True, 1)
    assert (uses(work), used(work, grant)) == ("forbidden", 1)
    assert refused(lambda: work.commit(grants.use, work.attempt("bob"), "votes")) == "forbidden"
    assert uses(work, counts=False) is False


@pytest.mark.parametrize(
    ("to", "by", "wanted", "code"),
    [
        ("alice", "alice", VOTES, "bad_request"),
        ("bob", "bob", VOTES, "bad_request"),
        ("bob", "carol", VOTES, "forbidden"),
        ("dave", USER, VOTES, "not_a_participant"),
        ("bob", "alice", WantedGrant("tasks", None, None), "forbidden"),
    ],
)
def test_nobody_gives_what_it_may_not(work: BusyWorkspace, to: str, by: str, wanted: WantedGrant, code: str) -> None:
    assert refused(lambda: give(work, wanted, to, by)) == code


def test_in_a_personal_space_a_person_gives_to_its_agent_alone(work: BusyWorkspace) -> None:
    key = str(work.conn.execute("SELECT key FROM agents LIMIT 1").get)
    assert give(work, to=key, space=f"dm:{key}")
    assert refused(lambda: give(work, to="bob", space=f"dm:{key}")) == "not_a_participant"
    assert refused(lambda: give(work, to="nobody", space="dm:nobody")) == "not_a_participant"


def test_a_full_space_takes_one_more_once_one_is_revoked(work: BusyWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "LIMIT", 2)
    give(work)
    give(work, to="carol")
    assert refused(lambda: give(work)) == "conflict"
    conn = work.conn
    for change in ("space = 'task:main'", "scope = NULL", "revoked_ms = 1"):
        conn.execute("SAVEPOINT one")
        conn.execute(f"UPDATE grants SET {change} WHERE id = 1")
        assert not rows.is_full(conn, SPACE), change
        conn.execute("ROLLBACK TO one")
        conn.execute("RELEASE one")
    assert rows.is_full(conn, SPACE)


def test_a_list_has_what_its_space_gave_from_where_it_goes_on(work: BusyWorkspace) -> None:
    for _ in range(3):
        give(work)
    conn = work.conn
    conn.execute("UPDATE grants SET space = ? WHERE id = 2", (BELOW,))

    def ids(space: str | None, after: int | None = None) -> tuple[list[str], int]:
        found = rows.listed(conn, RowPage(after=after, limit=10), space, work.now_ms)
        return [one.id for one in found.grants], found.total

    assert (ids(None), ids(SPACE), ids(BELOW)) == ((["w1", "w2", "w3"], 3), (["w1", "w3"], 2), (["w2"], 1))
    assert (ids(None, 1), ids(SPACE, 1)) == ((["w2", "w3"], 3), (["w3"], 2))


def test_what_an_earlier_attempt_could_do_says_nothing_of_the_next(work: BusyWorkspace) -> None:
    conn = work.conn
    author = work.attempt("alice")
    number = int(author.instruction[1:])
    conn.execute(
        "INSERT INTO attempts (instruction, n, epoch, scopes, started_ms, token_hash) "
        "SELECT instruction, n + 1, epoch + 1, 'tasks', started_ms, randomblob(32) FROM attempts WHERE instruction = ?",
        (number,),
    )
    assert rows.standing(conn, number, author.epoch).scopes == {"auth", "votes"}
    assert rows.standing(conn, number, author.epoch + 1).scopes == {"tasks"}


ASKS: Final = """
INSERT INTO approvals (instruction, epoch, agent, name, space, tool, input, digest, why, state, requested_ms,
  expires_ms, waits_ms, held)
SELECT i.id, i.epoch, i.agent, i.name, ?, 'bash', x'7b7d', randomblob(32), '', 'open', 0, ?, 0, 0
FROM instructions AS i WHERE i.id = ?
"""


def asks(work: BusyWorkspace, who: str, space: str = SPACE) -> str:
    """A call of ``who`` waits for leave."""
    conn = work.conn
    conn.execute(ASKS, (space, work.now_ms + 60_000, int(work.attempt(who).instruction[1:])))
    return f"a{conn.last_insert_rowid()}"


@pytest.mark.parametrize(
    ("who", "asker", "space", "code"),
    [
        ("alice", "carol", SPACE, None),
        ("bob", "carol", SPACE, None),
        ("alice", "alice", SPACE, "forbidden"),
        ("bob", "bob", SPACE, "forbidden"),
        ("alice", "carol", BELOW, "not_found"),
    ],
)
def test_a_colleague_with_auth_answers_a_request_of_another_in_its_space(
    work: BusyWorkspace, who: str, asker: str, space: str, code: str | None
) -> None:
    warrant = give(work, WantedGrant("auth", None, None))
    request = asks(work, asker, space)
    if code is not None:
        assert refused(lambda: work.commit(grants.answer, SPACE, request, author=work.attempt(who))) == code
        return
    made = rows.find(work.conn, work.commit(grants.answer, SPACE, request, author=work.attempt(who)).id)
    assert made is not None
    assert (made.warrant, made.scope, made.giver) == (int(warrant[1:]) if who == "bob" else None, None, who)
    assert refused(lambda: work.commit(grants.revoke, None, f"w{made.number}")) == "conflict"
    assert state(work, f"w{made.number}") == "used"


def test_without_auth_nobody_answers_also_once_it_is_taken_back(work: BusyWorkspace) -> None:
    warrant, request = give(work, WantedGrant("auth", None, None)), asks(work, "carol")
    assert refused(lambda: work.commit(grants.answer, SPACE, "x", author=work.attempt("bob"))) == "not_found"
    work.commit(grants.revoke, None, warrant)
    assert refused(lambda: work.commit(grants.answer, SPACE, request, author=work.attempt("bob"))) == "forbidden"
