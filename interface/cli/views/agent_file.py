"""A file of an agent that was written, or is in the trash now."""

import json
from typing import Any

from interface.cli.escape import one_line
from interface.cli.output import Screen


def lines(body: bytes, _screen: Screen) -> list[str]:
    """One line: the file; after a deletion how to get it back."""
    told: dict[str, Any] = json.loads(body)
    if "file" in told:
        return [one_line(str(told["file"]))]
    deleted = f"deleted {told['agent']}"
    return [one_line(f"{deleted}; get it back: {told['restore']}" if told["restore"] else deleted)]
