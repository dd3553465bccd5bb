"""Grants of a user to the files of a project to run or reach things, and what is kept of that (promise P19).

A unit is one subject (an agent, a workflow) with everything it demands, verbatim and in order; its digest stands for
exactly that. What was agreed to is kept in one file of the state directory: commands write it, the kernel reads it.
"""

import hashlib
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

TRUST: Final = "trust.json"
"""The file's name in the state directory of a project."""
TRUST_LOCK: Final = "trust.lock"
"""Held by whoever changes the file."""
TRUST_LIMIT_BYTES: Final = 4 * 1024 * 1024
SHORT: Final = 12
"""Characters of a digest that name a consent."""

Standing = Literal["new", "changed", "kept"]


def digest_of(subject: str, demands: Iterable[str]) -> str:
    """SHA-256, in hex, of ``subject`` and all its ``demands``: another one as soon as a byte or their order differs."""
    return hashlib.sha256(msgspec.json.encode([subject, *demands])).hexdigest()


class TrustUnit(msgspec.Struct, frozen=True, kw_only=True):
    """What one ``subject`` (``agent alice``, ``workflow .workflows/review.yaml``) would run or reach."""

    subject: str
    demands: tuple[str, ...]
    digest: str

    @property
    def genuine(self) -> bool:
        """Return whether the digest is that of the rest."""
        return self.digest == digest_of(self.subject, self.demands)


def unit(subject: str, demands: Iterable[str]) -> TrustUnit:
    """The unit of ``subject`` with its ``demands``."""
    found = tuple(demands)
    return TrustUnit(subject=subject, demands=found, digest=digest_of(subject, found))


def workflow_subject(file: str) -> str:
    """The subject that a workflow's file is."""
    return f"workflow {file}"


class Grant(TrustUnit, frozen=True, kw_only=True):
    """A unit that was agreed to. ``at`` is when, as RFC 3339."""

    at: str

    @property
    def id(self) -> str:
        """Return what ``awk trust revoke`` takes."""
        return self.digest[:SHORT]


class Grants(msgspec.Struct, frozen=True, kw_only=True):
    """The file. ``project`` is the root it is for: another project's consents count for nothing here."""

    project: str
    consents: tuple[Grant, ...] = ()

    def sound(self, project: str) -> tuple[Grant, ...]:
        """Those that are for ``project`` and say what their digest stands for."""
        return tuple(one for one in self.consents if one.genuine) if self.project == project else ()


class Demand(TrustUnit, frozen=True, kw_only=True):
    """A unit that nobody agreed to; ``before`` is what was agreed to for the same subject, if anything was."""

    before: tuple[str, ...] = ()


def changes(asked: Demand) -> tuple[str, ...]:
    """What is new against what was agreed to before; empty where only the order differs, or something is gone."""
    return tuple(one for one in asked.demands if one not in asked.before)


class TrustRow(TrustUnit, frozen=True, kw_only=True):
    """A unit of the project's files now. ``added``: what was not in it when it was last agreed to."""

    state: Standing
    added: tuple[str, ...] = ()


class TrustReport(msgspec.Struct, frozen=True, kw_only=True):
    """``awk trust``: what the files would run or reach, and what of it is trusted."""

    schema: Literal["awk/trust/1"] = "awk/trust/1"
    units: tuple[TrustRow, ...]


class TrustList(msgspec.Struct, frozen=True, kw_only=True):
    """``awk trust list`` and GET /trust: what is kept."""

    schema: Literal["awk/trust-list/1"] = "awk/trust-list/1"
    consents: tuple[Grant, ...]


class Demands(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of the loader in the files it was asked about; ``skipped`` are files that are wrong."""

    schema: Literal["awk/demanded/1"] = "awk/demanded/1"
    units: tuple[TrustUnit, ...]
    skipped: tuple[str, ...] = ()
