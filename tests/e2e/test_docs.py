"""Pages of docs as a reader follows them: write their files and run their commands, in order."""

import os
import re
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
PLAIN_AGENT: Final = "backend: mock\nmock: [{ text: hi }]\n"


def _is_run(block: Block) -> bool:
    return block.kind == "sh" and "not run" not in block.marks


def _script(page: list[Block]) -> Iterator[str]:
    """Yield the files and commands of a page, with a plain agent for each member that has no file."""
    for block in sorted(page, key=lambda one: "file" not in one.marks):
        if block.path and "not run" not in block.marks:
            for path, text in (*((f".agents/{one}.yaml", PLAIN_AGENT) for one in _members(block)), ("", block.text)):
                target = shlex.quote(path or block.path)
                yield f"[ -n '{path}' ] && [ -e {target} ] || {{ mkdir -p $(dirname {target})"
                yield f"printf %s {shlex.quote(text)} >{target}; }}"
        yield block.marks.get("run first", "") if "not run" not in block.marks else ""
        yield block.text if _is_run(block) else ""


def _members(block: Block) -> list[str]:
    return re.findall(r"ref: ([a-z]+)", block.text)


PAGES: Final = {
    str(path.relative_to(ROOT)): page
    for path in sorted(ROOT.glob("docs/**/*.md"))
    if any(map(_is_run, page := blocks(path.read_text("utf-8"))))
}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = empty_project(tmp_path)
    yield made
    made.awk("stop", "-A", "--yes")


@pytest.mark.long("tests/architecture/test_docs.py")
@pytest.mark.parametrize("name", sorted(PAGES.keys() - ELSEWHERE))
def test_the_commands_of_a_page_succeed(name: str, project: Project) -> None:
    environ = {**project.environ, **IDENTITY, "PATH": f"{AWK.parent}:{os.environ['PATH']}"}
    ran = subprocess.run(
        ["sh", "-eux"],
        input="\n".join(_script(PAGES[name])),
        cwd=project.root,
        env=environ,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
