"""Which tool calls of an instruction failed, by the step that asked for them, and what the model read of each."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

import apsw
import msgspec

from protocol.api.instructions import FailedCall
from protocol.ipc import Refusal

TEXT_CHARACTERS: Final = 500
NAME_CHARACTERS: Final = 100
"""Of a tool's name, which a model may have made up."""

CALLS: Final = """
SELECT e.kind, CASE WHEN e.kind <> 'tool' THEN NULL WHEN e.blob IS NULL THEN e.body ELSE b.body END
FROM entries AS e LEFT JOIN blobs AS b ON b.hash = e.blob WHERE e.instruction = ? ORDER BY e.k
"""


RUN_CALLS: Final = """
SELECT CASE WHEN e.blob IS NULL THEN e.body ELSE b.body END
FROM instructions AS i CROSS JOIN entries AS e ON e.instruction = i.id AND e.kind = 'tool'
LEFT JOIN blobs AS b ON b.hash = e.blob WHERE i.run = ?
"""


class _Call(msgspec.Struct, frozen=True):
    """What of an entry is asked about here."""

    name: str | None = None
    text: str = ""
    is_error: bool = False
    refused: Refusal | None = None


_decode: Final = msgspec.json.Decoder(_Call).decode


def failed_calls(conn: apsw.Connection, number: int | None) -> Mapping[int, tuple[FailedCall, ...]]:
    """By step, counted from 1; steps without one are left out."""
    found: dict[int, tuple[FailedCall, ...]] = {}
    step = 0
    for kind, body in conn.execute(CALLS, (number,)):
        step += kind == "reply"
        call = _Call() if body is None else _decode(body)
        if call.is_error:
            told = FailedCall(tool=call.name or "", why=call.refused or "failed", text=call.text[:TEXT_CHARACTERS])
            found[step] = (*found.get(step, ()), told)
    return found


def failed_calls_of_run(conn: apsw.Connection, run: int) -> dict[str, int]:
    """By the tool's name, cut to what a name may be long; how many. Not limited: ask in a thread."""
    calls = (_decode(body) for (body,) in conn.execute(RUN_CALLS, (run,)))
    return dict(sorted(Counter((call.name or "")[:NAME_CHARACTERS] for call in calls if call.is_error).items()))
