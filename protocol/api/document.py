"""What all documents of the REST API are made from."""

import msgspec


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an answer, or one without a schema."""


class Document(Body, frozen=True, kw_only=True):
    """An answer of its own. Every subclass fixes its schema, which is declared here so that it comes first."""

    schema: str


class Page(Document, frozen=True, kw_only=True):
    """A list that may not fit one answer. ``total`` is how many there are; ``next`` says where the rest begins.

    It goes into the query parameter that the route names; null: nothing is left out.
    """

    total: int = 0
    next: str | None = None


class Ask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client sends: a field that is not known is refused."""
