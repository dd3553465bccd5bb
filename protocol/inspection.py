"""Documents of files that need no kernel: ``validate``, ``config``, ``run --dry-run``, ``tool`` and ``skills``."""

from typing import Any, Literal

import msgspec

from protocol.api.document import FileError

Kind = Literal["agent", "workflow", "project", "memory"]


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of its own. Every subclass fixes its schema, which is declared here so that it comes first."""

    schema: str


class CheckedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file, and every mistake in it."""

    path: str
    kind: Kind
    ok: bool
    errors: tuple[FileError, ...] = ()
    warnings: tuple[FileError, ...] = ()
    """What is sound and would be refused on this machine."""


class Validation(_Document, frozen=True, kw_only=True):
    """``validate``: all files that were looked at, those that others led to among them."""

    schema: str = "awk/validate/1"
    files: tuple[CheckedFile, ...]


class Resolution(_Document, frozen=True, kw_only=True):
    """``config``: a definition as the kernel would take it.

    ``origins`` maps the path of every value in ``definition`` (``timeouts.idle``, ``setup[0].shell``) to where it
    came from: ``file:line``, ``default``, or words. Durations are text, as a file would have them.
    """

    schema: str = "awk/config/1"
    kind: Kind
    name: str | None
    path: str | None
    definition: dict[str, Any]
    origins: dict[str, str]


class SoloWorkflow(_Document, frozen=True, kw_only=True):
    """A workflow with one agent in place of all its members (``run --compare solo``): the ``text`` of its file."""

    schema: str = "awk/solo/1"
    path: str
    name: str
    members: tuple[str, ...]
    agent: str
    """Its name, which no other agent has."""
    text: str
    notes: tuple[str, ...] = ()
    """What was chosen where members differ, and what was left out."""
    trees: bool = False
    """Its agents work in git working trees."""
    tokens: int | None = None
    """What a run of the workflow may use, by its file."""
    cost_usd: float | None = None


class CopiedProject(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of a project (``run --compare solo``): whether it has a commit, and the project's place in it."""

    git: bool
    inside: str


class DoctorRow(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at. Where it is not ``ok``, ``fix`` says what to do."""

    check: str
    ok: bool
    detail: str
    fix: str | None = None


class DoctorReport(_Document, frozen=True, kw_only=True):
    """``doctor``: what was looked at on this machine and in this project, in the order of the checks."""

    schema: str = "awk/doctor/1"
    rows: tuple[DoctorRow, ...]


class DiskRow(msgspec.Struct, frozen=True, kw_only=True):
    """Something that takes room: the group that it counts in, and the way to have less of it, if there is one."""

    group: str
    what: str
    bytes: int
    files: int | None = None
    """None: it is a part of the database."""
    way: str | None = None


class RunDisk(msgspec.Struct, frozen=True, kw_only=True):
    """One run: what was said in it and done for it, and its working trees."""

    id: str
    run: str
    state: str
    log_bytes: int
    tree_bytes: int


class DiskUsage(_Document, frozen=True, kw_only=True):
    """``df``: what of the project's state takes room, the largest first; and the runs that take most."""

    schema: str = "awk/df/1"
    state: str
    total_bytes: int
    rows: tuple[DiskRow, ...]
    runs: tuple[RunDisk, ...]
    more_runs: int = 0


class NeededKernel(_Document, frozen=True, kw_only=True):
    """The need of a project for a kernel, once its own has ended, and why, or why not."""

    schema: str = "awk/needed/1"
    needed: bool
    why: str


class PlannedMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member as it would start. ``ref`` is None for an agent of the workflow's own."""

    name: str
    ref: str | None
    backend: str
    model: str
    provider: str | None
    base_url: str | None
    keys: tuple[str, ...]
    """Variables of which the first one set is its key; empty where it needs none."""
    ready: bool
    """Whether it could start here and now: a key it needs is set."""


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A setup command, with what is known of its variables filled in."""

    shell: str
    bind: str | None = msgspec.field(default=None, name="as")
    timeout_seconds: float


class Plan(_Document, frozen=True, kw_only=True):
    """``run --dry-run``: what would start. Outputs of setup steps stay as ``${{ name }}``: nothing was run."""

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
    """What it would do that needs trust."""
    missing: tuple[str, ...]
    """What would stop it here: variables of the environment and keys that are not set."""
    verdict: str | None = None
    """The vote that would decide over it."""


class WorkerCheckRow(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a program has to do to be a worker. ``fix`` is empty where it is ``ok``."""

    check: str
    ok: bool
    detail: str
    fix: str = ""


class WorkerCheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """``awk worker check``: all that was checked, in order."""

    schema: Literal["awk/worker-check/1"] = "awk/worker-check/1"
    command: tuple[str, ...]
    checks: tuple[WorkerCheckRow, ...]


ToolKind = Literal["built in", "command", "mock"]


class ToolRow(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that agents can have. ``switch`` is the word in ``tools:``; ``agents`` have it there."""

    name: str
    switch: str
    kind: ToolKind
    description: str
    read_only: bool
    command: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()


class ToolList(_Document, frozen=True, kw_only=True):
    """``awk tool list``."""

    schema: str = "awk/tool-list/1"
    tools: tuple[ToolRow, ...]


class ProjectWritten(_Document, frozen=True, kw_only=True):
    """``awk tool add|import|mock|rm``: the project file, and which tools were changed in it."""

    schema: str = "awk/tool-written/1"
    file: str
    tools: tuple[str, ...]
    changed: bool


class SkillRow(msgspec.Struct, frozen=True, kw_only=True):
    """A skill of the project. ``path`` is its folder; ``source`` and ``commit`` are where it was imported from."""

    name: str
    description: str
    path: str
    digest: str
    agents: tuple[str, ...] = ()
    source: str | None = None
    commit: str | None = None
    edited: bool = False
    """It is not what was imported any more."""


class SkillList(_Document, frozen=True, kw_only=True):
    """``awk skills list``, and what the other commands leave. ``skipped``: folders that are wrong."""

    schema: str = "awk/skills-list/1"
    skills: tuple[SkillRow, ...]
    skipped: tuple[str, ...] = ()


class SkillFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a skill that was fetched. ``name`` is relative, and leads nowhere else."""

    name: str
    program: bool
    data: bytes


class FetchedSkill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill as a commit has it. ``digest`` is that of the folder with these files."""

    name: str
    description: str
    digest: str
    files: tuple[SkillFile, ...]


class FetchedSkills(_Document, frozen=True, kw_only=True):
    """The skills of a source. ``source`` is its name in one spelling, ``skipped`` tells of skills left out."""

    schema: str = "awk/fetched-skills/1"
    source: str
    commit: str
    skills: tuple[FetchedSkill, ...]
    skipped: tuple[str, ...] = ()


class SkillPin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The pin of an imported skill, in the lock."""

    source: str
    commit: str
    digest: str
