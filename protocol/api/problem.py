"""Documents in place of an answer: RFC 9457 problem documents, and mistakes in files."""

from protocol.api.document import Body
from protocol.trust import Demand


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
    type: str = "about:blank"


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
