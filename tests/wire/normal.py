"""Normal forms: what differs from one recording to the next is replaced, and the rest is laid out for a diff."""

import json
import re
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from protocol.discovery import VERSION

_BY_KEY: Final = {"pid": "<pid>", "uptime_seconds": "<seconds>"}
"""Values that differ, by their keys. Nulls stay."""
_BY_PATTERN: Final = (
    (re.compile(r"(?<=\bproject-)[0-9a-f]{10}\b"), "<digest>"),
    (re.compile(r"-\d{8}-\d{6}\b"), "-<time>"),
    (re.compile(r"^((?:agent_worker_(?:commit|database)_|process_|python_)\S+).*", re.MULTILINE), r"\1 <value>"),
)
"""Digests of paths, local times, and figures of /metrics."""
_UNORDERED: Final = ("tools", "parameters")
"""Lists whose order means nothing, by their keys: sorted by name."""
_WIDTH: Final = 118


class Lines(list[Any]):
    """Values of which each takes one line, as in an archive."""


@dataclass
class Normal:
    """Replaces ``secrets`` in all texts, and what differs by its key."""

    secrets: dict[str, str]

    def text(self, text: str) -> str:
        """Return ``text`` in its normal form."""
        for secret, name in self.secrets.items():
            text = text.replace(secret, name)
        for pattern, name in _BY_PATTERN:
            text = pattern.sub(name, text)
        return text.replace(VERSION, "<version>")

    def __call__(self, value: Any, key: str = "") -> Any:
        """Return a value of JSON in its normal form."""
        if isinstance(value, dict):
            return {self.text(name): self(one, name) for name, one in value.items()}
        if isinstance(value, list):
            is_named = key in _UNORDERED and all(isinstance(one, dict) for one in value)
            rows = sorted(value, key=itemgetter("name")) if is_named else value
            return type(value)(self(one, key) for one in rows)
        if key in _BY_KEY and value is not None:
            return _BY_KEY[key]
        return self.text(value) if isinstance(value, str) else value


def document(value: Any, margin: str = "") -> str:
    """Return a value of JSON as text: on one line where it fits, else each part on lines of its own."""
    if isinstance(value, Lines):
        return "\n".join(json.dumps(one, ensure_ascii=False) for one in value)
    flat = value if isinstance(value, str) and not margin else json.dumps(value, ensure_ascii=False)
    if len(margin) + len(flat) <= _WIDTH or not isinstance(value, dict | list):
        return flat
    deeper = margin + " "
    if isinstance(value, list):
        return "[\n" + ",\n".join(deeper + document(one, deeper) for one in value) + f"\n{margin}]"
    parts = (f"{deeper}{json.dumps(name)}: {document(one, deeper)}" for name, one in value.items())
    return "{\n" + ",\n".join(parts) + f"\n{margin}}}"
