"""Workflows whose words are kept only as long as they run."""

from pathlib import Path

import trio

from kernel.rule.draft import Draft, RunSpec
from kernel.services.retention import MEMORY_SPACE_KEPT_MS, MemorySpaceCleanup
from kernel.store import messages
from kernel.store.transitions.append import append
from kernel.store.transitions.runs import stop_workflow
from tests.kernel.store.running_store import Store, open_store


async def start(store: Store, workspace: str = "memory") -> None:
    payload = RunSpec(
        name="review", tag="main", mode="start", file="f", definition=b'{"name":"review","agents":{}}', members=(),
        kickoff="canary", workspace=workspace,  # type: ignore[arg-type]
    )  # fmt: skip
    draft = Draft(kind="status", space="review:main", sender="system", text="started", payload=payload)
    await store.writer.commit(append, draft)


def words(store: Store) -> str:
    return "".join(said.text for said in store.reader.now(messages.channel, "review:main"))


def bytes_of(directory: Path) -> bytes:
    return b"".join(file.read_bytes() for file in directory.iterdir())


async def test_what_was_said_in_memory_goes_a_minute_after_the_end(tmp_path: Path) -> None:
    async with open_store(str(tmp_path / "kernel.db")) as store:
        cleanup = MemorySpaceCleanup(log=store.log, wake=store.feed.new_wake())
        await start(store)
        assert await cleanup.run_once() == float("inf")
        await store.writer.commit(stop_workflow, "review:main", "cancelled", 130)
        assert await cleanup.run_once() == MEMORY_SPACE_KEPT_MS / 1000
        assert "canary" in words(store)
        await start(store)
        store.clock.now_ms += MEMORY_SPACE_KEPT_MS
        assert await cleanup.run_once() == float("inf")
        await store.writer.commit(stop_workflow, "review:main", "cancelled", 130)
        store.clock.now_ms += MEMORY_SPACE_KEPT_MS
        assert await cleanup.run_once() == float("inf")
        assert words(store) == ""
        assert b"canary" not in bytes_of(tmp_path)


async def test_what_was_said_in_memory_goes_with_the_kernel_and_at_the_start_of_the_next(tmp_path: Path) -> None:
    """`run --rm` ends its kernel at once: nothing is left for a start that may never come."""
    async with open_store(str(tmp_path / "kernel.db")) as store:
        for _ in range(2):
            cleanup = MemorySpaceCleanup(log=store.log, wake=store.feed.new_wake())
            async with trio.open_nursery() as nursery:
                await nursery.start(cleanup.run)
                assert b"canary" not in bytes_of(tmp_path)
                await start(store)
                await store.writer.commit(stop_workflow, "review:main", "done", 0)
                assert "canary" in words(store)
                nursery.cancel_scope.cancel()
            assert b"canary" not in bytes_of(tmp_path)
            await start(store)  # as by a kernel that was killed then
            await store.writer.commit(stop_workflow, "review:main", "done", 0)


async def test_what_is_kept_is_kept(tmp_path: Path) -> None:
    async with open_store(str(tmp_path / "kernel.db")) as store:
        cleanup = MemorySpaceCleanup(log=store.log, wake=store.feed.new_wake())
        await start(store, "kept")
        await store.writer.commit(stop_workflow, "review:main", "done", 0)
        store.clock.now_ms += 10 * MEMORY_SPACE_KEPT_MS
        assert await cleanup.run_once() == float("inf")
        assert "canary" in words(store)
