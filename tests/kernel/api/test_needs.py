"""GET /needs: what needs a person by the page, and the same number in ps and status."""

from kernel.operations.context import AttemptActivity
from kernel.services.worker_link import Elapsed
from kernel.store.transitions.close import close
from kernel.store.transitions.lease import lease
from tests.builders.api import ServedKernel
from tests.kernel.api.test_approvals import asked


async def numbers(kernel: ServedKernel) -> set[int]:
    """What each view says."""
    listed = await kernel.get("/needs")
    views = [(await kernel.get(path))["needs"] for path in ("/ps", "/status", "/status?agent=alice")]
    return {listed["total"], len(listed["items"]), *views}


async def failed(kernel: ServedKernel, count: int) -> None:
    """Instructions that failed for good."""
    for number in range(count):
        instruction = await kernel.send("alice", "x")
        assert await kernel.writer.commit(lease, instruction, b"%032d" % number)
        await kernel.writer.commit(close, instruction, 1, status="failed", text="\x1b[2Jno\nway", cause="invalid")


async def test_every_view_has_the_same_number(kernel: ServedKernel) -> None:
    assert await numbers(kernel) == {0}
    await kernel.attempt()
    await asked(kernel)
    assert await numbers(kernel) == {1}
    (item,) = (await kernel.get("/needs"))["items"]
    assert (item["kind"], item["id"], item["agent"], item["blocks"]) == ("approval", "a1", "alice", ["i1"])
    assert item["text"].startswith('alice wants to call bash: {"command":')
    assert [action["command"] for action in item["actions"]] == ["awk approve a1", "awk deny a1"]
    await kernel.ask("POST", "/approvals/a1/deny")
    assert await numbers(kernel) == {0}
    await kernel.end("i1")
    await failed(kernel, 3)
    assert await numbers(kernel) == {3}
    await kernel.ask("POST", "/dead/clear")
    assert await numbers(kernel) == {0}


async def test_a_list_that_is_too_long_is_given_by_the_page_and_nothing_is_left_out(kernel: ServedKernel) -> None:
    await failed(kernel, 5)
    await kernel.attempt()
    await asked(kernel)
    whole = (await kernel.get("/needs"))["items"]
    assert [item["kind"] for item in whole] == ["approval", *["dead"] * 5]
    assert whole[1]["text"] == "alice: i5 ended failed (invalid): \x1b[2Jno way"
    for limit in (1, 2, 4, 6, 1000):
        pages = [page async for page in kernel.pages(f"/needs?limit={limit}", "after")]
        assert all(page["total"] == 6 and len(page["items"]) <= limit for page in pages)
        assert [item for page in pages for item in page["items"]] == whole
    assert (await kernel.ask("GET", "/needs?after=x")).status == 400


async def test_a_silent_step_is_a_need_and_comes_before_agents_that_run(kernel: ServedKernel) -> None:
    sent = await kernel.ask("POST", "/messages", {"to": "alice", "text": "x"})
    (instruction,) = sent.json["instruction_ids"]
    leased = await kernel.services.store.writer.commit(lease, instruction, b"%032d" % 1)
    assert leased is not None
    for is_quiet in (False, True):
        elapsed = Elapsed(age_s=900.04, step_age_s=600, silent_s=400, is_quiet=is_quiet)
        kernel.live[leased.instruction] = AttemptActivity(pid=None, doing="bash", elapsed=elapsed, leased=leased)
        assert await numbers(kernel) == {int(is_quiet)}
    (need,) = (await kernel.ask("GET", "/needs")).json["items"]
    assert (need["kind"], need["id"], need["agent"], need["blocks"]) == ("silent", "i1", "alice", ["i1"])
    assert need["text"].startswith("alice has had no output since ") and need["text"].endswith(" during bash")
    assert [one["command"] for one in need["actions"]] == ["awk attach alice", "awk cancel i1", "awk restart alice"]
    row = (await kernel.ask("GET", "/ps")).json["agents"][0]
    assert (row["name"], row["age_s"], row["step_age_s"], row["silent_s"]) == ("alice", 900.0, 600, 400)
