"""Pages of docs as a reader follows them: write their files and run their commands, in order."""

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.sources import ROOT
from tests.builders.git import IDENTITY
from tests.pages import Block, blocks
from tests.project import AWK, Project, empty_project

ELSEWHERE: Final = frozenset({"docs/how-to/integrate/call-the-api.md", "docs/how-to/operate/add-machines.md"})
"""Pages with a test of their own: test_outside_clients.py, test_scaling_page.py."""


def _script(page: list[Block]) -> Iterator[str]:
    for block in sorted(page, key=lambda one: "file" not in one.marks):
        for path, text in block.files:
            target = shlex.quote(path)
            yield f"[ {'-e ' + target if path != block.path else ''} ] || {{ mkdir -p $(dirname {target})"
            yield f"printf %s {shlex.quote(text)} >{target}; }}"
        if block.is_run:
            yield f"{block.marks.get('run first', '')}\n{block.text}"


READ: Final = {path.relative_to(ROOT).as_posix(): blocks(path.read_text("utf-8")) for path in ROOT.glob("docs/**/*.md")}
PAGES: Final = sorted(name for name, page in READ.items() if any(block.is_run for block in page))


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = empty_project(tmp_path)
    yield made
    made.awk("stop", "-A", "--yes")


@pytest.mark.long("tests/architecture/test_docs.py")
@pytest.mark.parametrize("name", [name for name in PAGES if name not in ELSEWHERE])
def test_the_commands_of_a_page_succeed(name: str, project: Project) -> None:
    env = {**project.environ, **IDENTITY, "PATH": f"{AWK.parent}:{os.environ['PATH']}"}
    shell = ["sh", "-euxc", "\n".join(_script(READ[name]))]
    ran = subprocess.run(shell, cwd=project.root, env=env, input="", capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    projects = {path.parent for folder in (".agents", ".workflows") for path in project.root.glob(f"**/{folder}")}
    checked = [project.awk("validate", "--project", str(path)) for path in projects]
    assert [one.err for one in checked if one.code] == []
