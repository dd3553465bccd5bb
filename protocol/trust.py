"""A user's consents that files of a project may run programs or reach addresses, and their storage (promise P19).

A unit is a subject (an agent, a workflow) with all its demands, verbatim and in order. Its digest identifies exactly
this content. Grants are stored in one file of the state directory, which commands write and the kernel reads.
"""

import hashlib
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

TRUST: Final = "trust.json"
"""Name of the file in the state directory of a project."""
TRUST_LOCK: Final = "trust.lock"
"""Lock file for writers of TRUST."""
TRUST_LIMIT_BYTES: Final = 4 * 1024 * 1024
SHORT: Final = 12
"""Number of leading characters of a digest that identify a consent."""

Standing = Literal["new", "changed", "kept"]


def digest_of(subject: str, demands: Iterable[str]) -> str:
    """Return the SHA-256, in hex, of ``subject`` and all its ``demands``. Any changed byte or order changes the
    digest."""
    return hashlib.sha256(msgspec.json.encode([subject, *demands])).hexdigest()


class TrustUnit(msgspec.Struct, frozen=True, kw_only=True):
    """Programs and addresses that one ``subject`` (``agent alice``, ``workflow .workflows/review.yaml``) would run or
    reach."""

    subject: str
    demands: tuple[str, ...]
    digest: str

    @property
    def genuine(self) -> bool:
        """Return whether the digest matches the other fields."""
        return self.digest == digest_of(self.subject, self.demands)


def unit(subject: str, demands: Iterable[str]) -> TrustUnit:
    """Return the unit of ``subject`` with its ``demands``."""
    found = tuple(demands)
    return TrustUnit(subject=subject, demands=found, digest=digest_of(subject, found))


def workflow_subject(file: str) -> str:
    """Return the subject of a workflow's file."""
    return f"workflow {file}"


class Grant(TrustUnit, frozen=True, kw_only=True):
    """Unit that the user trusted. ``at`` is the time, as RFC 3339."""

    at: str

    @property
    def id(self) -> str:
        """Return the id for ``awk trust revoke``."""
        return self.digest[:SHORT]


class Grants(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the file. ``project`` is its root. Grants of another project are ignored."""

    project: str
    consents: tuple[Grant, ...] = ()

    def sound(self, project: str) -> tuple[Grant, ...]:
        """Return the grants of ``project`` whose digests match."""
        return tuple(one for one in self.consents if one.genuine) if self.project == project else ()


class Demand(TrustUnit, frozen=True, kw_only=True):
    """Unit that is not trusted. ``before`` is the trusted unit of the same subject, if any."""

    before: tuple[str, ...] = ()


def changes(asked: Demand) -> tuple[str, ...]:
    """Return the new demands since the previous grant. Empty if only the order differs or demands were removed."""
    return tuple(one for one in asked.demands if one not in asked.before)


class TrustRow(TrustUnit, frozen=True, kw_only=True):
    """Current unit of the project's files. ``added``: new demands since the previous grant."""

    state: Standing
    added: tuple[str, ...] = ()


class TrustReport(msgspec.Struct, frozen=True, kw_only=True):
    """``awk trust``: programs and addresses that the project's files name, and which of them are trusted."""

    schema: Literal["awk/trust/1"] = "awk/trust/1"
    units: tuple[TrustRow, ...]


class TrustList(msgspec.Struct, frozen=True, kw_only=True):
    """``awk trust list`` and GET /trust: stored grants."""

    schema: Literal["awk/trust-list/1"] = "awk/trust-list/1"
    consents: tuple[Grant, ...]


class Demands(msgspec.Struct, frozen=True, kw_only=True):
    """Units in the requested files. ``skipped`` are invalid files."""

    schema: Literal["awk/demanded/1"] = "awk/demanded/1"
    units: tuple[TrustUnit, ...]
    skipped: tuple[str, ...] = ()
