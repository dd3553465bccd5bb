"""schema/frames.json, made of protocol/ipc.py: ``scripts/generate``. The frames of both directions."""

import json
from typing import Any, Final
from unittest.mock import patch

import msgspec

from protocol.ipc import KernelFrame, WorkerFrame

TITLE: Final = "Frames between the kernel and a worker (docs/contributing/worker-protocol.md): one JSON object a line"


def schema_text() -> str:
    """The schema: ``$defs`` has WorkerFrame, what a worker says, and KernelFrame, what it is told."""

    def plain(default: Any, **options: Any) -> Any:
        """msgspec 0.21 cannot show a default that is JSON carried through unread."""
        if isinstance(default, msgspec.Raw):
            return msgspec.json.decode(default)
        return msgspec.to_builtins(default, **options)

    with patch("msgspec._json_schema.to_builtins", plain):
        (kernel, worker), parts = msgspec.json.schema_components(
            [KernelFrame, WorkerFrame], ref_template="#/$defs/{name}"
        )
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": TITLE,
        "anyOf": [{"$ref": "#/$defs/KernelFrame"}, {"$ref": "#/$defs/WorkerFrame"}],
        "$defs": {"KernelFrame": kernel, "WorkerFrame": worker, **parts},
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
