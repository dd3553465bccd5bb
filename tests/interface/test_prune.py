"""prune: what goes is told and asked for before it does; what stays is told with its reason."""

import pytest

from interface.cli.commands.state import GROUPS
from protocol.api.kernel import PrunedRow, PruneKept, PruneReport
from tests.interface.conftest import Cli
from tests.interface.hostile import obeyed
from tests.interface.kernel_double import KernelDouble

DONE = PruneReport(
    dry_run=False,
    removed=(PrunedRow(group="aside", what="state set aside \x1b[2J", why="a restore put another there", bytes=2048),),
    kept=(PruneKept(group="trees", what="awk/r1/bob of r1", bytes=10, kept_because="2 commits are not merged"),),
    total_bytes=2048,
)
NOTHING = PruneReport(dry_run=True, removed=(), kept=DONE.kept, total_bytes=0)


def _bodies(kernel: KernelDouble) -> list[object]:
    return [one.body for one in kernel.of("POST", "/prune")]


@pytest.mark.parametrize("words", [["--yes"], ["--yes", "--json"], ["--yes", "logs", "aside"]], ids=str)
def test_what_is_pruned_is_told(words: list[str], cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /prune"] = DONE
    ran = cli("prune", *words)
    assert ran.code == 0
    assert _bodies(kernel) == [{"what": [word for word in words if word in GROUPS]}]
    if "--json" in words:
        assert (ran.json()["schema"], ran.json()["total_bytes"]) == ("awk/prune/1", 2048)
    else:
        assert all(one in ran.out for one in ("goes", "2.0 KiB", "stays", "2 commits are not merged", "1 removed"))
        assert obeyed(ran.out) == []


def test_a_dry_run_asks_nobody_and_removes_nothing(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /prune"] = NOTHING
    ran = cli("prune", "--dry-run", "trees")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "nothing to remove")
    assert _bodies(kernel) == [{"what": ["trees"], "dry_run": True}]


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("\n", 1), ("", 1)])
def test_a_person_sees_it_and_is_asked_first(answer: str, code: int, cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /prune"] = DONE
    ran = cli("prune", terminal=True, stdin=answer)
    assert (ran.code, "state set aside" in ran.err) == (code, True)
    assert _bodies(kernel) == [{"what": [], "dry_run": True}, {"what": []}][: 2 - code]


def test_where_there_is_nothing_nobody_is_asked(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /prune"] = NOTHING
    assert cli("prune", terminal=True, stdin="").code == 0
    assert _bodies(kernel) == [{"what": [], "dry_run": True}]


@pytest.mark.parametrize(("words", "says"), [([], "--yes"), (["--json"], "--yes"), (["--yes", "cellar"], "one of")])
def test_what_is_not_meant_removes_nothing(words: list[str], says: str, cli: Cli, kernel: KernelDouble) -> None:
    """A script that says no --yes, or names what is no group, ends with 2."""
    ran = cli("prune", *words)
    assert (ran.code, says in ran.err + ran.out) == (2, True)
    assert kernel.asked == []
