"""Webhooks out over REST: how they stand, those that need a person, and another try."""

from pathlib import Path

import pytest
from msgspec.structs import force_setattr, replace

from kernel.agents.sections import outgoing_unit
from kernel.policy.webhooks import LASTING_TRIES, PAUSES_SECONDS, DeliveryVerdict
from kernel.store import webhooks
from kernel.store.webhooks import DeliveryOutcome
from protocol.names import webhook_id
from tests.builders.api import ServedKernel

pytestmark = pytest.mark.promise("P60")

FILE = """\
webhooks:
  - { url: 'https://one.example/secret-path', events: ['*'], secret: $S }
  - { url: 'https://two.example/', events: [instruction.ended], secret: $S }
  - { url: 'https://new.example/', events: [instruction.ended], secret: $S }
"""


async def digests(kernel: ServedKernel) -> list[str]:
    """Of the webhooks in the file; the store knows the first two."""
    force_setattr(kernel.services.files, "environ", {"S": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"})
    catalog = kernel.services.files.catalog
    root = Path(kernel.services.kernel.identity.project)
    (root / "moniro.yaml").write_text(FILE)
    found = [outgoing_unit(hook).digest for hook in catalog.project().webhooks]
    await kernel.writer.commit(webhooks.keep, found[:2])
    return found


async def fail(kernel: ServedKernel, digest: str, tries: int, verdict: DeliveryVerdict) -> None:
    """Have a delivery fail, which had failed so often before."""
    outcome = DeliveryOutcome(1, tries, verdict, "status 500")
    await kernel.writer.commit(webhooks.settle, digest, "https://one.example", [outcome], 1)


async def standing(kernel: ServedKernel) -> list[tuple[str, int]]:
    """State of each, and what waits."""
    listed = (await kernel.get("/webhooks"))["webhooks"]
    return [(row["state"], row["waiting"]) for row in listed]


async def test_webhooks_are_listed_as_they_stand(kernel: ServedKernel) -> None:
    found = await digests(kernel)
    await fail(kernel, found[0], 0, DeliveryVerdict("again", 5))
    listed = (await kernel.get("/webhooks"))["webhooks"]
    assert [(row["host"], row["state"], row["waiting"]) for row in listed] == [
        ("https://one.example", "told", 1), ("https://two.example", "told", 0), ("https://new.example", "unused", 0),
    ]  # fmt: skip
    assert [row["id"] for row in listed] == [webhook_id(digest) for digest in found]
    assert "secret-path" not in str(listed)
    assert (await kernel.get("/needs"))["total"] == 0


async def test_in_safe_mode_none_is_listed_as_told(kernel: ServedKernel) -> None:
    await digests(kernel)
    state = replace(kernel.services.kernel.state, safe_mode=lambda: True)
    force_setattr(kernel.services.kernel, "state", state)
    assert [row["state"] for row in (await kernel.get("/webhooks"))["webhooks"]] == [
        "held", "held", "unused",
    ]  # fmt: skip


async def test_one_that_ended_needs_a_person_and_goes_on_when_it_is_tried_again(kernel: ServedKernel) -> None:
    """410: the need names the server, and its command settles it."""
    found = await digests(kernel)
    await fail(kernel, found[0], 0, DeliveryVerdict("disabled"))
    (need,) = (await kernel.get("/needs"))["items"]
    assert (need["kind"], need["id"]) == ("webhook", webhook_id(found[0]))
    assert need["text"].startswith("Webhook https://one.example returned 410 Gone")
    assert need["actions"][0]["command"] == f"awk webhook retry {need['id']}"
    assert (await kernel.get("/status"))["needs"] == (await kernel.get("/ps"))["needs"] == 1
    assert (await standing(kernel))[0] == ("ended", 0)
    after = await kernel.ask("POST", f"/webhooks/{need['id']}/retry")
    assert after.json["webhooks"][0]["state"] == "told"
    assert (await kernel.get("/needs"))["total"] == 0


async def test_one_that_fails_for_most_of_a_day_needs_a_person(kernel: ServedKernel) -> None:
    found = await digests(kernel)
    for tries in range(LASTING_TRIES):
        assert (await kernel.get("/needs"))["total"] == 0
        await fail(kernel, found[1], tries, DeliveryVerdict("again", PAUSES_SECONDS[tries]))
    (need,) = (await kernel.get("/needs"))["items"]
    assert "failed 8 times" in need["text"]
    assert (await standing(kernel))[1] == ("failing", 1)
    await kernel.ask("POST", f"/webhooks/{need['id']}/retry")
    assert (await standing(kernel))[1] == ("told", 1)
    store = kernel.services.store
    state = store.reader.now(webhooks.standing, found[1], store.now_ms())
    assert state is not None
    assert state.due == ((1, 0),), "at once, and as if for the first time"


async def test_what_cannot_be_tried_is_refused(kernel: ServedKernel) -> None:
    found = await digests(kernel)
    assert (await kernel.ask("POST", "/webhooks/w000000000000/retry")).code == "not_found"
    assert (await kernel.ask("POST", f"/webhooks/{webhook_id(found[2])}/retry")).code == "conflict"
    kernel.below.append(True)
    assert (await kernel.ask("POST", f"/webhooks/{webhook_id(found[0])}/retry")).code == "forbidden"


async def test_one_without_its_secret_is_unused_and_needs_a_restart_with_it(kernel: ServedKernel) -> None:
    await digests(kernel)
    force_setattr(kernel.services.files, "environ", {})
    rows = (await kernel.ask("GET", "/webhooks")).json["webhooks"]
    assert {row["state"] for row in rows} == {"unused"}
    needs = (await kernel.ask("GET", "/needs")).json["items"]
    assert [(need["kind"], need["id"]) for need in needs] == [("webhook", row["id"]) for row in rows[:2]]
    assert "is not in the environment of the kernel" in needs[0]["text"]
    assert needs[0]["actions"][0]["command"] == "awk restart --kernel"
