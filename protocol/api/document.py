"""Base types of all requests and answers of the REST API, and problem documents (RFC 9457) in place of an answer."""

import msgspec

from protocol.trust import Demand


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an answer, or one without a schema."""


class Document(Body, frozen=True, kw_only=True):
    """An answer of its own. Every subclass fixes its schema, which is declared here so that it comes first.

    A row that is also answered alone fixes it as its tag (``tag_field="schema"``): the row's fields stay its only ones.
    """

    schema: str


class Page(Document, frozen=True, kw_only=True):
    """A list that may not fit one answer. ``total`` is how many there are; ``next`` says where the rest begins.

    It goes into the query parameter that the route names; null: nothing is left out.
    """

    total: int = 0
    next: str | None = None


class Ask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request of a client: a field that is not known is refused."""


class Problem(Body, frozen=True, kw_only=True, omit_defaults=True):
    """RFC 9457 problem+json. ``code`` is stable; ``hint`` says what to do."""

    title: str
    status: int
    code: str
    detail: str
    hint: str | None = None
    errors: tuple["FileError", ...] = ()
    wants: tuple[Demand, ...] = ()
    """Of ``untrusted``: what to ask the user about."""
    conflict: "DocumentConflict | None" = None
    """Of ``version_conflict``: the texts."""
    type: str = "about:blank"


class DocumentConflict(Body, frozen=True, kw_only=True):
    """The three texts of a change that was not taken: ``base`` is version ``since``, ``current`` the newest.

    ``whole``: these are the whole texts; else the places where they clash. ``lines`` are where that is in the base.
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
    """One mistake in a file a user wrote. ``where`` is the path of keys (``agents.bob.ref``)."""

    path: str
    line: int
    column: int
    where: str
    message: str
    hint: str | None = None
    source: str = ""
    """The line itself."""
