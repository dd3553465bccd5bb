"""Questions to the kernel's loader without a kernel: which agents there are, and whether files mean what they should.

``kernel.inspect`` reads files in a process of its own and answers with one JSON document; what it refuses becomes a
Failure, and so does its death.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from interface.failure import Failure, Place

SECONDS: Final = 60.0
"""The time it may take; it needs a fraction of one."""
_TAIL_LINES: Final = 5
_NOT_INHERITED: Final = ("PYTHON", "LD_", "DYLD_")
"""Prefixes of variables that would steer its interpreter and its libraries."""


def run_inspect(
    environ: Mapping[str, str] | None, verb: str, *words: str, given: bytes = b"", seconds: float = SECONDS
) -> bytes:
    """The document that ``verb`` answers ``words`` with; ``given`` is what it reads.

    ``environ`` matters only for what says whether keys are set. Raises Failure.
    """
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            raise Failure("usage", f"{word!a} is not UTF-8 text") from error
    kept = {name: value for name, value in (environ or {}).items() if not name.startswith(_NOT_INHERITED)}
    kept.setdefault("HOME", os.path.expanduser("~"))  # where the user's own agents are
    argv = [sys.executable, "-I", "-m", "kernel.inspect", verb, *words]
    try:
        done = subprocess.run(argv, env=kept, input=given, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        text = f"the loader did not answer within {seconds:.0f} s"
        raise Failure("failed", text, "is the machine very busy, or the project on a slow disk?") from error
    document = done.stdout
    if document.startswith(b'{"schema":"awk/error'):
        raise failure_of(json.loads(document))
    if done.returncode not in (0, 78) or not document:
        how = f"with exit code {done.returncode}" if done.returncode >= 0 else f"by signal {-done.returncode}"
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()[-_TAIL_LINES:]
        tail = "".join(f"\n  | {line}" for line in lines)
        raise Failure("failed", f"the loader ended {how} and no answer{tail}", "nothing was changed; try again")
    return document


def failure_of(document: Mapping[str, Any]) -> Failure:
    """A document of what was refused, as the Failure that it is."""
    places = [place_of(error) for error in document.get("errors", ())]
    return Failure(str(document["code"]), str(document["detail"]), document.get("hint"), places=places)


def place_of(error: Mapping[str, Any]) -> Place:
    """One mistake of a document."""
    return Place(
        path=str(error["path"]),
        line=int(error["line"]),
        column=int(error["column"]),
        where=str(error["where"]),
        message=str(error["message"]),
        hint=error.get("hint"),
        source=str(error.get("source", "")),
    )


def mistakes(root: str, files: Sequence[str]) -> tuple[Place, ...]:
    """The mistakes in ``files`` of the project at ``root``; nothing where nobody can tell."""
    try:
        document = json.loads(run_inspect(None, "validate", "--project", root, "--cwd", root, "--", *files))
    except Failure:
        return ()
    return tuple(place_of(error) for file in document["files"] for error in file["errors"])


def mistake(place: Place) -> Failure:
    """One mistake by itself, in the words in which a start would be refused for it."""
    text = f"{place.where}: {place.message}" if place.where else place.message
    return Failure("bad_definition", text, places=[place])


def agent_list(root: str) -> bytes:
    """The agents of the project (protocol.api.AgentList). Raises Failure."""
    return run_inspect(None, "agents", "--project", root)


def agent_info(environ: Mapping[str, str], root: str, name: str) -> bytes:
    """One agent of the project (protocol.api.AgentInfo), as a kernel with ``environ`` would have it.

    Raises Failure (unknown_agent, bad_definition).
    """
    return run_inspect(environ, "agent", "--project", root, "--", name)


def workflows_with(root: str, name: str) -> tuple[str, ...]:
    """The files of those workflows that refer to the agent ``name``. Raises Failure."""
    return tuple(json.loads(run_inspect(None, "uses", "--project", root, "--", name))["workflows"])


def backend_list(environ: Mapping[str, str]) -> bytes:
    """The backends, as far as ``environ`` says where they are (protocol.api.BackendList). Raises Failure."""
    return run_inspect(environ, "backends")


def check_text(root: str, name: str, text: str, *, new: bool = False) -> tuple[Place, ...]:
    """The mistakes in ``text`` as the file of the agent ``name``. Raises Failure where it cannot be judged.

    ``new``: there must be no agent of that name (already_exists).
    """
    flags = ["--new"] if new else []
    answer = run_inspect(None, "judge", "--project", root, *flags, "--", name, given=text.encode())
    return tuple(place_of(error) for file in json.loads(answer)["files"] for error in file["errors"])
