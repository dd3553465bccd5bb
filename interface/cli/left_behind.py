"""The note of what does not reach an agent that works on a node: files that are not committed."""

from collections.abc import Mapping


def left_behind_lines(told: Mapping[str, object]) -> list[str]:
    """The note in the answer to a message or a start; none where there is nothing to say."""
    count = told.get("left_behind")
    if not isinstance(count, int) or not count:
        return []
    files = "1 file is" if count == 1 else f"{count} files are"
    return [f"note: {files} not committed, and an agent that works on a node goes without (git commit)"]
