"""What needs a person in a world: one number, and the same that each instruction and each agent say of themselves."""

from typing import Final

import apsw
import msgspec
import trio

from kernel.policy.needs import count, needs
from kernel.store import agents, instructions
from kernel.store.needs import dead, snapshot
from kernel.store.rows import RowPage
from protocol.names import instruction_id
from tests.sim.witness import Witness

OPEN: Final = """
SELECT i.id, i.waits_for, i.wait_key, a.hold_key FROM instructions AS i JOIN agents AS a ON a.key = i.agent
WHERE i.state IN ('queued', 'leased', 'running', 'yielded', 'waiting') ORDER BY i.id
"""
FOR_PEOPLE: Final = frozenset({"approval", "credentials", "quota", "budget", "hops", "error"})
"""What stands still for one of these needs a person; a pause and a stop are what a person wanted."""


def judge_needs(conn: apsw.Connection, now_ms: int, witness: Witness) -> None:
    """Blame every instruction and agent that needs a person and is in no need, and every need of something else."""
    at = trio.current_time()
    state = snapshot(conn, now_ms)
    given_up = needs(msgspec.structs.replace(state, dead=dead(conn, RowPage())))
    if count(state) != len(given_up):
        witness.blame(at, "P34", f"{count(state)} needs are counted and {len(given_up)} listed")
    rows = {instruction_id(int(str(row[0]))): row for row in conn.execute(OPEN)}
    standing = instructions.of(conn, rows, now_ms)
    told = {name for need in given_up if need.kind not in ("vote", "agent_error") for name in need.blocks}
    in_error = {name for need in given_up if need.kind == "agent_error" for name in need.blocks}
    for name, row in rows.items():
        _, waits_for, wait_key, hold_key = row
        stands = standing[name]
        if waits_for == "answer" or {wait_key, hold_key} & state.probed:
            continue  # it stands as whom it asked does; or somebody tries right now
        waits = stands.kind == "person" and stands.reason in FOR_PEOPLE
        if waits and name not in told | in_error:
            witness.blame(at, "P34", f"{name} waits for a person ({stands.reason}) and no need says so")
        if name in told and not waits and waits_for != "approval" and name not in _asked(given_up):
            witness.blame(at, "P34", f"{name} is said to need a person, and stands {stands.kind} ({stands.reason})")
    shown = {str(one.key) for one in agents.ps(conn, now_ms) if one.shown.state == "error"}
    listed = {need.id for need in given_up if need.kind == "agent_error"}
    live = {str(one.key) for one in agents.ps(conn, now_ms) if one.instruction is not None}
    if shown - listed or listed - shown - live:
        witness.blame(at, "P34", f"in error are {sorted(shown)}, and {sorted(listed)} are said to be")


def _asked(found: "tuple[object, ...]") -> set[str]:
    return {name for need in found if getattr(need, "kind", "") == "approval" for name in getattr(need, "blocks", ())}
