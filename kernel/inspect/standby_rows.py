"""Looks whether the log can be copied to where the project file says: trust, the folder, and whose copy is there."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from kernel.agents.standby import standby_unit
from kernel.agents.trust import GrantSource, missing_grants
from kernel.inspect.standby_copier import in_words
from kernel.source.standby_place import BadPlace, look_at
from protocol.inspection import DoctorRow
from protocol.project import StandbySettings

CHECK: Final = "standby"


def standby_rows(
    settings: StandbySettings, state: Path, environ: Mapping[str, str], kept: GrantSource, now: float
) -> Iterator[DoctorRow]:
    """Things that keep the copy from being made or used, each with a way out. Reads the folder, and writes nothing."""
    to = settings.to
    if environ.get("AGENT_WORKER_TRUST") != "1" and missing_grants((standby_unit(settings),), kept):
        yield DoctorRow(
            check=CHECK, ok=False, detail=f"{to} is not trusted, so nothing is copied", fix="look at it: awk trust"
        )
    try:
        os.listdir(to)
        writable = os.access(to, os.W_OK | os.X_OK)
    except OSError as error:
        why, fix = in_words(error, to)
        yield DoctorRow(check=CHECK, ok=False, detail=why, fix=fix)
        return
    if not writable:
        yield DoctorRow(check=CHECK, ok=False, detail=f"{to} cannot be written", fix="see to its permissions, or mount")
    try:
        found = look_at(to)
    except BadPlace as error:
        yield DoctorRow(check=CHECK, ok=False, detail=f"{to}: {error}", fix="awk start: a kernel that runs copies")
        return
    if found.promoted is not None:
        told = f"the copy at {to} took this project's place at {found.promoted.at}, in {found.promoted.root}"
        yield DoctorRow(check=CHECK, ok=False, detail=told, fix="this project must not go on: awk stop")
    elif found.owner.state != os.path.realpath(state):
        told = f"{to} has the copy of another project, {found.owner.root}"
        yield DoctorRow(check=CHECK, ok=False, detail=told, fix="give standby.to an empty folder")
    else:
        ago = "" if found.beat is None else f", {max(0.0, now - found.beat.at):.0f} s ago for the last time"
        yield DoctorRow(check=CHECK, ok=True, detail=f"{found.total_bytes:,} bytes are at {to}{ago}")
