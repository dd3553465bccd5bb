"""Questions about files that need no kernel, answered by ``kernel.inspect`` in this process.

This is the only module of the interface that may import the kernel (.importlinter). Its attributes are the modules of
``kernel.inspect``: each is imported when one of its functions is called, so other commands start without it. Refusals
are raised as Failure. ``StoredLogClient`` answers read requests from the stored log (``kernel.api.stored``).
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import asdict

from interface.client import Client, Stream, query_text
from interface.clock import Clock
from interface.discovery import KernelEndpoint, Project
from interface.failure import SCARCE, Failure, Place
from interface.http_client import Address
from protocol.errors import Refused
from protocol.remote_ref import is_remote
from protocol.text import is_text, text_environment

if TYPE_CHECKING:
    from kernel.api import stored
    from kernel.inspect import (
        agents,
        backup,
        disk_usage,
        doctor,
        memory_measures,
        preview,
        programs,
        project_copy,
        resolve,
        schema,
        standby,
        validate,
    )
    from protocol.api.document import FileError
    from protocol.inspection import Plan
    from protocol.trust import Demands

__all__ = (
    "agents",
    "backup",
    "disk_usage",
    "doctor",
    "memory_measures",
    "preview",
    "programs",
    "project_copy",
    "resolve",
    "schema",
    "standby",
    "stored",
    "validate",
)
_PLACES = {"stored": "api"}
"""Packages of the modules outside ``kernel.inspect``."""
_NOT_INHERITED = ("PYTHON", "LD_", "DYLD_")
"""Prefixes of environment variables that change the behaviour of started programs or their libraries."""


class _Module:
    """Functions of a module of ``kernel.inspect``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, function: str) -> Callable[..., Any]:
        return partial(_ask, self._name, function)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> _Module:
        if name not in __all__:
            raise AttributeError(name)
        return _Module(name)


def _ask(module: str, function: str, *args: Any, **keywords: Any) -> Any:
    import logging  # noqa: PLC0415  (only for answers)

    for value in (*args, *keywords.values()):
        for word in value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else (value,):
            if isinstance(word, str | Path) and not is_text(str(word)):
                raise Failure("usage", f"{str(word)!a} is not UTF-8 text")
    log = logging.getLogger("kernel")
    if not log.handlers:  # without any, warnings would go to standard error
        log.addHandler(logging.NullHandler())
    try:
        return getattr(import_module(f"kernel.{_PLACES.get(module, 'inspect')}.{module}"), function)(*args, **keywords)
    except Refused as refused:
        places = places_of(getattr(refused, "errors", ()))
        status = refused.meaning.http_status
        raise Failure(refused.code, refused.text, refused.hint, places=places, http_status=status) from refused
    except OSError as error:
        if error.filename is None or error.errno in SCARCE:
            raise
        raise Failure("failed", f"{error.filename}: {error.strerror}", "check the path and its permissions") from error
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is not None:  # during what trio runs
            raise KeyboardInterrupt from group
        raise


def places_of(errors: "Iterable[FileError]") -> tuple[Place, ...]:
    """Convert mistakes in files to the form that Failure has."""
    return tuple(Place(**asdict(error)) for error in errors)


def mistake(place: Place) -> Failure:
    """Return one mistake as the failure that a start would report."""
    text = f"{place.where}: {place.message}" if place.where else place.message
    return Failure("bad_definition", text, places=[place])


def paths(project: Project) -> tuple[Path, Path]:
    """Return the root and the state directory of ``project``."""
    return Path(project.root), Path(project.state)


def shell_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return ``environ`` for programs and for checks of keys: text, without what steers an interpreter."""
    kept = {name: value for name, value in text_environment(environ)[0].items() if not name.startswith(_NOT_INHERITED)}
    kept.setdefault("HOME", os.path.expanduser("~"))
    return kept


class StoredLogClient(Client):
    """Client that answers read requests from the log of a project whose kernel does not run. It writes nothing."""

    def __init__(self, project: Project, environ: Mapping[str, str], clock: Clock) -> None:
        super().__init__(KernelEndpoint(Address("", 0), "", 0, project.state))
        self._asked, self._clock = (*paths(project), shell_environment(environ)), clock

    def pieces(self, path: str, query: Mapping[str, str] | None = None) -> Iterator[bytes]:
        """Return the kernel's answer of ``GET path``. Raises Failure, also if only a kernel can answer."""
        now_ms = int(self._clock.wall() * 1000)
        found: Iterator[bytes] = _ask("stored", "pieces", *self._asked, path + query_text(query), now_ms)
        return found

    def get(self, path: str, query: Mapping[str, str] | None = None, *, wait_seconds: float | None = None) -> bytes:
        """Return the kernel's answer of ``GET path`` as ``pieces`` does."""
        return b"".join(self.pieces(path, query))

    def events(self, query: Mapping[str, str], last_id: str = "") -> Stream:
        """Open the stream of stored events. Raises Failure."""
        found: Any = self.pieces("/events", query)
        return Stream(found, cast("Any", SimpleNamespace(pieces=lambda: found)), lambda: None)


def mistakes(root: str, files: Sequence[str]) -> tuple[Place, ...]:
    """Return the mistakes in ``files`` of the project at ``root``; empty if they cannot be checked."""
    try:
        checked = _ask("validate", "validate", Path(root), Path(root), files)
    except Failure:
        return ()
    return places_of(error for file in checked.files for error in file.errors)


def _fetched(project: Project, asked: str, environ: Mapping[str, str]) -> Any:
    """Return the checkout of a workflow from another repository; None for a workflow of the project."""
    return _ask("programs", "fetch_readonly", *paths(project), asked, environ) if is_remote(asked) else None


def plan(
    project: Project, workflow: str, tag: str, params: Sequence[str], environ: Mapping[str, str], **limits: Any
) -> "Plan":
    """Plan a run (``awk run --dry-run``). Raises Failure."""
    shell = shell_environment(environ)
    checkout = _fetched(project, workflow, shell)
    made: Plan = _ask("preview", "dry_run", Path(project.root), workflow, tag, params, shell, checkout, **limits)
    return made


def trust_demands(project: Project, asked: Sequence[str], environ: Mapping[str, str]) -> "Demands":
    """Return the trust demands of the ``asked`` agents and workflows (default: of the project). Raises Failure."""
    root, state = paths(project)
    shell = shell_environment(environ)
    found: Demands = _ask("trust", "trust_demands", root, asked, partial(_fetched, project, environ=shell), state)
    return found
