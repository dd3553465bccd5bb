"""Jobs for tests of one program's file: what a runner would hand it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from protocol.ipc import Provider
from tests.worker.fake_kernel import make_start
from worker.backends.backend import BackendJob, CliBackend, Event, ProgramExit

KEY = "sk-secret"
WELL = ProgramExit(code=0, signal=None, stderr="")
TOKEN = "token-of-the-attempt"
PROVIDER = Provider(name="scripted", dialect="openai", base_url="http://127.0.0.1:9/v1", api_key=KEY)


def make_job(
    backend: str, folder: Path, *, session: str | None = None, own: Mapping[str, str] | None = None, **changes: Any
) -> BackendJob:
    """A job in ``folder``; ``changes`` are fields of its start frame, ``own`` variables of its environment."""
    places = {name: folder / name for name in ("project", "place", "home")}
    for path in places.values():
        path.mkdir(mode=0o700, exist_ok=True)
    fields: dict[str, Any] = {
        "backend": backend, "model": "scripted", "provider": PROVIDER, "cwd": str(places["project"]), "token": TOKEN,
        "approval": "ask",
    }  # fmt: skip
    return BackendJob(
        start=make_start(**{**fields, **changes}),
        binary=f"/bin/{backend}",
        message="do it",
        session=session,
        place=places["place"],
        home=places["home"],
        env={"PATH": "/usr/bin", "HOME": "/home/user", **(own or {})},
        max_turns=10,
    )


def heard(program: CliBackend, *lines: dict[str, Any]) -> list[Event]:
    return [event for line in lines for event in program.read(json.dumps(line).encode())]


def written(folder: Path) -> dict[Path, str]:
    return {path.relative_to(folder): path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()}
