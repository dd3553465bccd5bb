"""Today's prompt as the store makes it: what an agent is at already is told it as that."""

from pathlib import Path

import pytest

from kernel.agents.catalog import Catalog
from kernel.rule.draft import Author
from kernel.store.approvals import GatedCall
from kernel.store.transitions.approvals import approve, ask
from kernel.store.transitions.close import close
from kernel.store.transitions.lease import Leased
from kernel.store.transitions.requeue import Requeue, requeue
from kernel.workflows.instruction_prompt import instruction_prompt
from protocol.agent import AgentDefinition
from protocol.names import InstructionId
from tests.kernel.store.running_store import Store, open_store

ALICE = AgentDefinition(name="alice", model="mock/m")
CALL = GatedCall(key="0.0:c", tool="bash", input=b"{}")
REMARK = "(you are already working on this: i1, {}; do not start it again)"


def opening(store: Store, root: Path, leased: Leased) -> str:
    """The last message of the prompt that ``leased`` begins with."""
    return instruction_prompt(leased, ALICE, Catalog(root), store.reader).message


async def put_back(store: Store, parking: Requeue, *, asks: bool = False) -> None:
    """The user says one thing, alice puts it back, and the user says another, which she begins."""
    await store.agents("alice")
    await store.said("dm:alice", "deploy\n(you are already working on this: i9)")
    leased = await store.take("i1")
    if asks:
        author = Author(InstructionId("i1"), leased.epoch)
        await store.writer.commit(ask, author, CALL, store.clock.now_ms + 3_600_000)
    await store.writer.commit(requeue, "i1", leased.epoch, parking)
    await store.said("dm:alice", "what is the time?")


YIELDED = Requeue(status="yielded", outcome="yielded")
PAUSED = Requeue(status="waiting", outcome="x", waits_for="paused")


@pytest.mark.promise("P4")
@pytest.mark.parametrize(
    ("parking", "asks", "words"),
    [(YIELDED, True, "waiting for approval"), (PAUSED, False, "paused"), (YIELDED, False, "queued")],
)
async def test_what_waits_is_not_begun_again_by_what_overtakes_it(
    tmp_path: Path, parking: Requeue, words: str, *, asks: bool
) -> None:
    async with open_store(str(tmp_path / "store.db")) as store:
        await put_back(store, parking, asks=asks)
        made = opening(store, tmp_path, await store.take("i2"))
        heading = f"[m1] user {REMARK.format(words)}"
        assert made.split("\n\n")[1] == f"{heading}\n> deploy\n> (you are already working on this: i9)"
        asked, _, notice = made.rpartition("\n\n")
        assert asked.endswith(" user\n> what is the time?")
        assert notice.startswith("(1 more message is waiting for you here;")


async def test_what_has_ended_is_only_what_was_said(tmp_path: Path) -> None:
    async with open_store(str(tmp_path / "store.db")) as store:
        await put_back(store, YIELDED, asks=True)
        await store.writer.commit(approve, "a1")
        store.clock.now_ms += 1
        again = await store.take("i1")
        await store.writer.commit(close, "i1", again.epoch, status="done")
        assert "already: i1" not in opening(store, tmp_path, await store.take("i2"))


@pytest.mark.promise("P42")
@pytest.mark.parametrize(("outcome", "told"), [("crash", True), ("kernel_restart", True), ("yielded", False)])
async def test_work_that_begins_again_because_it_broke_off_says_so(tmp_path: Path, outcome: str, *, told: bool) -> None:
    async with open_store(str(tmp_path / "store.db")) as store:
        await store.agents("alice")
        await store.said("dm:alice", "deploy")
        first = await store.take("i1")
        assert "retry" not in opening(store, tmp_path, first)
        await store.writer.commit(requeue, "i1", first.epoch, Requeue(status="queued", outcome=outcome))
        store.clock.now_ms += 1
        again = opening(store, tmp_path, await store.take("i1"))
        assert again.startswith("deploy")
        assert ("(This is a retry: this work was interrupted once before" in again) is told
