"""space list, members, close: where some agents of a run work among themselves."""

from protocol.api.workflows import SpaceDocument, SpaceList, SpaceRow
from tests.interface.conftest import Cli
from tests.interface.kernel_double import KernelDouble

AT = "2026-11-22T12:00:00Z"
ROW = SpaceRow(
    name="design", space="review:main~design", run="r1", opener="lead", instruction="i3", state="open",
    members=("alice", "lead"), opened_at=AT, closed_at=None,
)  # fmt: skip
ONE = SpaceDocument(
    name="design", space="review:main~design", run="r1", opener="lead", instruction="i3", state="closed",
    members=("lead",), opened_at=AT, closed_at=AT,
)  # fmt: skip


def test_the_list_says_who_opened_what_in_which_work_and_with_whom(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /spaces"] = SpaceList(spaces=(ROW,), total=1)
    assert cli("space", "list").out.splitlines() == [
        "SPACE               STATE  RUN  OPENED BY   MEMBERS",
        "review:main~design  open   r1   lead in i3  alice, lead",
    ]
    assert cli("space", "list", "--json").json()["schema"] == "awk/spaces/1"
    cli("space", "list", "--run", "r1")
    assert kernel.of("GET", "/spaces")[-1].query["run"] == "r1"
    kernel.answers["GET /spaces"] = SpaceList(spaces=(), total=0)
    assert cli("space", "list").out == "no spaces\n"


def test_members_come_and_go_as_is_said(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /spaces/review:main~design/members"] = ONE
    said = cli("space", "members", "@review~design", "--add", "bob", "--remove", "alice", "--remove", "carol").out
    assert said == "review:main~design (closed): lead\n"
    (asked,) = kernel.of("POST", "/spaces/review:main~design/members")
    assert asked.body == {"add": ["bob"], "remove": ["alice", "carol"]}


def test_a_space_is_closed_by_its_name(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["DELETE /spaces/review:main~design"] = ONE
    assert cli("space", "close", "@review:main~design").out == "review:main~design (closed): lead\n"
