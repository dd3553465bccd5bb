"""Webhooks out, as people see them: which there are, how they stand, and that one is tried again."""

from typing import Literal

from protocol.api.document import Body, Document

WebhookState = Literal["told", "failing", "ended", "unused", "held"]
"""ended: its server answered 410; unused: not trusted, or without its secret; held: the kernel is in safe mode."""


class WebhookRow(Body, frozen=True, kw_only=True):
    """One webhook of the project file. ``host`` is where it is: the path may be as good as a password."""

    id: str
    host: str
    events: tuple[str, ...]
    state: WebhookState
    waiting: int = 0
    """Deliveries that failed and are tried again."""


class WebhookList(Document, frozen=True, kw_only=True):
    """``awk webhook list``: in the order of the file."""

    webhooks: tuple[WebhookRow, ...]
    schema: str = "awk/webhook-list/1"
