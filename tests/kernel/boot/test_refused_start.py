"""A kernel that cannot begin says why in one line, and leaves nothing behind. Real processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from protocol.discovery import LOCK, RECORD, project_state


@pytest.mark.parametrize("name", [RECORD, LOCK])
def test_what_stands_in_the_way_is_named(name: str, tmp_path: Path) -> None:
    """contracts 7: exit 78, no traceback: the last lines of the log are what the user sees."""
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    state = Path(project_state(str(home), str(project.resolve())))
    (state / name).mkdir(parents=True)
    command = [sys.executable, "-I", "-m", "kernel", "--project", str(project)]
    environ = {"PATH": os.defpath, "HOME": str(tmp_path), "AGENT_WORKER_HOME": str(home)}
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=20, check=False)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (78, 1)
    assert str(state / name) in ended.stderr
    assert [path.name for path in state.iterdir() if path.name.startswith(RECORD)] == [RECORD] * (name == RECORD)
