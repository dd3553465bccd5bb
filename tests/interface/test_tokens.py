"""token create, list, revoke: what goes into another program is printed alone, and nothing else is ever shown of it."""

import pytest

from protocol.api.tokens import TokenList, TokenMade, TokenRow
from tests.interface.conftest import Cli
from tests.interface.hostile import HOSTILE, obeyed
from tests.interface.kernel_double import KernelDouble
from tests.interface.samples import AT

WORDS = [word for word in HOSTILE if word != "\ud800"]  # no JSON has a lone surrogate
MADE = TokenMade(id="k1", token="awt_1_secret", scope="approve:alice", name="phone")
ROW = TokenRow(id="k1", name="phone", scope="approve:alice", created_at=AT)


@pytest.mark.promise("P57")
def test_a_token_is_printed_alone_when_it_is_made(cli: Cli, kernel: KernelDouble) -> None:
    """So that TOKEN=$(awk token create ...) has it; with --json its id is there to revoke it by."""
    kernel.answers["POST /tokens"] = MADE
    assert cli("token", "create", "--scope", "approve:alice", "--name", "phone").out == "awt_1_secret\n"
    shown = cli("token", "create", "--scope", "read", "--json").json()
    assert (shown["id"], shown["token"]) == ("k1", "awt_1_secret")
    assert [asked.body for asked in kernel.of("POST", "/tokens")] == [
        {"scope": "approve:alice", "name": "phone"}, {"scope": "read", "name": ""}
    ]  # fmt: skip


def test_tokens_are_listed_and_taken_back(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /tokens"] = TokenList(
        tokens=(ROW, *(TokenRow(id="k2", name=name, scope="read", created_at=AT) for name in WORDS))
    )
    kernel.answers["DELETE /tokens/k1"] = kernel.answers["DELETE /tokens/k2"] = TokenList(tokens=())
    listed = cli("token", "list")
    assert listed.out.splitlines()[1].split() == ["k1", "approve:alice", AT, "phone"]
    assert not obeyed(listed.out)
    assert [row["id"] for row in cli("token", "list", "--json").json()["tokens"]] == ["k1", *["k2"] * len(WORDS)]
    kernel.answers["GET /tokens"] = TokenList(tokens=())
    assert cli("token", "revoke", "k1", "k2").out == "no tokens\n"
    assert len(kernel.of("DELETE", "/tokens/k1")) == len(kernel.of("DELETE", "/tokens/k2")) == 1


def test_mcp_serve_needs_a_kernel(cli: Cli) -> None:
    """It starts none: contracts 7 names those that do."""
    ran = cli("mcp-serve")
    assert (ran.code, "hint: start it with: awk start" in ran.err) == (69, True)
