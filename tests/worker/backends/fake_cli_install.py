"""Puts the stand-in where a program is looked for, and reads what its processes left of themselves."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tests.worker.backends import fake_cli

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True)
class Word:
    """What a program's process was given."""

    pid: int
    argv: list[str]
    env: dict[str, str]
    stdin: str


@dataclass(frozen=True)
class Place:
    """A folder with ``bin``, to be put on PATH, and ``notes``."""

    folder: Path

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    def put(
        self,
        binary: str,
        *,
        recorded: Path,
        real: list[str] | None = None,
        tamper: str | None = None,
        record: bool = False,
        keeps: Mapping[str, str] = NOTHING,
        calls: tuple[tuple[str, dict[str, Any]], ...] | None = None,
        talks: bool = False,
    ) -> None:
        """Have ``binary`` play ``recorded``, or run ``real``; ``record`` writes over what was recorded.

        ``keeps``: patterns of files of its that are recorded too, of each the lines with a certain word in them.
        ``talks``: it is spoken to while it works, and ``real`` is what is spoken to.
        ``calls``: what the first processes of a recording do at Daemon MCP, for real, one each; the others come by.
        """
        for path in (self.bin, self._notes):
            path.mkdir(mode=0o700, exist_ok=True)
        config: dict[str, Any] = {
            "notes": str(self._notes),
            "folder": str(self.folder),
            "keeps": dict(keeps),
            "calls": calls,
            "talks": talks,
            "tamper": tamper,
            "real": real,
            "recorded": str(recorded),
            "record": str(recorded) if record else None,
            "replace": {str(self.folder): "/bed", str(self.folder).replace("/", "-"): "-bed"},
        }
        source = Path(fake_cli.__file__).read_text("utf-8")
        path = self.bin / binary
        path.write_text(f"#!{sys.executable} -IS\n{source}\n\nmain({config!r})\n", "utf-8")
        path.chmod(0o755)

    def words(self) -> list[Word]:
        """What the program's processes were given, in their order."""
        notes = sorted(self._notes.glob("*.json"), key=lambda path: int(path.stem))
        found = [Word(**json.loads(path.read_text("utf-8"))) for path in notes]
        told = [path.with_suffix(".stdin") for path in notes]
        return [
            replace(word, stdin=path.read_text("utf-8")) if path.exists() else word
            for word, path in zip(found, told, strict=True)
        ]

    @property
    def _notes(self) -> Path:
        return self.folder / "notes"
