"""Base types of requests and answers of the REST API, and problem documents (RFC 9457)."""

import msgspec

from protocol.trust import Demand


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """Part of an answer, or an answer without a schema."""


class Document(Body, frozen=True, kw_only=True):
    """Answer with a schema. Subclasses set ``schema``, declared here so that it is the first key.

    A row type whose subclass is also a complete answer uses a tag instead (``tag_field="schema"``),
    so that rows in a list have no schema.
    """

    schema: str


class Page(Document, frozen=True, kw_only=True):
    """List that may span several answers. ``total`` is the number of all rows; ``next`` is the
    position of the next page.

    Pass ``next`` as the query parameter that the route names. If it is null, this page is the last.
    """

    total: int = 0
    next: str | None = None


class Ask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Request of a client. Unknown fields are refused."""


class Problem(Body, frozen=True, kw_only=True, omit_defaults=True):
    """RFC 9457 problem+json. ``code`` is stable; ``hint`` suggests a remedy."""

    title: str
    status: int
    code: str
    detail: str
    hint: str | None = None
    errors: tuple["FileError", ...] = ()
    wants: tuple[Demand, ...] = ()
    """For ``untrusted``: the content that the user has to trust first."""
    conflict: "DocumentConflict | None" = None
    """For ``version_conflict``: the conflicting texts."""
    type: str = "about:blank"


class DocumentConflict(Body, frozen=True, kw_only=True):
    """Texts of a refused change: ``base`` is version ``since``, ``current`` the newest.

    ``whole``: the texts are complete; otherwise they are the conflicting parts, and ``lines`` are their lines in the
    base.
    """

    file: str
    version: int
    since: int
    base: str
    current: str
    yours: str
    whole: bool
    lines: tuple[int, ...]


class FileError(Body, frozen=True, kw_only=True):
    """Error in a user's file. ``where`` is the path of keys (``agents.bob.ref``)."""

    path: str
    line: int
    column: int
    where: str
    message: str
    hint: str | None = None
    source: str = ""
    """Text of the line with the error."""
