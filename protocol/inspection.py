"""Documents of files that need no kernel: ``validate``, ``config``, ``run --dry-run``, ``tool`` and ``skills``."""

from typing import Any, Literal

import msgspec

from protocol.api.document import Document, FileError

Kind = Literal["agent", "workflow", "project", "memory"]


class CheckedFile(msgspec.Struct, frozen=True, kw_only=True):
    """Checked file with all its mistakes."""

    path: str
    kind: Kind
    ok: bool
    errors: tuple[FileError, ...] = ()
    warnings: tuple[FileError, ...] = ()
    """Parts of the file that are valid but that this machine would refuse."""


class Validation(Document, frozen=True, kw_only=True):
    """``validate``: all checked files, including the files that they reference."""

    schema: str = "awk/validate/1"
    files: tuple[CheckedFile, ...]


class Resolution(Document, frozen=True, kw_only=True):
    """``config``: a definition as the kernel reads it.

    ``origins`` maps the path of every value in ``definition`` (``timeouts.idle``, ``setup[0].shell``) to its origin:
    ``file:line``, ``default``, or a description. Durations are text, as in a file.
    """

    schema: str = "awk/config/1"
    kind: Kind
    name: str | None
    path: str | None
    definition: dict[str, Any]
    origins: dict[str, str]


class SoloWorkflow(Document, frozen=True, kw_only=True):
    """A workflow with one agent in place of all its members (``run --compare solo``): the ``text`` of its file."""

    schema: str = "awk/solo/1"
    path: str
    name: str
    members: tuple[str, ...]
    agent: str
    """Name of the agent, unique in the project."""
    text: str
    notes: tuple[str, ...] = ()
    """Notes about settings that differ between members, and about omitted parts."""
    trees: bool = False
    """Whether the agents work in git working trees."""
    tokens: int | None = None
    """Token budget of a run, as the workflow file sets it."""
    cost_usd: float | None = None


class CopiedProject(msgspec.Struct, frozen=True, kw_only=True):
    """Copy of a project (``run --compare solo``). ``git``: the copy has a commit. ``inside``:
    path of the project in the copy."""

    git: bool
    inside: str


class DoctorRow(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one check. ``fix`` is the remedy if the result is not ``ok``."""

    check: str
    ok: bool
    detail: str
    fix: str | None = None


def fine(check: str, detail: str) -> DoctorRow:
    """Return the row of a successful check."""
    return DoctorRow(check=check, ok=True, detail=detail)


def fault(check: str, detail: str, fix: str) -> DoctorRow:
    """Return the row of a problem."""
    return DoctorRow(check=check, ok=False, detail=detail, fix=fix)


class DoctorReport(Document, frozen=True, kw_only=True):
    """``doctor``: the checks of this machine and this project, in their order."""

    schema: str = "awk/doctor/1"
    rows: tuple[DoctorRow, ...]


class AdoptedFile(msgspec.Struct, frozen=True, kw_only=True):
    """File that ``adopt`` would write, has written, or kept because it exists. ``sources`` are the adopted files."""

    path: str
    state: Literal["new", "written", "kept"]
    sources: tuple[str, ...]
    text: str


class NotAdopted(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a file without a counterpart, with the reason."""

    source: str
    reason: str


class Adoption(Document, frozen=True, kw_only=True):
    """``adopt``: the files of other coding agents that were found, and the result."""

    schema: str = "awk/adopt/1"
    found: tuple[str, ...]
    files: tuple[AdoptedFile, ...]
    not_adopted: tuple[NotAdopted, ...]


class DiskRow(msgspec.Struct, frozen=True, kw_only=True):
    """Data that uses disk space: its group, and the command that reduces it, if there is one."""

    group: str
    what: str
    bytes: int
    files: int | None = None
    """Number of files; None for a part of the database."""
    way: str | None = None


class RunDisk(msgspec.Struct, frozen=True, kw_only=True):
    """Disk usage of a run: its messages and work in the log, and its working trees."""

    id: str
    run: str
    state: str
    log_bytes: int
    tree_bytes: int


class DiskUsage(Document, frozen=True, kw_only=True):
    """``df``: disk usage of the project's state, the largest part first, and the largest runs."""

    schema: str = "awk/df/1"
    state: str
    total_bytes: int
    rows: tuple[DiskRow, ...]
    runs: tuple[RunDisk, ...]
    more_runs: int = 0


class NeededKernel(Document, frozen=True, kw_only=True):
    """Need for a new kernel in a project whose kernel has exited, with the reason."""

    schema: str = "awk/needed/1"
    needed: bool
    why: str


class PlannedMember(msgspec.Struct, frozen=True, kw_only=True):
    """Member of a run that would start. ``ref`` is None for an inline agent of the workflow."""

    name: str
    ref: str | None
    backend: str
    model: str
    provider: str | None
    base_url: str | None
    keys: tuple[str, ...]
    """Variables that may contain the key, in order of precedence; empty if the member needs no key."""
    ready: bool
    """Whether the member could start now: its key is set or not needed."""


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    """Setup command in which the known variables are replaced by their values."""

    shell: str
    bind: str | None = msgspec.field(default=None, name="as")
    timeout_seconds: float


class Plan(Document, frozen=True, kw_only=True):
    """``run --dry-run``: the planned run. Outputs of setup steps remain ``${{ name }}``, because no command ran."""

    schema: str = "awk/dry-run/1"
    run: str
    path: str
    params: dict[str, Any]
    members: tuple[PlannedMember, ...]
    setup: tuple[PlannedStep, ...]
    kickoff: str | None
    wakes: tuple[str, ...]
    """Members that the kickoff mentions."""
    trust: tuple[str, ...]
    """Parts of the run that need trust."""
    missing: tuple[str, ...]
    """Environment variables and keys that are not set and would prevent the run."""
    verdict: str | None = None
    """Vote that would decide the result of the run."""


class WorkerCheckRow(DoctorRow, frozen=True, kw_only=True):
    """Result of one requirement for worker programs. ``fix`` is empty if the result is ``ok``."""

    fix: str = ""


class WorkerCheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """``awk worker check``: all checks in order."""

    schema: Literal["awk/worker-check/1"] = "awk/worker-check/1"
    command: tuple[str, ...]
    checks: tuple[WorkerCheckRow, ...]


class ToolRow(msgspec.Struct, frozen=True, kw_only=True):
    """Tool that agents can use. ``switch`` is its name in ``tools:``; ``agents`` are the agents that list it there."""

    name: str
    switch: str
    kind: Literal["built in", "command", "mock"]
    description: str
    read_only: bool
    command: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()


class ToolList(Document, frozen=True, kw_only=True):
    """Result of ``awk tool list``."""

    schema: str = "awk/tool-list/1"
    tools: tuple[ToolRow, ...]


class ProjectWritten(Document, frozen=True, kw_only=True):
    """``awk tool add|import|mock|rm``: the project file and the changed tools."""

    schema: str = "awk/tool-written/1"
    file: str
    tools: tuple[str, ...]
    changed: bool


class SkillRow(msgspec.Struct, frozen=True, kw_only=True):
    """Skill of the project. ``path`` is its folder; ``source`` and ``commit`` are the origin of an imported skill."""

    name: str
    description: str
    path: str
    digest: str
    agents: tuple[str, ...] = ()
    source: str | None = None
    commit: str | None = None
    edited: bool = False
    """Whether the skill was changed after its import."""


class SkillList(Document, frozen=True, kw_only=True):
    """``awk skills list``, and the result of the other skill commands. ``skipped``: invalid folders."""

    schema: str = "awk/skills-list/1"
    skills: tuple[SkillRow, ...]
    skipped: tuple[str, ...] = ()


class SkillFile(msgspec.Struct, frozen=True, kw_only=True):
    """File of a fetched skill. ``name`` is a relative path that stays inside the skill."""

    name: str
    program: bool
    data: bytes


class FetchedSkill(msgspec.Struct, frozen=True, kw_only=True):
    """Skill as it is in a commit. ``digest`` is the digest of a folder with exactly these files."""

    name: str
    description: str
    digest: str
    files: tuple[SkillFile, ...]


class FetchedSkills(Document, frozen=True, kw_only=True):
    """Skills of a source. ``source`` is its normalized name, ``skipped`` lists omitted skills with the reason."""

    schema: str = "awk/fetched-skills/1"
    source: str
    commit: str
    skills: tuple[FetchedSkill, ...]
    skipped: tuple[str, ...] = ()


class SkillPin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pin of an imported skill in the lock file."""

    source: str
    commit: str
    digest: str
