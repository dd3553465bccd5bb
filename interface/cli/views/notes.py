"""The notes of an agent."""

import msgspec

from interface.cli.escape import escape
from interface.cli.output import Screen
from interface.cli.plain_table import table
from protocol.agent_files import NotesReport


def lines(body: bytes, screen: Screen, doing: str | None = None) -> list[str]:
    """One line for each note; all of it where one was asked for."""
    notes = msgspec.json.decode(body, type=NotesReport).notes
    if doing == "show":
        return [escape(note.text.rstrip("\n")) for note in notes]
    if not notes:
        return ["no notes"]
    rows = [[str(note.n), note.date or "-", note.title, note.file] for note in notes]
    return table(["N", "DATE", "TITLE", "FILE"], rows, screen, right=frozenset({"N"}))
