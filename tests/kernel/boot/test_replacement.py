"""A program that is replaced in its process, and its guardian, which goes on where that comes to nothing."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kernel.boot.arguments import parse_arguments
from kernel.boot.replacement import PATIENCE, ProcessHoldings, boot_from, pack, unpack

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs files in memory")

HELD = ProcessHoldings(
    pid=7, version="1.0", listening=3, locks=(4, None), token="t", started_at="2026-11-23T00:00:00.000Z",
    clock_offset_ns=5, service=None, descriptors=(),
)  # fmt: skip
REPLACED = """
import json, os, sys
from kernel.boot.replacement import ProcessHoldings, replace
held = ProcessHoldings(*json.loads(sys.argv[1]))
pid = os.getpid()
held, table, returned = replace(held, b"the table", tuple(sys.argv[2:]))
print(json.dumps([os.getpid() == pid, held.pid == os.getpid(), table.decode(), returned.why]), flush=True)
"""
"""A kernel of a few lines: what comes after ``replace`` runs only where the new program did not take over."""
READY = """
import os, sys
from kernel.boot.replacement import dismiss, unpack
held, table = unpack(int(sys.argv[-1]))
os.fstat(held.descriptors[0])
dismiss(held)
print("ready", table.decode(), flush=True)
"""
GIVES_UP = """
import os, sys
from kernel.boot.replacement import give_up, unpack
fd = int(sys.argv[-1])
os._exit(give_up(unpack(fd)[0], fd, "it is not up to\\n  this"))
"""


def test_what_an_earlier_version_showed_in_its_record_is_a_limited_token(tmp_path: Path) -> None:
    arguments = parse_arguments(["--project", str(tmp_path)])
    for record_token in ("", "r"):
        with socket.socket() as listening:
            held = HELD._replace(listening=listening.detach(), record_token=record_token)
            boot = boot_from(held, arguments, "2", [])
        boot.listener.close()
        if record_token:
            assert (boot.token, boot.record_token) == ("t", "r")
        else:
            assert boot.record_token == "t"
            assert len(boot.token) > 40


def replaced_by(*command: str, patience: str = "60") -> str:
    """All that is printed in the end, by whoever goes on."""
    with open(os.devnull) as kept:
        os.set_inheritable(kept.fileno(), True)
        held = HELD._replace(descriptors=(kept.fileno(),))
        ran = subprocess.run(
            [sys.executable, "-c", REPLACED, json.dumps(held), *command],
            env={**os.environ, PATIENCE: patience},
            pass_fds=(kept.fileno(),),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    return ran.stdout


def test_what_is_held_is_read_again_as_it_was() -> None:
    fd = pack(HELD._replace(guardian=(8, 9), program=("python", "-m", "kernel")), b"{\n}\0" * 100_000)
    try:
        held, table = unpack(fd)
    finally:
        os.close(fd)
    assert held == HELD._replace(guardian=(8, 9), program=("python", "-m", "kernel"))
    assert table == b"{\n}\0" * 100_000


def test_what_a_later_version_adds_is_passed_over_and_another_format_is_refused() -> None:
    """Fields are only added; what means something else has another number."""
    known = HELD._asdict()
    for format_, reads in ((1, True), (2, False)):
        fd = os.memfd_create("later")
        os.write(fd, json.dumps({"format": format_, **known, "later": 1}).encode() + b"\n")
        try:
            if reads:
                assert unpack(fd)[0] == HELD
            else:
                with pytest.raises(ValueError, match="too different"):
                    unpack(fd)
        finally:
            os.close(fd)


def test_a_program_that_is_ready_goes_on_alone() -> None:
    assert replaced_by(sys.executable, "-c", READY) == "ready the table\n"


@pytest.mark.promise("P93")
@pytest.mark.parametrize(
    ("command", "patience", "why"),
    [
        (("/bin/sh", "-c", "exit 3"), "60", "the new version ended before it was ready"),
        (("/bin/sh", "-c", "kill -9 $$"), "60", "the new version ended before it was ready"),
        (("/bin/sleep", "--handover"), "60", "the new version ended before it was ready"),
        (("/bin/sh", "-c", "exec sleep 600"), "0.3", "the new version did not respond for 0.3 s"),
        ((sys.executable, "-c", GIVES_UP), "60", "it is not up to this"),
    ],
)
def test_the_guardian_goes_on_for_a_program_that_ends_or_says_nothing(
    command: tuple[str, ...], patience: str, why: str
) -> None:
    same_pid, knows_its_pid, table, said = json.loads(replaced_by(*command, patience=patience))
    assert (same_pid, knows_its_pid, table, said) == (False, True, "the table", why)


@pytest.mark.promise("P93")
def test_what_cannot_be_executed_leaves_the_process_as_it_is(tmp_path: Path) -> None:
    told = json.loads(replaced_by(str(tmp_path / "gone")))
    assert told == [True, False, "the table", f"{tmp_path}/gone cannot be executed: No such file or directory"]
