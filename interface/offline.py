"""Questions about files that need no kernel, answered by ``kernel.inspect`` in this process.

This is the only module of the interface that may import the kernel (.importlinter). It does so when a question is
asked, so other commands start without it. Refusals are raised as Failure.
"""

# ruff: noqa: PLC0415

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from msgspec.structs import asdict

from interface.discovery import Project
from interface.failure import SCARCE, Failure, Place
from protocol.errors import Refused
from protocol.remote_ref import is_remote
from protocol.text import encode_json, is_text, text_environment

if TYPE_CHECKING:
    from protocol.agent_files import ContextCounts
    from protocol.api.document import FileError
    from protocol.inspection import (
        CopiedProject,
        DiskUsage,
        DoctorReport,
        FetchedSkills,
        Kind,
        Plan,
        Resolution,
        SkillList,
        SoloWorkflow,
        ToolList,
        Validation,
    )
    from protocol.memory_eval import EvalReport, GrowthReport
    from protocol.standby import BackupReport, RestoreReport, StandbyReport
    from protocol.tools import ProjectTool
    from protocol.trust import Demands

P = ParamSpec("P")
Answer = TypeVar("Answer")
_NOT_INHERITED = ("PYTHON", "LD_", "DYLD_")
"""Prefixes of variables that would steer programs that are started, and their libraries."""


def _question(ask: Callable[P, Answer]) -> Callable[P, Answer]:
    @wraps(ask)
    def answer(*args: P.args, **keywords: P.kwargs) -> Answer:
        import logging

        for value in (*args, *keywords.values()):
            for word in value if isinstance(value, Sequence) and not isinstance(value, str) else (value,):
                if isinstance(word, str) and not is_text(word):
                    raise Failure("usage", f"{word!a} is not UTF-8 text")
        log = logging.getLogger("kernel")
        if not log.handlers:  # without any, warnings would go to standard error
            log.addHandler(logging.NullHandler())
        try:
            return ask(*args, **keywords)
        except Refused as refused:
            places = places_of(getattr(refused, "errors", ()))
            raise Failure(refused.code, refused.text, refused.hint, places=places) from refused
        except OSError as error:
            if error.filename is None or error.errno in SCARCE:
                raise
            raise Failure(
                "failed", f"{error.filename}: {error.strerror}", "check the path and its permissions"
            ) from error
        except BaseExceptionGroup as group:
            if group.subgroup(KeyboardInterrupt) is not None:  # during what trio runs
                raise KeyboardInterrupt from group
            raise

    return answer


def places_of(errors: "Iterable[FileError]") -> tuple[Place, ...]:
    """Return mistakes as a Failure has them."""
    return tuple(Place(**asdict(error)) for error in errors)


def mistake(place: Place) -> Failure:
    """Return one mistake as the failure that a start would report."""
    text = f"{place.where}: {place.message}" if place.where else place.message
    return Failure("bad_definition", text, places=[place])


def shell_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return ``environ`` for programs and for checks of keys: text, without what steers an interpreter."""
    kept = {name: value for name, value in text_environment(environ)[0].items() if not name.startswith(_NOT_INHERITED)}
    kept.setdefault("HOME", os.path.expanduser("~"))
    return kept


@_question
def validation(project: Project, cwd: str, files: Sequence[str], environ: Mapping[str, str]) -> "Validation":
    """Check files, all of the project's without any. ``cwd`` is what they are relative to. Raises Failure."""
    from kernel.inspect.validate import project_grants, validate

    root, shell = Path(project.root), shell_environment(environ)
    return validate(root, Path(cwd), files, shell, project_grants(root, Path(project.state), shell))


def mistakes(root: str, files: Sequence[str]) -> tuple[Place, ...]:
    """Return the mistakes in ``files`` of the project at ``root``; empty if they cannot be checked."""
    from kernel.inspect.validate import validate

    try:
        checked = _question(validate)(Path(root), Path(root), files)
    except Failure:
        return ()
    return places_of(error for file in checked.files for error in file.errors)


@_question
def resolution(root: str, cwd: str, asked: str | None) -> "Resolution":
    """Resolve a file, an agent, or a workflow (``awk config``). Raises Failure."""
    from kernel.inspect.resolve import resolution

    return resolution(Path(root), Path(cwd), asked)


def _fetched(project: Project, asked: str, environ: Mapping[str, str]) -> Any:
    if not is_remote(asked):
        return None
    from kernel.inspect.programs import fetch_readonly

    return fetch_readonly(Path(project.root), Path(project.state), asked, environ)


@_question
def plan(
    project: Project,
    workflow: str,
    tag: str,
    params: Sequence[str],
    environ: Mapping[str, str],
    *,
    max_usd: float | None = None,
    exit_from: str | None = None,
) -> "Plan":
    """Plan a run (``awk run --dry-run``). Raises Failure."""
    from kernel.inspect.preview import dry_run

    root, shell = Path(project.root), shell_environment(environ)
    checkout = _fetched(project, workflow, shell)
    return dry_run(root, workflow, tag, params, shell, checkout, max_usd=max_usd, exit_from=exit_from)


@_question
def agent_list(root: str) -> bytes:
    """Return the agents of the project (protocol.api.AgentList). Raises Failure."""
    from kernel.inspect import agents

    return encode_json(agents.agent_list(Path(root)))


@_question
def agent_info(environ: Mapping[str, str], root: str, name: str) -> bytes:
    """Return one agent (protocol.api.AgentInfo), as a kernel with ``environ`` would. Raises Failure."""
    from kernel.inspect import agents

    return encode_json(agents.agent_info(Path(root), name, shell_environment(environ)))


@_question
def context_counts(project: Project, name: str) -> "ContextCounts":
    """Count what the context of the agent ``name`` holds. Raises Failure."""
    from kernel.inspect import agents

    return agents.context_counts(Path(project.root), Path(project.state), name)


@_question
def workflows_with(root: str, name: str) -> tuple[str, ...]:
    """Return the files of those workflows that refer to the agent ``name``. Raises Failure."""
    from kernel.inspect.agents import workflows_using

    return workflows_using(Path(root), name)


@_question
def check_text(root: str, name: str, text: str, *, new: bool = False) -> tuple[Place, ...]:
    """Return the mistakes in ``text`` as the file of agent ``name``. Raises Failure if it cannot be checked.

    ``new``: there must be no agent of that name (already_exists).
    """
    from kernel.inspect.agents import check_agent_text

    return places_of(check_agent_text(Path(root), name, text.encode(), new=new).errors)


@_question
def check_project_text(name: str, text: str) -> tuple[Place, ...]:
    """Return the mistakes in ``text`` as the project file ``name``."""
    from kernel.inspect.agents import check_project_text

    return places_of(check_project_text(name, text.encode()))


@_question
def tools(root: str) -> "ToolList":
    """Return the tools that agents of the project can have. Raises Failure."""
    from kernel.inspect.agents import tool_list

    return tool_list(Path(root))


@_question
def tools_in(name: str, text: str) -> "dict[str, ProjectTool]":
    """Return the tools that a file of this name and ``text`` declares. Raises Failure."""
    from kernel.inspect.agents import tools_in

    return tools_in(name, text.encode())


@_question
def skills(root: str) -> "SkillList":
    """Return the skills of the project."""
    from kernel.inspect.agents import skill_list

    return skill_list(Path(root))


@_question
def fetch_skills(source: str, environ: Mapping[str, str]) -> "FetchedSkills":
    """Fetch the skills of ``github:owner/repo@ref/path``. Raises Failure."""
    from kernel.inspect.programs import fetch_skills

    return fetch_skills(source, shell_environment(environ))


@_question
def trust_demands(project: Project, asked: Sequence[str], environ: Mapping[str, str]) -> "Demands":
    """Return what the named files demand, all of the project's without any. Raises Failure."""
    from kernel.inspect.trust import trust_demands

    root, state = map(Path, project)
    return trust_demands(root, asked, lambda name: _fetched(project, name, shell_environment(environ)), state)


@_question
def schema_text(kind: "Kind") -> str:
    """Return the JSON Schema of a file."""
    from kernel.inspect.schema import schema_text

    return schema_text(kind)


@_question
def backend_list(environ: Mapping[str, str]) -> bytes:
    """Return the backends available in ``environ`` (protocol.api.BackendList). Raises Failure."""
    from kernel.inspect.programs import backends

    return encode_json(backends(shell_environment(environ)))


@_question
def doctor(project: Project, environ: Mapping[str, str], now: float, *, runs: bool) -> "DoctorReport":
    """Inspect the machine and the project; ``runs``: a kernel has its database open. Raises Failure."""
    from kernel.inspect.doctor import doctor

    return doctor(Path(project.root), Path(project.state), shell_environment(environ), now=now, runs=runs)


@_question
def disk_usage(project: Project, runs: int) -> "DiskUsage":
    """Measure the state; at most ``runs`` runs are listed. Raises Failure."""
    from kernel.inspect.disk_usage import disk_usage

    return disk_usage(Path(project.root), Path(project.state), runs)


@_question
def backup(project: Project, file: str, now: float, *, force: bool) -> "BackupReport":
    """Write a backup. Raises Failure."""
    from kernel.inspect.backup import backup

    return backup(Path(project.root), Path(project.state), file, now=now, force=force)


@_question
def restore(project: Project, file: str, now: float, *, promote: bool, force: bool, trusted: bool) -> "RestoreReport":
    """Put a backup, or with ``promote`` the standby in the folder ``file``, in place of the state. Raises Failure."""
    from kernel.inspect import backup, standby

    act = standby.promote if promote else backup.restore
    return act(Path(project.root), Path(project.state), file, now=now, force=force, trusted=trusted)


@_question
def check_standby(folder: str, now: float) -> "StandbyReport":
    """Check the copy of a log. Raises Failure."""
    from kernel.inspect.standby import check_standby

    return check_standby(folder, now=now)


@_question
def solo_workflow(root: str, asked: str) -> "SoloWorkflow":
    """Return a workflow with one agent in place of its members. Raises Failure."""
    from kernel.inspect.preview import solo_workflow

    return solo_workflow(Path(root), asked)


@_question
def copy_project(
    root: str, folder: str, hidden: str, environ: Mapping[str, str], *, file: str = "", text: str = ""
) -> "CopiedProject":
    """Copy a project to a new folder, without the folder ``hidden``. Raises Failure."""
    from kernel.inspect.project_copy import copy_project

    return copy_project(Path(root), folder, hidden, shell_environment(environ), file=file, text=text)


@_question
def memory_eval(text: bytes) -> "EvalReport":
    """Measure what is found in the conversations of a file of questions. Raises Failure."""
    from kernel.inspect.memory_measures import memory_eval

    return memory_eval(text)


@_question
def memory_growth(runs: int, seed: int) -> "GrowthReport":
    """Measure how a memory grows over generated runs. Raises Failure."""
    from kernel.inspect.memory_measures import memory_growth

    return memory_growth(runs, seed)
