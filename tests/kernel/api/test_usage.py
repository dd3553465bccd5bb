"""GET /usage: what the work of each agent took."""

from kernel.store.commits.close import close
from kernel.store.commits.journal import journal
from protocol.instruction import Usage
from protocol.ipc import Entry
from tests.kernel.api.house import House


async def test_each_agent_has_what_its_work_took(kernel: House) -> None:
    """Contracts section 4: tokens, money as far as it is known, how much was asked and how much failed."""
    instruction = await kernel.attempt()
    await kernel.ask("POST", "/messages", {"to": "alice", "text": "more"})
    spent = Usage(input_tokens=10, output_tokens=2, cost_usd=0.5)
    commit = kernel.services.writer.commit
    await commit(journal, instruction, 1, Entry(k=0, kind="reply", usage=spent))
    await commit(close, instruction, 1, status="failed", text="", cause="invalid")
    answered = (await kernel.ask("GET", "/usage")).json
    assert answered["schema"] == "awk/stats/1"
    (alice,) = answered["rows"]
    assert alice == {
        "key": "alice",
        "usage": {"input_tokens": 10, "output_tokens": 2, "cache_read_tokens": 0, "cost_usd": 0.5},
        "instructions": 2,
        "failures": 1,
    }
    assert (await kernel.ask("GET", "/usage?space=dm:alice")).json["rows"] == answered["rows"]
    assert (await kernel.ask("GET", "/usage?space=review:main")).json["rows"] == []
