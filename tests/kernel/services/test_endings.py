"""What an attempt's end means."""

import pytest

from kernel.services.completion import Ending, describe_exit, judged, of_error, of_exit, of_result
from protocol.instruction import Usage
from protocol.ipc import Error, Exited, Result


@pytest.mark.promise("PF02", "PF04", "PF16")
@pytest.mark.parametrize(
    ("exited", "cause", "says"),
    [
        (Exited(code=0), "protocol", "exited with 0 but sent no result"),
        (Exited(code=3), "crash", "ended with 3"),
        (Exited(signal=9), "crash", "SIGKILL"),
        (Exited(signal=11), "crash", "SIGSEGV"),
        (Exited(failed="ENOENT: /bin/nope"), "spawn_permanent", "/bin/nope"),
    ],
)
def test_a_worker_that_leaves_without_a_result_has_failed(exited: Exited, cause: str, says: str) -> None:
    """Exit code 0 is not success."""
    ending = of_exit(exited)
    assert (ending.ended_as, ending.cause) == ("failed", cause)
    assert says in ending.text


@pytest.mark.promise("PF04", "P13")
@pytest.mark.parametrize(
    ("exited", "cause"),
    [
        (Exited(signal=9), "crash"),
        (Exited(signal=11), "crash"),
        (Exited(signal=9, killed=True), "protocol"),
        (Exited(code=1), "protocol"),
    ],
)
def test_a_worker_killed_by_others_as_it_is_written_to_is_a_crash(exited: Exited, cause: str) -> None:
    unread = Ending("failed", "the worker does not read its input (BrokenResourceError)", cause="protocol")
    assert judged(unread, exited, None, "sdk", "here", reached_mcp=True).cause == cause


def test_frames_carry_their_ending() -> None:
    assert of_result(Result(status="done", text="hi", usage=Usage(input_tokens=3))).usage.input_tokens == 3
    failed = of_error(Error(cause="rate_limited", text="slow down", http_status=429, retry_after=7.0))
    assert (failed.cause, failed.retry_after_seconds, failed.text) == ("rate_limited", 7.0, "slow down (HTTP 429)")


def test_an_exit_is_shown_by_name() -> None:
    """contracts 9: last_exit is a code or a signal's name."""
    assert [describe_exit(Exited(signal=9)), describe_exit(Exited(code=1)), describe_exit(Exited(signal=63))] == [
        "SIGKILL",
        "1",
        "signal 63",
    ]
