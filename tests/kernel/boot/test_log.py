"""The kernel's log file: bounded, with everything in it that is written to standard error."""

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kernel.boot.log_file import OLD, TEXT_CHARACTERS, JsonFormatter

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


def test_a_log_that_is_full_is_renamed_and_a_new_one_begun(tmp_path: Path) -> None:
    path = tmp_path / "kernel.log"
    run(WRITES, path)
    assert {file.name for file in tmp_path.iterdir()} == {"kernel.log", f"kernel.log{OLD}"}
    assert all(file.stat().st_size < 12_000 and file.stat().st_mode & 0o777 == 0o600 for file in [path])
    assert Path(f"{path}{OLD}").stat().st_size < 12_000
    text = path.read_text()
    assert "line 999\nfrom standard output\nfrom the descriptor\nFatal Python error: Segmentation fault" in text


def test_a_log_that_was_removed_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "kernel.log"
    run(REMOVED, path)
    assert path.read_text().endswith("root goes on\n")


def test_a_log_that_is_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.log"
    with theirs.open("ab") as file:
        argv = [sys.executable, "-c", WRITES, str(tmp_path / "kernel.log")]
        subprocess.run(argv, stdout=file, stderr=file, timeout=60, check=False)
    assert [path.name for path in tmp_path.iterdir()] == ["theirs.log"]
    assert "line 0\n" in theirs.read_text()


WRITES_JSON = """
import logging, sys
from kernel.boot import log_file as log
log.LIMIT_BYTES = 5_000
log.start_logging(sys.argv[1])
log.log_as_json()
for number in range(100):
    logging.info("merge.done %s\\n%s", f"i{number}", "fake\\r\\n{\\"time\\": 1}\\u2028\\x1b[31m")
"""


def test_lines_are_one_json_object_each_whatever_is_in_them(tmp_path: Path) -> None:
    """contracts 4: time, level, event, ids; a text of several lines, hostile ones too, is one; rotated alike."""
    path = tmp_path / "kernel.log"
    run(WRITES_JSON, path)
    assert {file.name for file in tmp_path.iterdir()} == {"kernel.log", f"kernel.log{OLD}"}
    lines = [json.loads(line) for file in (f"{path}{OLD}", path) for line in Path(file).read_text("ascii").splitlines()]
    assert [line["instruction"] for line in lines][-1] == "i99"
    assert {line["event"] for line in lines} == {"merge.done"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines)
    record = logging.LogRecord("kernel.app", logging.ERROR, "", 0, "said %s, not %d", ("i7-2", "x"), None)
    broken = json.loads(JsonFormatter().format(record))
    assert (broken["event"], broken["level"], broken["attempt"]) == (None, "error", "i7-2")
    try:
        raise ValueError("\ud800" * TEXT_CHARACTERS * 2)
    except ValueError:
        failed = logging.LogRecord("a", logging.INFO, "", 0, "x.y i7 is a word of somebody's", (), sys.exc_info())
    (text,) = JsonFormatter().format(failed).splitlines()
    assert "instruction" not in json.loads(text)
    assert len(json.loads(text)["error"]) < TEXT_CHARACTERS + 100


UNREAD = """
import logging, os, sys
from kernel.boot import log_file as log
log.start_logging("/nonexistent")
if len(sys.argv) > 1:
    log.log_as_json()
for number in range(5000):
    logging.info("line %d of %s", number, "x" * 100)
logging.info("long " + "y" * 100_000)
logging.info("bad %d", "format")
print("printed", file=sys.stderr)
os.write(1, b"all is said\\n")
sys.stdin.readline()
logging.info("heard again")
logging.info("and again")
"""


@pytest.mark.parametrize("words", [[], ["json"]])
def test_a_reader_that_does_not_read_holds_up_nobody(words: list[str]) -> None:
    """Fault F6: the kernel stood still in write(2). What is dropped is counted, and told once somebody reads."""
    argv = [sys.executable, "-c", UNREAD, *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe) as kernel:
        assert kernel.stdout is not None
        assert kernel.stderr is not None
        assert kernel.stdout.readline() == b"all is said\n"
        kept = [line for line in os.read(kernel.stderr.fileno(), 1 << 20).decode().splitlines() if " of xxx" in line]
        text = kernel.communicate(b"\n", timeout=60)[1].decode()
    lines = text.splitlines()
    kept += [line for line in lines if " of xxx" in line]
    assert 100 < len(kept) < 5000
    (dropped,) = re.findall(r"(?:log\.dropped |\"text\": \")([0-9]+) lines", text)
    more = 2 if words else 3  # the long line and what was printed; without JSON the mistake in a message, too
    assert len(kept) + int(dropped) >= 5000 + more
    assert ["again" in line for line in lines[-3:]] == [False, True, True]
    if words:
        assert [json.loads(line)["level"] for line in lines[-3:]] == ["warning", "info", "info"]


def test_a_reader_that_is_gone_ends_nothing(tmp_path: Path) -> None:
    for stderr in (os.open("/dev/full", os.O_WRONLY), _broken_pipe()):
        ran = subprocess.run(
            [sys.executable, "-c", UNREAD], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, check=False
        )
        os.close(stderr)
        assert (ran.returncode, ran.stdout) == (0, b"all is said\n")


def _broken_pipe() -> int:
    ours, theirs = os.pipe()
    os.close(ours)
    return theirs
