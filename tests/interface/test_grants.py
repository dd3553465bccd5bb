"""grant list, give, revoke: what agents may do beyond their files."""

import msgspec

from protocol.api.approvals import GrantInfo, GrantList, GrantRow
from tests.interface.conftest import Cli
from tests.interface.kernel_double import KernelDouble, problem
from tests.interface.samples import AT

ROW = GrantRow(
    id="w1", scope="votes", request=None, to="bob", space="review:main", by="user", state="in force", uses=3, used=1,
    until=AT, given_at=AT, parent=None, warrant=None, revoked_at=None, revoked_by=None,
)  # fmt: skip
HANDED = msgspec.structs.replace(ROW, id="w2", by="bob", to="carol", uses=None, until=None, parent="w1", state="void")
ANSWER = msgspec.structs.replace(ROW, id="w3", scope=None, request="a4", by="alice", until=None, uses=1, state="used")
ONE = GrantInfo(**msgspec.structs.asdict(ROW))


def test_what_was_given_is_listed_with_whose_it_is_and_what_it_comes_to(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /grants"] = GrantList(grants=(ROW, HANDED, ANSWER), total=3)
    assert cli("grant", "list").out.splitlines() == [
        "ID  STATE     AGENT  SPACE        SCOPE       BY            UNTIL                     USED",
        f"w1  in force  bob    review:main  votes       user          {AT}  1 of 3",
        "w2  void      carol  review:main  votes       bob, from w1  -                         1",
        "w3  used      bob    review:main  request a4  alice         -                         1 of 1",
    ]
    cli("grant", "list", "@review")
    assert kernel.of("GET", "/grants")[-1].query["space"] == "review:main"
    assert cli("grant", "list", "--json").json()["schema"] == "awk/grants/1"
    kernel.answers["GET /grants"] = GrantList(grants=())
    assert cli("grant", "list").out == "no grants\n"


def test_a_scope_is_given_to_whom_it_is_for_within_its_bounds(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /spaces/review:main/grants"] = ONE
    said = cli("grant", "give", "votes", "--to", "bob@review", "--until", "2h", "--uses", "3").out
    assert said == f"w1: bob in review:main may use votes, until {AT}, 1 of 3 calls used (in force)\n"
    cli("grant", "give", "votes", "--to", "bob@review")
    bodies = [asked.body for asked in kernel.of("POST", "/spaces/review:main/grants")]
    assert bodies == [{"scope": "votes", "to": "bob", "until": "2h", "uses": 3}, {"scope": "votes", "to": "bob"}]


def test_one_is_taken_back_and_what_is_not_there_is_said(cli: Cli, kernel: KernelDouble) -> None:
    revoked = msgspec.structs.replace(ONE, state="revoked", until=None, uses=None)
    kernel.answers["DELETE /grants/w1"] = revoked
    assert cli("grant", "revoke", "w1").out == "w1: bob in review:main may use votes (revoked)\n"
    kernel.answers["DELETE /grants/w9"] = problem(404, "not_found", "there is no grant 'w9'")
    assert "there is no grant" in cli("grant", "revoke", "w9").err
