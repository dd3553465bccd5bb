"""Workflows whose words are kept only as long as they run."""

from pathlib import Path

from kernel.rule.draft import Draft, RunSpec
from kernel.services.retention import MEMORY_SPACE_KEPT_MS, MemorySpaceCleanup
from kernel.store import messages
from kernel.store.transitions.append import append
from kernel.store.transitions.runs import stop_workflow
from tests.kernel.store.house import House, open_house


async def start(house: House, workspace: str = "memory") -> None:
    payload = RunSpec(
        name="review", tag="main", mode="start", file="f", definition=b'{"name":"review","agents":{}}', members=(),
        kickoff="canary", workspace=workspace,  # type: ignore[arg-type]
    )  # fmt: skip
    draft = Draft(kind="status", space="review:main", sender="system", text="started", payload=payload)
    await house.writer.commit(append, draft)


def words(house: House) -> str:
    return "".join(said.text for said in house.reader.now(messages.channel, "review:main"))


def bytes_of(directory: Path) -> bytes:
    return b"".join(file.read_bytes() for file in directory.iterdir())


async def test_what_was_said_in_memory_goes_a_minute_after_the_end(tmp_path: Path) -> None:
    """Provider memory. The report of a run can still be read; one that runs again keeps all."""
    async with open_house(str(tmp_path / "kernel.db")) as house:
        cleanup = MemorySpaceCleanup(
            reader=house.reader, writer=house.writer, wake=house.feed.new_wake(), now_ms=house.clock
        )
        await start(house)
        assert await cleanup.run_once() == float("inf")
        await house.writer.commit(stop_workflow, "review:main", "cancelled", 130)
        assert await cleanup.run_once() == MEMORY_SPACE_KEPT_MS / 1000
        assert "canary" in words(house)
        await start(house)
        house.clock.now_ms += MEMORY_SPACE_KEPT_MS
        assert await cleanup.run_once() == float("inf")
        await house.writer.commit(stop_workflow, "review:main", "cancelled", 130)
        house.clock.now_ms += MEMORY_SPACE_KEPT_MS
        assert await cleanup.run_once() == float("inf")
        assert words(house) == ""
        assert b"canary" not in bytes_of(tmp_path)


async def test_what_is_kept_is_kept(tmp_path: Path) -> None:
    """The default."""
    async with open_house(str(tmp_path / "kernel.db")) as house:
        cleanup = MemorySpaceCleanup(
            reader=house.reader, writer=house.writer, wake=house.feed.new_wake(), now_ms=house.clock
        )
        await start(house, "kept")
        await house.writer.commit(stop_workflow, "review:main", "done", 0)
        house.clock.now_ms += 10 * MEMORY_SPACE_KEPT_MS
        assert await cleanup.run_once() == float("inf")
        assert "canary" in words(house)
