"""Proposals over HTTP: a person creates one, votes, cancels it; members vote by their tools."""

from typing import Any

import pytest

from tests.builders.api import SALT, ServedKernel
from tests.kernel.api.client import Answer

HERE = "/spaces/review:main/proposals"


async def put(kernel: ServedKernel, **more: Any) -> dict[str, Any]:
    if not (await kernel.get("/workflows"))["workflows"]:
        await kernel.ask("POST", "/workflows", {"workflow": "review"})
    answer = await kernel.ask("POST", HERE, {"type": "approval", "title": "Ship it?", "id": "release", **more})
    assert answer.status == 201, answer.body
    made: dict[str, Any] = answer.json
    return made


async def cast(kernel: ServedKernel, choice: str, proposal: str = "release", **more: Any) -> Answer:
    return await kernel.ask("POST", f"{HERE}/{proposal}/vote", {"choice": choice, **more})


async def test_what_a_person_puts_to_the_vote_is_shown_and_wakes_its_electors(kernel: ServedKernel) -> None:
    """contracts 4: the electors are the members; the quorum is all of them, the user not among them."""
    made = await put(kernel, description="It is Friday.", timeout_seconds=120)
    assert next(iter(made)) == "schema"
    assert {key: made[key] for key in ("id", "creator", "electors", "missing", "state", "winner", "binding")} == {
        "id": "release", "creator": "user", "electors": ["alice", "bob"], "missing": ["alice", "bob"],
        "state": "open", "winner": None, "binding": False,
    }  # fmt: skip
    assert (made["created_at"], made["expires_at"]) == ("2023-11-14T22:13:20.000Z", "2023-11-14T22:15:20.000Z")
    assert await kernel.get(f"{HERE}/release") == made
    row = {key: value for key, value in made.items() if key != "schema"}
    for path in (HERE, "/proposals", "/proposals?state=open"):
        assert (await kernel.get(path))["proposals"] == [row]
    waiting = (await kernel.get("/instructions?space=review:main"))["instructions"]
    assert [one["agent"] for one in waiting] == ["alice", "bob"]


@pytest.mark.promise("P2", "HF28")
async def test_a_repeated_vote_with_its_key_is_the_same_answer(kernel: ServedKernel) -> None:
    await put(kernel)
    headers = kernel.headers() | {"Idempotency-Key": "k"}
    answers = [await kernel.ask("POST", f"{HERE}/release/vote", {"choice": "no"}, headers=headers) for _ in range(2)]
    assert answers[0].body == answers[1].body
    reused = await kernel.ask("POST", f"{HERE}/release/vote", {"choice": "yes"}, headers=headers)
    assert reused.refusal == (422, "key_reused")


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        (HERE, {"type": "approval", "title": "again", "id": "release"}, 409, "already_exists"),
        (HERE, {"type": "approval", "title": ""}, 400, "bad_request"),
        (HERE, {"type": "approval", "title": "x", "timeout_seconds": 0.5}, 400, "bad_request"),
        (HERE, {"type": "approval", "title": "x", "binding": True}, 400, "bad_request"),
        (HERE, {"type": "election", "title": "x", "binding": True, "binds": {"suggestion": "s1"}}, 400, "bad_request"),
        (HERE, {"type": "approval", "title": "x", "resolution": {"quorum": 3}}, 400, "bad_request"),
        (HERE, {"type": "poll", "title": "x"}, 400, "bad_request"),
        (HERE, {"type": "decision", "title": "x", "options": [{"id": "a\n"}, {"id": "b"}]}, 400, "bad_request"),
        (HERE, {"type": "approval", "title": "x", "quorum": 1}, 400, "bad_request"),
        (f"{HERE}/release/vote", {"choice": "maybe"}, 400, "bad_request"),
        (f"{HERE}/release/vote", {}, 400, "bad_request"),
        (f"{HERE}/relaese/vote", {"choice": "yes"}, 404, "not_found"),
        (f"{HERE}/relaese/cancel", {}, 404, "not_found"),
        ("/spaces/nowhere:main/proposals", {"type": "approval", "title": "x"}, 404, "workflow_not_running"),
        ("/spaces/dm:alice/proposals", {"type": "approval", "title": "x"}, 404, "not_a_participant"),
    ],
)
async def test_what_cannot_be_is_refused(
    path: str, body: dict[str, Any], status: int, code: str, kernel: ServedKernel
) -> None:
    """contracts 4: a stable code, and nothing is changed."""
    await put(kernel)
    answer = await kernel.ask("POST", path, body)
    assert answer.refusal == (status, code)
    (row,) = (await kernel.get(HERE))["proposals"]
    assert (row["state"], row["votes"]) == ("open", [])


async def test_lots_are_drawn_from_what_nobody_can_guess(kernel: ServedKernel) -> None:
    made = await put(kernel)
    salts = kernel.reader.now(lambda conn: list(conn.execute("SELECT salt FROM ballots")))
    assert (salts, SALT in str(made)) == ([(SALT,)], False)


async def test_a_slip_is_recognised_and_states_are_checked(kernel: ServedKernel) -> None:
    """contracts 7: did you mean."""
    await put(kernel)
    slip = await kernel.ask("GET", f"{HERE}/relaese")
    assert (slip.status, slip.json["hint"]) == (404, "did you mean release?")
    assert (await kernel.get("/proposals?state=ended"))["code"] == "bad_request"


@pytest.mark.promise("XF18", "XF19")
@pytest.mark.parametrize("path", ["/release/vote", "/release/cancel", ""])
async def test_what_agents_start_cannot_vote_as_the_user(path: str, kernel: ServedKernel) -> None:
    await put(kernel)
    body = {"choice": "yes"} if path.endswith("vote") else {"type": "approval", "title": "x"} if not path else {}
    await kernel.attempt()
    with_its_own = await kernel.ask("POST", HERE + path, body, headers=kernel.headers("worker-token"))
    kernel.below.append(True)
    with_ours = await kernel.ask("POST", HERE + path, body)
    assert [(one.status, one.json["code"]) for one in (with_its_own, with_ours)] == [(403, "forbidden")] * 2
    (row,) = (await kernel.get(HERE))["proposals"]
    assert (row["state"], row["votes"]) == ("open", [])
