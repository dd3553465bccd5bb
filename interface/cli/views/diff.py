"""Working trees of agents: for each its branch, commits, files and, where it was asked for, every line."""

from collections.abc import Iterator

import msgspec

from interface.cli.escape import escape, one_line
from interface.cli.output import Screen
from protocol.api.worktrees import DiffReport, WorktreeDiff

_STYLES = {"+": "green", "-": "red", "@": "cyan", "d": "bold"}


def lines(body: bytes, screen: Screen) -> list[str]:
    """The newest run's trees first."""
    found = msgspec.json.decode(body, type=DiffReport).worktrees
    return [line for tree in found for line in _tree(tree, screen)] or ["no working trees"]


def _tree(tree: WorktreeDiff, screen: Screen) -> Iterator[str]:
    stat = tree.stat
    done = f"files: {stat.files}, lines: +{stat.added} -{stat.deleted}, commits: {stat.commits}"
    done += f", since {one_line(tree.base[:12])}"
    yield f"{screen.style(one_line(tree.agent), 'bold')}  {one_line(tree.branch)}  {done}"
    yield f"  in {one_line(tree.path)}" if tree.state != "planned" else "  not made yet: it has not begun"
    if tree.kept_because:
        yield f"  kept: {one_line(tree.kept_because)}"
    yield from (f"  {one_line(commit.id[:12])} {one_line(commit.subject)}" for commit in tree.commits)
    yield from (f"  +{file.added} -{file.deleted}\t{one_line(file.path)}" for file in tree.files)
    yield from (_coloured(line, screen) for line in tree.patch.splitlines())
    if tree.truncated:
        yield "  [... the rest is left out: git diff shows all of it there ...]"


def _coloured(line: str, screen: Screen) -> str:
    style = _STYLES.get(line[:1])
    return escape(line) if style is None else screen.style(escape(line), style)
