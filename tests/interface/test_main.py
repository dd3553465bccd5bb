"""The edge of the program: pipes that break, bugs that show, locales that cannot say it. Real processes."""

import errno
import os
import subprocess
from typing import NoReturn

import pytest

from interface.cli.context import Context
from tests.interface.conftest import AWK, Cli
from tests.interface.kernel_double import KernelDouble, Stream, sse
from tests.interface.samples import event, read_answers


def test_a_reader_that_goes_away_is_no_error(cli: Cli, kernel: KernelDouble) -> None:
    """awk events | head -1: quiet, and the exit code of a program that SIGPIPE ended."""
    line = sse("worker.log", event("worker.log", 1, data={"text": "x" * 10_000}), 1)
    kernel.answers["GET /events"] = Stream([line] * 100)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*AWK, "events", "--jsonl"], cwd=cli.root, env=cli.environ, stdout=pipe, stderr=pipe
    ) as process:
        assert process.stdout is not None
        process.stdout.read(10)
        process.stdout.close()
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (141, b"")


def test_what_the_locale_cannot_say_is_spelled(cli: Cli, kernel: KernelDouble) -> None:
    """Text is escaped rather than refused; JSON is UTF-8 whatever the locale (RFC 8259 8.1)."""
    kernel.answers |= read_answers("审查é")
    environ = {**cli.environ, "PYTHONIOENCODING": "latin-1"}
    done = [
        subprocess.run(
            [*AWK, "peek", "alice", *more], cwd=cli.root, env=environ, capture_output=True, check=True
        ).stdout
        for more in ([], ["--json"])
    ]
    assert done[0] == b"alice: \\u5ba1\\u67e5\xe9\n"
    assert "审查é".encode() in done[1]


def test_a_bug_is_one_line_unless_asked_for(cli: Cli, kernel: KernelDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(context: Context) -> NoReturn:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(Context, "kernel", broken)
    ran = cli("ps")
    assert (ran.code, ran.err.splitlines()[0]) == (1, "error: ZeroDivisionError: division by zero")
    assert "-vv prints a traceback" in ran.err
    with pytest.raises(ZeroDivisionError):
        cli("ps", "-vv")


def test_a_kernel_of_another_version_is_told(cli: Cli, kernel: KernelDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    """ecosystem 7: version skew after an upgrade, on stderr."""
    monkeypatch.setattr("tests.interface.kernel_double.VERSION", "0.0.1")
    kernel.answers |= read_answers("x")
    ran = cli("ps", "--json")
    assert (ran.code, "the kernel has version 0.0.1" in ran.err) == (0, True)


def test_the_version_needs_no_kernel(cli: Cli) -> None:
    assert cli("version", "--json").json()["schema"] == "awk/version/1"
    assert cli("version").out.startswith("agent-worker ")


@pytest.mark.parametrize("words", [["version"], ["version", "--json"], ["--help"]], ids=" ".join)
def test_output_that_cannot_be_written_is_an_error(words: list[str], cli: Cli) -> None:
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [*AWK, *words], env=cli.environ, stdout=full, stderr=subprocess.PIPE, text=True, timeout=20, check=False
        )
    assert (ran.returncode, ran.stderr) == (1, "error: the output cannot be written: No space left on device\n")


@pytest.mark.parametrize(("closed", "code"), [("<&-", 2), (">&-", 2), ("2>&-", 2)])
def test_a_stream_that_is_closed_is_an_empty_one(closed: str, code: int, cli: Cli) -> None:
    command = ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *AWK, "send", "alice", "-"]
    ran = subprocess.run(
        command, cwd=cli.root, env=cli.environ, input="", capture_output=True, text=True, timeout=20, check=False
    )
    assert (ran.returncode, ran.stderr) == (code, "" if closed == "2>&-" else "error: the message is empty\n")


@pytest.mark.parametrize("error", [errno.EAGAIN, errno.EMFILE])
def test_a_system_that_refuses_more_is_no_bug(error: int, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault F13: a sentence and what to do, where the CLI itself can start no process."""

    def refuse(*_words: object, **_how: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr("interface.autostart.subprocess.Popen", refuse)
    ran = cli("start")
    assert (ran.code, os.strerror(error) in ran.err, "ulimit" in ran.err, "bug" in ran.err) == (1, True, True, False)
