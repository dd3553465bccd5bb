"""upgrade: it waits for how the kernel says that it ended, through the moment in which nobody answers."""

import fcntl

import msgspec
import pytest

from protocol.api.kernel import UpgradeReport
from protocol.discovery import LOCK
from tests.interface.conftest import Cli
from tests.interface.hostile import obeyed
from tests.interface.kernel_double import TOKEN, KernelDouble

BEGUN = UpgradeReport(id="u1", state="checking", before="1.0", to="/venv/bin/python")
DONE = UpgradeReport(
    id="u1", state="done", before="1.0", to="2.0\x1b[2J", pid=7, attempts=3, waited_seconds=0.421, reason=None
)
FAILED = UpgradeReport(id="u1", state="failed", before="1.0", to="2.0", pid=7, reason="it has no module\x1b[2J x")


@pytest.mark.parametrize("words", [[], ["--json"], ["--to", "next"], ["--to", "/venv"]], ids=str)
def test_an_upgrade_is_told_once_the_new_version_goes_on(words: list[str], cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /upgrade"] = BEGUN
    kernel.answers["GET /upgrade"] = DONE
    ran = cli("upgrade", *words)
    assert ran.code == 0
    (asked,) = kernel.of("POST", "/upgrade")
    expected = {"next": str(cli.root / "next"), "/venv": "/venv"}
    assert asked.body == ({"to": expected[words[1]]} if "--to" in words else {})
    if "--json" in words:
        assert (ran.json()["schema"], ran.json()["attempts"]) == ("awk/upgrade/1", 3)
    else:
        assert "3 attempts continued, longest wait: 0.42 s" in ran.out
        assert obeyed(ran.out) == []


@pytest.mark.promise("P93")
@pytest.mark.parametrize("words", [[], ["--json"]], ids=str)
def test_an_upgrade_that_fails_ends_with_1_and_the_reason(words: list[str], cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /upgrade"] = BEGUN
    kernel.answers["GET /upgrade"] = FAILED
    ran = cli("upgrade", *words)
    assert ran.code == 1
    if words:
        assert (ran.json()["state"], ran.json()["reason"]) == ("failed", FAILED.reason)
    else:
        assert ("it has no module" in ran.err, "the previous version continues" in ran.err) == (True, True)
        assert obeyed(ran.err) == []


def test_a_kernel_that_knows_nothing_of_it_was_started_anew(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /upgrade"] = BEGUN
    kernel.answers["GET /upgrade"] = msgspec.structs.replace(DONE, id="", state="none")
    ran = cli("upgrade")
    assert (ran.code, "restarted during the upgrade" in ran.err) == (1, True)


@pytest.mark.parametrize(
    ("next_token", "code", "said"), [("another", 1, "restarted during the upgrade"), (TOKEN, 69, "ended during")]
)
def test_a_kernel_that_is_killed_meanwhile_is_not_waited_for(
    next_token: str, code: int, said: str, cli: Cli, kernel: KernelDouble
) -> None:
    """Fault F7: `awk upgrade` waited for 240 s, also where the next kernel served: that proves another token."""

    def gone(asked: object) -> dict[str, str]:
        kernel.proves, kernel.token = False, next_token
        kernel.publish(cli.home, cli.root)
        raise ConnectionError

    kernel.answers["POST /upgrade"] = BEGUN
    kernel.answers["GET /upgrade"] = gone
    ran = cli("upgrade")
    assert (ran.code, said in ran.err, "kernel.log" in ran.err) == (code, True, True), ran
    assert len(cli.waited) < 3


def test_a_kernel_that_is_silent_for_a_moment_is_waited_for(cli: Cli, kernel: KernelDouble) -> None:
    record = kernel.publish(cli.home, cli.root)
    with (record.parent / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def silent(asked: object) -> UpgradeReport:
            kernel.answers["GET /upgrade"] = DONE
            raise ConnectionError

        kernel.answers["POST /upgrade"] = BEGUN
        kernel.answers["GET /upgrade"] = silent
        assert cli("upgrade").code == 0


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (UpgradeReport(id="", state="none", before="1.0", to=""), "version 1.0; it was not upgraded"),
        (BEGUN, "from 1.0 to /venv/bin/python: checking"),
        (DONE, "upgraded from 1.0"),
        (FAILED, "not upgraded from 1.0 to 2.0"),
    ],
)
def test_the_last_one_is_told_without_beginning_another(
    report: UpgradeReport, said: str, cli: Cli, kernel: KernelDouble
) -> None:
    kernel.answers["GET /upgrade"] = report
    ran = cli("upgrade", "--status")
    assert (ran.code, ran.out.startswith(said)) == (0, True)
    assert kernel.of("POST", "/upgrade") == []
