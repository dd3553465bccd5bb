"""GET /usage: what the work of each agent took."""

import pytest

from kernel.store.transitions.close import close
from kernel.store.transitions.journal import journal
from protocol.instruction import Usage
from protocol.ipc import Entry
from tests.builders.api import ServedKernel


async def test_each_agent_has_what_its_work_took(kernel: ServedKernel) -> None:
    """Contracts section 4: tokens, money as far as it is known, how much was asked and how much failed."""
    instruction = await kernel.attempt()
    await kernel.ask("POST", "/messages", {"to": "alice", "text": "more"})
    spent = Usage(input_tokens=10, output_tokens=2, cost_usd=0.5)
    commit = kernel.services.store.writer.commit
    await commit(journal, instruction, 1, Entry(k=0, kind="reply", usage=spent))
    await commit(close, instruction, 1, status="failed", text="", cause="invalid")
    answered = (await kernel.ask("GET", "/usage")).json
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
    assert (await kernel.ask("GET", "/usage?space=dm:alice")).json["rows"] == answered["rows"]
    assert (await kernel.ask("GET", "/usage?agent=alice")).json["rows"] == answered["rows"]


@pytest.mark.parametrize(
    ("query", "code"), [("space=review:main", "workflow_not_running"), ("agent=olga", "unknown_agent")]
)
async def test_work_of_nobody_is_an_error(query: str, code: str, kernel: ServedKernel) -> None:
    """contracts 7: exit 5 for a target that is not there, not an empty table."""
    answered = await kernel.ask("GET", f"/usage?{query}")
    assert (answered.status, answered.json["code"]) == (404, code)
