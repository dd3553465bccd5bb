"""Pictures of a terminal for docs/images, from a run of examples/team that scripts play: ``scripts/docs images``."""

import io
import os
import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rich.console import Console
from rich.text import Text

from tests.architecture.sources import ROOT
from tests.builders.git import IDENTITY
from tests.project import AWK, empty_project
from tests.terminal import Tmux

IMAGES: Final = ROOT / "docs/images"
TOUR: Final = (
    "awk init --example team",
    "awk run team --trust",
    'awk merge @team --check "python3 -m unittest"',
    "git --no-pager log --oneline --graph",
)
COLUMNS: Final = 120
WIDE: Final = 150
"""Room for the tokens and the cost of agents."""
_FONT: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_WORKING: Final = re.compile(r"@\S+ +running +\d+ +\S+ +\S+ +\d+ +[a-z]")
"""A row of ``awk top`` with a process that runs a tool."""
_PROMPT: Final = "$ "


def main() -> None:
    with TemporaryDirectory() as folder:
        project = empty_project(Path(folder))
        environ = {**project.environ, **IDENTITY, "PATH": f"{AWK.parent}:{os.environ['PATH']}"}
        for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "Begin")):
            subprocess.run(("git", *words), cwd=project.root, env=environ, check=True)
        project.awk("start")
        try:
            with Tmux(project.root, environ, COLUMNS, 80) as tour, Tmux(project.root, environ, WIDE, 9) as top:
                tour.command(f"PS1='{_PROMPT}'; clear")
                top.command("awk top")
                for place, command in enumerate(TOUR, start=1):
                    tour.until(lambda rows: _prompts(rows) == place)  # noqa: B023  (called at once)
                    tour.type(command)
                    if command.startswith("awk run"):
                        top.until(lambda rows: any(map(_WORKING.search, rows)))
                        _write("top", "awk top", top.styled(), WIDE)
                tour.until(lambda rows: _prompts(rows) == len(TOUR) + 1)
                _write("tour", "a team of four agents", tour.styled())
        finally:
            project.awk("stop", "-A", "--yes")


def _prompts(rows: list[str]) -> int:
    """Return the number of prompts, the last of which waits for a command; 0 if none waits."""
    return sum(row.startswith("$") for row in rows) if rows[-1:] == [_PROMPT.rstrip()] else 0


def _write(name: str, title: str, lines: list[str], columns: int = COLUMNS) -> None:
    console = Console(record=True, width=columns, file=io.StringIO())
    console.print(Text.from_ansi("\n".join(lines).rstrip()), no_wrap=True)
    # Without the web font: pages of the site and of a code host fetch nothing.
    picture = _FONT.sub("", console.export_svg(title=title, unique_id=name))
    (IMAGES / f"{name}.svg").write_text(picture, "utf-8")


if __name__ == "__main__":
    main()
