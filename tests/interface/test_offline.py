"""Questions about files: answered in the process that asks, by as little of the kernel as they need."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernel.inspect import disk_usage
from tests.interface.conftest import Cli
from tests.kernel.inspect.files import review


def test_questions_about_files_start_no_event_loop_and_open_no_database(tmp_path: Path) -> None:
    review(tmp_path)
    heavy = "{'trio', 'apsw', 'quart', 'hypercorn', 'mcp', 'anthropic', 'openai', 'genai_prices', 'asyncio'}"
    program = (
        "import sys; from interface import offline; from interface.discovery import Project; "
        f"project = Project({str(tmp_path)!r}, {str(tmp_path)!r}); root = project.root; "
        "offline.validation(project, root, (), {}); offline.resolution(root, root, 'review'); "
        "offline.plan(project, 'review', 'main', ('-b', 'x'), {}); offline.schema_text('agent'); "
        f"print(sorted({heavy} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_what_the_kernel_would_log_is_not_for_the_terminal(tmp_path: Path) -> None:
    review(tmp_path)
    (tmp_path / "trust.json").write_text("{", "utf-8")
    program = (
        "from interface import offline; from interface.discovery import Project; "
        f"offline.validation(Project({str(tmp_path)!r}, {str(tmp_path)!r}), {str(tmp_path)!r}, (), {{}})"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (
            errno.EACCES,
            "error: /state/agent-worker.db: Permission denied\n  hint: check the path and its permissions\n",
        ),
        (errno.EMFILE, "error: the system refuses what the command needs: Too many open files\n  hint: raise ulimit"),
    ],
)
def test_what_cannot_be_read_is_no_bug(number: int, said: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_asked: object) -> None:
        raise OSError(number, os.strerror(number), "/state/agent-worker.db")

    monkeypatch.setattr(disk_usage, "disk_usage", refused)
    ran = cli("df")
    assert (ran.code, ran.err[: len(said)]) == (1, said)
