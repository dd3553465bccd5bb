"""Start a workflow, once for each Idempotency-Key: its row, its members, its kickoff and the recorded answer."""

from typing import Final, Literal

import apsw
import msgspec

from kernel.rule.draft import Draft, MemberSpec, WorkflowStarted
from kernel.store import agents, workflows
from kernel.store.commits.append import append
from kernel.store.commits.mirrored import mark_redo
from kernel.store.commits.release import release_agent
from kernel.store.commits.worktrees import TreePlan, plan_worktrees
from kernel.store.events import kept
from kernel.store.requests import RequestKey, recall, remember
from kernel.store.transaction import Transaction
from protocol.names import AgentKey, SpaceId, inline_key, run_space, workflow_space


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow that was started. Its events come after the one with the number ``after``."""

    run: int
    name: str
    tag: str
    space: str
    mode: Literal["start", "run"]
    members: tuple[str, ...]
    started_ms: int
    after: int
    message_id: str

    @property
    def place(self) -> SpaceId:
        """What people call its space."""
        return workflow_space(self.name, self.tag)


_encode: Final = msgspec.json.Encoder().encode
_decoder: Final = msgspec.json.Decoder(Begun)


# A person who starts it has perhaps just seen to what they wait for: one of them may try.
HELD_MEMBERS: Final = """
SELECT m.agent FROM members AS m CROSS JOIN agents AS a ON a.key = m.agent
WHERE m.space = ? AND a.hold_key IS NOT NULL AND a.hold_until_ms = 0
"""


def begun_before(conn: apsw.Connection, request: RequestKey, now_ms: int) -> Begun | None:
    """What the same request started earlier. Raises Refused (key_reused) if the key was another request's."""
    recorded = recall(conn, request, now_ms)
    return None if recorded is None else _decoder.decode(recorded.response)


def begin_workflow(
    tx: Transaction,
    draft: Draft,
    request: RequestKey | None = None,
    trees: TreePlan | None = None,
    *,
    continues: bool = False,
) -> Begun:
    """Append ``draft``, whose payload says what starts. The second time its ``request`` is only answered.

    It begins a space of its own at the draft's place; one that ``continues``, or that is bound as the
    one before was, goes on in that one's space.

    Raises Refused (already_running, key_reused, and those of proposals).
    """
    if request is not None and (before := begun_before(tx.conn, request, tx.now_ms)) is not None:
        return before
    after = kept(tx.conn).newest
    started = draft.payload
    assert isinstance(started, WorkflowStarted), started
    draft, begins = _in_its_space(tx.conn, draft, started, continues=continues)
    appended = append(tx, draft)
    for (agent,) in tx.conn.execute(HELD_MEMBERS, (draft.space,)).fetchall():
        release_agent(tx, AgentKey(str(agent)))
    record = workflows.by_space(tx.conn, draft.space)
    assert record is not None, draft.space
    members = agents.members(tx.conn, record.space)
    if begins and started.mirror is not None:
        mark_redo(tx, record.space)  # its files hold what was said in earlier runs
    if trees is not None:
        plan_worktrees(tx, record.id, record.space, trees, {member.name: member.key for member in members})
    begun = Begun(
        run=record.id,
        name=record.name,
        tag=record.tag,
        space=record.space,
        mode=record.mode,
        members=tuple(member.name for member in members),
        started_ms=record.started_ms,
        after=after,
        message_id=appended.message_id,
    )
    if request is not None:
        remember(tx, request, _encode(begun), status=201)
    return begun


def _in_its_space(
    conn: apsw.Connection, draft: Draft, started: WorkflowStarted, *, continues: bool
) -> tuple[Draft, bool]:
    """``draft`` said in the space of the run that it starts, to members that live there; and whether that is new.

    Where one runs already it is said there, and refused by the rule.
    """
    before = workflows.newest_at(conn, draft.space)
    goes_on = before is not None and (
        before.state == "running" or continues or (started.bound and workflows.bound(conn, before.id))
    )
    space = before.space if before is not None and goes_on else run_space(draft.space, workflows.next_run(conn))
    members = tuple(_living_in(member, space) for member in started.members)
    said_there = msgspec.structs.replace(draft, space=space, payload=msgspec.structs.replace(started, members=members))
    return said_there, not goes_on


def _living_in(member: MemberSpec, space: SpaceId) -> MemberSpec:
    if member.origin != "inline":
        return member
    return msgspec.structs.replace(member, key=inline_key(member.name, space))
