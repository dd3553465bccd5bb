"""Merging what the agents of a run did into a branch: asked for, under way, and what came of it."""

from typing import Literal

import msgspec

from protocol.api.document import Ask, Body, Document

MergeState = Literal["requested", "merging", "checked", "merged", "refused", "possible"]
"""possible: a dry run found nothing against it."""


class MergeRequest(Ask, frozen=True, kw_only=True):
    """The terms of a merge. What is not given is as the workflow's ``deliver`` says."""

    agent: str | None = None
    """Only the branch of this one."""
    into: str | None = None
    """The branch to merge into; the one that the run began from, where nobody says another."""
    squash: bool | None = None
    """One commit for all of it, in place of a merge of each branch."""
    check: str | None = None
    """A shell command that has to end with 0 on the result; "": none."""
    give_back: bool = False
    """What cannot be merged becomes work for the agent whose it is."""
    dry_run: bool = False
    """Only say what would come of it; the check is not run."""


class MergedBranch(Body, frozen=True, kw_only=True):
    """The branch of one agent. ``commits`` are those of it that the target did not have."""

    agent: str
    branch: str
    tip: str = ""
    """The commit that it was at."""
    commits: int = 0
    conflict: bool = False


class MergeOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a merge, as far as it is known."""

    branches: tuple[MergedBranch, ...] = ()
    commit: str | None = None
    """What the target was moved to for it; null: there was nothing to merge, or it is not merged."""
    files: tuple[str, ...] = ()
    """Those that stand against it: in conflict, or changed where the target is checked out. At most 1,000."""
    why: str = ""
    """Why it was refused, or what else is to be known."""
    output: str = ""
    """The end of what a check printed that failed."""
    returned_to: tuple[str, ...] = ()
    """The instructions that it became."""


class MergeInfo(Document, frozen=True, kw_only=True):
    """One merge. ``state``: only ``merged`` and ``refused`` (and ``possible``) are its end."""

    id: str
    """``g3``; of a dry run "": it is not kept."""
    run: str
    """``r12``."""
    state: MergeState
    into: str
    squash: bool = False
    check: str | None = None
    delivers: bool = False
    """The workflow's file asked for it."""
    tries: int = 0
    branches: tuple[MergedBranch, ...] = ()
    commit: str | None = None
    files: tuple[str, ...] = ()
    why: str = ""
    output: str = ""
    returned_to: tuple[str, ...] = ()
    requested_at: str | None = None
    ended_at: str | None = None
    schema: str = "awk/merge/1"


class CheckReport(Document, frozen=True, kw_only=True):
    """The outcome of a check. ``why`` it failed, and the end of what it printed then."""

    run: str
    ok: bool
    why: str = ""
    output: str = ""
    schema: str = "awk/check/1"
