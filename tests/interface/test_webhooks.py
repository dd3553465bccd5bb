"""webhook list, retry: how the servers that are told what happens stand, and another try."""

from protocol.api.kernel import WebhookList, WebhookRow
from tests.interface.conftest import Cli
from tests.interface.kernel_double import KernelDouble

ROW = WebhookRow(id="w1a2b3c4d5e6f", host="https://ci.example", events=("*",), state="ended", waiting=3)


def test_webhooks_are_listed(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /webhooks"] = WebhookList(webhooks=(ROW,))
    assert cli("webhook", "list").out.splitlines()[1].split() == [ROW.id, "ended", "3", "https://ci.example", "*"]
    assert cli("webhook", "list", "--json").json()["webhooks"][0]["id"] == ROW.id
    kernel.answers["GET /webhooks"] = WebhookList(webhooks=())
    assert cli("webhook", "list").out == "no webhooks\n"


def test_one_is_tried_again(cli: Cli, kernel: KernelDouble) -> None:
    """With a key, so that a request that is repeated tries it once."""
    kernel.answers[f"POST /webhooks/{ROW.id}/retry"] = WebhookList(webhooks=(ROW,))
    assert ROW.id in cli("webhook", "retry", ROW.id).out
    (asked,) = kernel.of("POST", f"/webhooks/{ROW.id}/retry")
    assert asked.headers["idempotency-key"]
