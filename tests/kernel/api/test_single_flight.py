"""A workflow is started once for each Idempotency-Key, however long its setup takes."""

import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from tests.builders.api import ServedKernel
from tests.kernel.api.client import Events, connected
from tests.kernel.api.test_workflows import posting, stop

SLOW = """\
agents:
  alice: { ref: alice }
setup:
  - shell: echo ran >> ran.txt; echo up >begun; cat go >/dev/null
kickoff: '@alice go'
"""


@pytest.fixture
async def setup(kernel: ServedKernel) -> AsyncIterator[ServedKernel]:
    """A served kernel that can run commands."""
    async with trio.open_nursery() as nursery:
        await nursery.start(kernel.services.processes.launcher.run)
        yield kernel
        nursery.cancel_scope.cancel()


def write(kernel: ServedKernel, text: str = SLOW) -> Path:
    """The workflow ``slow``, whose setup tells that it runs and waits for ``go``. Returns the project."""
    root = kernel.root
    (root / ".workflows/slow.yaml").write_text(text)
    os.mkfifo(root / "begun")
    os.mkfifo(root / "go")
    return root


async def begun(root: Path) -> None:
    with trio.fail_after(10):
        await trio.to_thread.run_sync((root / "begun").read_text, abandon_on_cancel=True)


async def go(root: Path) -> None:
    with trio.fail_after(10):
        await trio.to_thread.run_sync((root / "go").write_text, "go", abandon_on_cancel=True)


async def test_a_repeat_waits_for_the_start_that_is_under_way_and_gets_its_answer(setup: ServedKernel) -> None:
    root = write(setup)
    headers = setup.headers(Idempotency_Key="k")
    answers = []

    async def ask(body: dict[str, object]) -> None:
        answers.append(await setup.ask("POST", "/workflows", body, headers=headers))

    same: dict[str, object] = {"workflow": "slow", "trust": True}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, same)
        await begun(root)
        other = await setup.ask("POST", "/workflows", {**same, "tag": "x"}, headers=headers)
        assert other.refusal == (422, "key_reused")
        nursery.start_soon(ask, same)
        await go(root)
    await ask(same)
    await stop(setup, "slow:main#1")
    await ask(same)
    assert [answer.status for answer in answers] == [201] * 4
    assert len({answer.body for answer in answers}) == 1
    assert (root / "ran.txt").read_text() == "ran\n"
    other = await setup.ask("POST", "/workflows", {**same, "tag": "x"}, headers=headers)
    assert other.refusal == (422, "key_reused")


async def test_a_failed_start_is_told_to_all_who_wait_and_forgotten(setup: ServedKernel) -> None:
    root = write(setup, SLOW.replace("/dev/null\n", "/dev/null; test -e fine\n"))
    headers = setup.headers(Idempotency_Key="k")
    codes = []

    async def ask() -> None:
        answer = await setup.ask("POST", "/workflows", {"workflow": "slow", "trust": True}, headers=headers)
        codes.append(answer.code if answer.status >= 400 else "started")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await begun(root)
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked(0.05)
        await go(root)
    assert codes == ["setup_failed"] * 2
    (root / "fine").touch()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await begun(root)
        await go(root)
    assert codes[2] == "started"


async def test_a_repeat_takes_over_when_the_first_client_leaves_during_setup(setup: ServedKernel) -> None:
    root = write(setup)
    body = msgspec.json.encode({"workflow": "slow", "trust": True})
    headers = setup.headers(Idempotency_Key="k", Content_Type="application/json", Content_Length=str(len(body)))
    async with connected(setup.port) as wire:
        await wire.send("POST", "/run", headers.items(), body)
        await begun(root)
    with trio.fail_after(10):
        async with connected(setup.port) as wire:
            await wire.send("POST", "/run", headers.items(), body)
            await begun(root)
            await go(root)
            await wire.event()
            assert (await anext(Events(wire))).event == "accepted"
    assert [row["run"] for row in (await setup.get("/workflows"))["workflows"]] == ["slow:main"]


async def test_a_repeated_run_is_the_same_run(kernel: ServedKernel) -> None:
    run = partial(posting, kernel, "/run", {"workflow": "task"}, Idempotency_Key="k")
    seen: list[list[str]] = []
    for _ in range(2):
        with trio.fail_after(10):
            async with run() as events:
                seen.append([(await anext(events)).event for _ in range(3)])
    assert seen[0] == seen[1]
    assert seen[0][0] == "accepted"
    assert len((await kernel.get("/runs"))["runs"]) == 1
    await stop(kernel, "task:main#1")
    again = await kernel.ask("POST", "/serve", {"workflow": "task"}, headers=kernel.headers(Idempotency_Key="k"))
    assert again.refusal == (422, "key_reused")
    with trio.fail_after(10):
        async with run() as events:
            assert [(await anext(events)).event for _ in range(2)] == ["accepted", "result"]
    assert len((await kernel.get("/runs"))["runs"]) == 1


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"workflow": "task", "max_tokens": 0}, "bad_request"),
        ({"workflow": "task", "max_cost_usd": -1}, "bad_request"),
        ({"workflow": "task", "max_cost_usd": "cheap"}, "bad_request"),
        ({"to": "alice", "text": "x", "max_tokens": 5}, "bad_request"),
    ],
)
async def test_a_limit_that_is_none_is_refused(kernel: ServedKernel, body: dict[str, object], code: str) -> None:
    answer = await kernel.ask("POST", "/run", body)
    assert answer.refusal == (400, code)
