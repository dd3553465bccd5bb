"""watch: a run of somebody else's followed to its end, with its exit code if that was asked for, never ended by us."""

import signal
import subprocess
import threading
from collections.abc import Iterator

import msgspec
import pytest

from protocol.api.runs import RunReport
from tests.interface.conftest import AWK, Cli
from tests.interface.kernel_double import Asked, KernelDouble, Stream, in_turn, sse
from tests.interface.samples import event, message, message_event, report

SAID = sse("message", message_event(4, message(1, "@coder fix\nthis", "reviewer")), 4)
STOPPED = sse("workflow.stopped", event("workflow.stopped", 9, space="review:main"), 9)


def _at(status: str, code: int = 0) -> RunReport:
    return msgspec.structs.replace(report(), status=status, exit_code=code)


def _ends_in(kernel: KernelDouble, code: int) -> None:
    kernel.answers["GET /runs/r12"] = in_turn(*[_at("running")] * 2, _at("failed" if code else "done", code))
    kernel.answers["GET /events"] = Stream([SAID, STOPPED])


@pytest.mark.parametrize(("words", "code"), [([], 0), (["--exit-status"], 8)])
def test_a_run_is_followed_to_its_end(words: list[str], code: int, cli: Cli, kernel: KernelDouble) -> None:
    """What is said is the output, the report is said at the end; the exit code is the run's only where it is wanted."""
    _ends_in(kernel, 8)
    ran = cli("watch", "r12", *words)
    assert (ran.code, ran.out) == (code, "reviewer: @coder fix\n  this\n")
    assert "r12 review:main failed" in ran.err
    assert {asked.method for asked in kernel.asked} == {"GET"}, "nothing is started or ended"


def test_the_newest_run_of_a_workflow_is_watched_by_its_id(cli: Cli, kernel: KernelDouble) -> None:
    """@review is r12 now; of one that has ended the report comes at once."""
    kernel.answers |= {"GET /runs/review:main": _at("done"), "GET /runs/r12": _at("done", 6), "GET /events": Stream([])}
    ran = cli("watch", "@review", "--exit-status", "--json")
    assert (ran.code, ran.json()["id"]) == (6, "r12")


def test_a_lost_kernel_is_found_again_and_none_is_started(cli: Cli, kernel: KernelDouble) -> None:
    _ends_in(kernel, 1)
    kernel.answers["GET /events"] = in_turn(Stream([SAID], cut=True), Stream([STOPPED]))
    kernel.answers["GET /runs/r12"] = in_turn(*[_at("running")] * 3, _at("failed", 1))
    assert cli("watch", "r12", "--exit-status").code == 1
    assert [asked.headers.get("last-event-id") for asked in kernel.of("GET", "/events")] == [None, "4"]


def test_ctrl_c_ends_only_the_watching(cli: Cli, kernel: KernelDouble) -> None:
    """Exit 130, the run is named, and the kernel is asked to end nothing."""
    watched = threading.Event()

    def events(asked: Asked) -> Stream:
        def pieces() -> Iterator[bytes]:
            yield SAID
            watched.wait(30)

        return Stream(pieces())

    kernel.answers |= {"GET /runs/r12": _at("running"), "GET /events": events}
    command = [*AWK, "watch", "r12", "--exit-status"]
    with subprocess.Popen(command, cwd=cli.root, env=cli.environ, stdout=-1, stderr=-1, text=True) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline() == "reviewer: @coder fix\n"
        watching.send_signal(signal.SIGINT)
        _, told = watching.communicate(timeout=30)
        watched.set()
    assert (watching.returncode, "r12 continues" in told) == (130, True)
    assert {asked.method for asked in kernel.asked} == {"GET"}
