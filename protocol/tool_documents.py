"""Documents about tools and skills of a project: what ``awk tool`` and ``awk skills`` print and work from."""

from typing import Literal

import msgspec

ToolKind = Literal["built in", "command", "mock"]


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    schema: str


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
