"""Text of agents as a part of a report: bounded, and nothing that a runner, a page or a terminal would obey.

Each report may be printed into the log of a CI job by the next step: so all of them are without commands of a runner
(interface.cli.runner_log), not only what is written for one.
"""

import re
from typing import Final

from interface.cli.output import escape, one_line
from interface.cli.runner_log import neutral

LINE: Final = 300
BLOCK: Final = 6000
BLOCK_LINES: Final = 150


def line_of(text: str, most: int = LINE) -> str:
    """``text`` on one line, of at most ``most`` characters."""
    shown = neutral(one_line(text[: most * 2]))
    return shown if len(shown) <= most and len(text) <= most * 2 else f"{shown[: most - 1]}…"


def block_of(text: str, most: int = BLOCK) -> list[str]:
    """``text`` in its lines, of at most ``most`` characters together; a last line says what is left out."""
    shown = neutral(escape(text[:most])).rstrip("\n")[:most].split("\n")
    cut = len(text.rstrip("\n")) > most or len(shown) > BLOCK_LINES
    return [*shown[:BLOCK_LINES], f"[... {len(text):,} characters in all ...]"] if cut else shown


def code(text: str, most: int = LINE) -> str:
    """``text`` within a line of Markdown, where nothing of it is a link, an image, HTML or a mention.

    GitHub and GitLab find mentions and addresses in what is shown, however it was escaped, but not in code. A bar would
    end the cell of a table even there, so it is another.
    """
    line = line_of(text, most).replace("|", "¦")
    fence = "`" * (_longest_run(line) + 1)
    return f"{fence} {line} {fence}" if line else "-"


def fenced(text: str, most: int = BLOCK) -> list[str]:
    """``text`` as a block of Markdown, in which nothing is markup, and an empty line."""
    lines = block_of(text, most)
    fence = "`" * max(3, *(_longest_run(line) + 1 for line in lines))
    return [f"{fence}text", *lines, fence, ""]


def _longest_run(line: str) -> int:
    return max(map(len, re.findall("`+", line)), default=0)
