"""GET /usage: what the work of each agent took."""

import pytest

from kernel.store import spending
from kernel.store.spending import Period
from kernel.store.transaction import Transaction
from kernel.store.transitions.close import close
from kernel.store.transitions.journal import journal
from protocol.instruction import Usage
from protocol.ipc import Entry
from tests.builders.api import ServedKernel


async def test_each_agent_has_what_its_work_took(kernel: ServedKernel) -> None:
    """contracts 4: tokens, money as far as it is known, how much was asked and how much failed."""
    instruction = await kernel.attempt()
    await kernel.ask("POST", "/messages", {"to": "alice", "text": "more"})
    spent = Usage(input_tokens=10, output_tokens=2, cost_usd=0.5)
    commit = kernel.writer.commit
    await commit(journal, instruction, 1, Entry(k=0, kind="reply", usage=spent))
    await commit(close, instruction, 1, status="failed", text="", cause="invalid")
    answered = await kernel.get("/usage")
    assert answered["schema"] == "awk/stats/1"
    (alice,) = answered["rows"]
    assert alice == {
        "key": "alice",
        "usage": {
            "input_tokens": 10,
            "output_tokens": 2,
            "cache_read_tokens": 0,
            "cache_write_tokens": 0,
            "cost_usd": 0.5,
        },
        "instructions": 2,
        "failures": 1,
        "ended": {"cancelled": 0, "dead": 0, "done": 0, "failed": 1, "incomplete": 0},
        "steps": 1,
        "worked_seconds": 0.0,
        "unpriced": 0,
    }
    assert answered["total"] == alice | {"key": ""}
    assert (await kernel.get("/usage?space=dm:alice"))["rows"] == answered["rows"]
    assert (await kernel.get("/usage?agent=alice"))["rows"] == answered["rows"]


@pytest.mark.parametrize(
    ("query", "code"), [("space=review:main", "workflow_not_running"), ("agent=olga", "unknown_agent")]
)
async def test_work_of_nobody_is_an_error(query: str, code: str, kernel: ServedKernel) -> None:
    """contracts 7: exit 5 for a target that is not there, not an empty table."""
    answered = await kernel.ask("GET", f"/usage?{query}")
    assert answered.refusal == (404, code)


async def test_work_over_a_time_is_parted_by_what_is_asked(kernel: ServedKernel) -> None:
    """contracts 4: by agent, model, workflow or day, or two; the share that was done, retries, what a merge cost."""
    commit, reader = kernel.writer.commit, kernel.reader
    for status in ("done", "failed"):
        instruction = await kernel.attempt(token=status)
        spent = Usage(input_tokens=10, output_tokens=2, cost_usd=0.5)
        await commit(journal, instruction, 1, Entry(k=0, kind="reply", usage=spent))
        await commit(close, instruction, 1, status=status, text="")
    (*days, total) = (await kernel.get("/usage?by=day,agent"))["groups"]
    assert [one["key"] for one in days] == [{"day": "2023-11-14", "agent": "alice"}]
    assert (total["key"], total["success"], total["ended"]["failed"], total["usage"]["cost_usd"]) == ({}, 0.5, 1, 1.0)
    assert (total["merges"], days[0]["merges"], days[0]["retries"]) == (0, None, 0)
    (only,) = (await kernel.get("/usage?since=1700000000001"))["groups"]
    assert (only["instructions"], only["success"]) == (0, None)
    assert (await kernel.get("/usage?until=1700000000000"))["total"]["instructions"] == 0
    for wrong in ("by=day,day", "by=week", "by=day,agent,model", "since=x"):
        assert (await kernel.ask("GET", f"/usage?{wrong}")).status == 400
    assert "rows" in await kernel.get("/usage?by=")

    def land(tx: Transaction) -> None:
        """Two landings of one run, whose work cost 1 in all."""
        tx.conn.execute("UPDATE instructions SET run = 3, space = 'review:main#3'")
        for _ in range(2):
            tx.conn.execute(
                "INSERT INTO landings (run, space, repository, state, branch, terms, delivers, after, requested_ms,"
                " ended_ms) VALUES (3, 'review:main#3', 'r', 'merged', 'b', x'7b7d', 0, 0, 1, ?)",
                (tx.now_ms,),
            )

    await commit(land)
    report = await reader.read(spending.over_time, Period(("workflow",), 0, 2**53))
    assert [(one.key, one.merges, one.cost_per_merge) for one in report] == [
        ({"workflow": "review:main"}, 2, 0.5),
        ({}, 2, 0.5),
    ]
