"""The kernel's log file: bounded, with everything in it that is written to standard error."""

import subprocess
import sys
from pathlib import Path

import pytest

from kernel.boot.log_file import OLD

pytestmark = pytest.mark.promise("P10")

WRITES = """
import faulthandler, logging, os, sys
from kernel.boot import log_file as log
log.LIMIT_BYTES = 10_000
log.start_logging(sys.argv[1])
for number in range(1000):
    logging.info("line %d", number)
print("from standard output", flush=True)
os.write(2, b"from the descriptor\\n")
os.kill(os.getpid(), 11)
"""
REMOVED = """
import logging, os, sys
from kernel.boot import log_file as log
log.start_logging(sys.argv[1])
os.unlink(sys.argv[1])
logging.info("goes on")
"""


def run(code: str, path: Path) -> None:
    """A kernel's beginning with its standard descriptors in a file, as whoever starts one has them."""
    with path.open("ab") as file:
        subprocess.run([sys.executable, "-c", code, str(path)], stdout=file, stderr=file, timeout=60, check=False)


@pytest.mark.promise("P10")
def test_a_log_that_is_full_is_renamed_and_a_new_one_begun(tmp_path: Path) -> None:
    """Two files at most, of bounded size; the last lines, prints and the trace of a crash are in the newer."""
    path = tmp_path / "kernel.log"
    run(WRITES, path)
    assert {file.name for file in tmp_path.iterdir()} == {"kernel.log", f"kernel.log{OLD}"}
    assert all(file.stat().st_size < 12_000 and file.stat().st_mode & 0o777 == 0o600 for file in [path])
    assert Path(f"{path}{OLD}").stat().st_size < 12_000
    text = path.read_text()
    assert "line 999\nfrom standard output\nfrom the descriptor\nFatal Python error: Segmentation fault" in text


def test_a_log_that_was_removed_is_begun_anew(tmp_path: Path) -> None:
    """Whoever clears the log by hand still finds what comes next."""
    path = tmp_path / "kernel.log"
    run(REMOVED, path)
    assert path.read_text().endswith("root goes on\n")


def test_a_log_that_is_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    """In the foreground, or under a service manager, standard error is theirs."""
    theirs = tmp_path / "theirs.log"
    with theirs.open("ab") as file:
        argv = [sys.executable, "-c", WRITES, str(tmp_path / "kernel.log")]
        subprocess.run(argv, stdout=file, stderr=file, timeout=60, check=False)
    assert [path.name for path in tmp_path.iterdir()] == ["theirs.log"]
    assert "line 0\n" in theirs.read_text()
