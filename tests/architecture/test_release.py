"""``scripts/release check``: what refuses a release before anything is built."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from protocol.discovery import VERSION
from tests.architecture.sources import ROOT
from tests.builders.git import IDENTITY, commit_all

DATED: Final = f"# Changelog\n\n## {VERSION} (2026-11-29)\n\n## 0.0.1 (2026-01-01)\n"
READY: Final = {
    "pyproject.toml": f'[project]\nversion = "{VERSION}"\n',
    "protocol/discovery.py": f'VERSION: Final = "{VERSION}"\n',
    "CHANGELOG.md": DATED,
}


def check(root: Path, files: Mapping[str, str], *commands: str) -> subprocess.CompletedProcess[str]:
    """Commit the files and the script to a new repository, run the commands there, then the check."""
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    (root / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/release", root / "scripts")
    commit_all(root)
    env = {"PATH": os.environ["PATH"], "HOME": str(root), **IDENTITY}
    for command in commands:
        subprocess.run(command.split(), cwd=root, env=env, check=True, timeout=30)
    argv = ("scripts/release", "check")
    return subprocess.run(argv, cwd=root, env=env, check=False, capture_output=True, text=True, timeout=30)


def test_a_clean_tree_with_one_dated_version_may_be_built(tmp_path: Path) -> None:
    done = check(tmp_path, READY, f"git tag v{VERSION}")
    assert (done.returncode, done.stdout) == (0, f"{VERSION} may be built\n")


@pytest.mark.parametrize(
    ("changes", "commands", "said"),
    [
        ({}, ["touch new"], "working tree not clean"),
        ({"protocol/discovery.py": 'VERSION: Final = "9.9.9"\n'}, [], "versions differ"),
        ({"CHANGELOG.md": f"# Changelog\n\n## {VERSION} (unreleased)\n"}, [], "does not start with a dated section"),
        ({"CHANGELOG.md": f"## 9.9.9 (unreleased)\n\n{DATED}"}, [], "does not start with a dated section"),
        (
            {},
            [f"git tag v{VERSION}", "git commit -q --allow-empty -m two"],
            f"tag v{VERSION} belongs to another commit",
        ),
    ],
)
def test_a_release_is_refused_with_its_reason(
    changes: Mapping[str, str], commands: list[str], said: str, tmp_path: Path
) -> None:
    done = check(tmp_path, {**READY, **changes}, *commands)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr


def test_the_release_script_uploads_nothing() -> None:
    text = (ROOT / "scripts/release").read_text("utf-8")
    assert [
        line for line in text.splitlines() if "upload" in line.lower() and not line.startswith(("#", "echo "))
    ] == []
