"""What an agent is told of its workspace, in tokens: it is paid for with each prompt."""

import re
from collections.abc import Iterator
from typing import Final

from kernel.agents.workspace_prompt import PromptContext, TreeContext, workspace_sections
from scripts.benchmarks.figure import Figure

_PIECES: Final = re.compile(r"[A-Za-z]+|[0-9]{1,3}|[^\sA-Za-z0-9]")
_LETTERS: Final = 8

TREE: Final = TreeContext("/trees/review/r1/alice", "awk/review/r1/alice", "1" * 40, colleagues=(
    ("bob", "awk/review/r1/bob", "2" * 40, 3),
))  # fmt: skip
TEAM: Final = PromptContext("alice", "review:main", ("alice", "bob", "carol", "dave"))
CASES: Final = {
    "alone": (PromptContext("alice", "review:main", alone=True), 80),
    "a team of four": (TEAM, 250),
    "and documents": (
        PromptContext(TEAM.name, TEAM.space, TEAM.members, document="notes.md", document_owner="dave"),
        285,
    ),
    "and a verdict": (PromptContext(TEAM.name, TEAM.space, TEAM.members, verdict="release"), 420),
    "and a working tree": (PromptContext(TEAM.name, TEAM.space, TEAM.members, verdict="release", tree=TREE), 600),
}
"""What the workspace is like, and how many tokens that may take."""


def tokens(text: str) -> int:
    """About as many as a provider counts, rather more: a word of up to eight letters, three digits, a mark."""
    return sum(-(-len(piece) // _LETTERS) for piece in _PIECES.findall(text))


def measure() -> Iterator[Figure]:
    """Count what each case is told."""
    for name, (context, limit) in CASES.items():
        told = "\n\n".join(text for _, text in workspace_sections(context))
        yield Figure(f"told of its workspace: {name}", tokens(told), limit, "tokens")
