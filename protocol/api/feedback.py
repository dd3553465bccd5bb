"""Feedback of agents and people on their tools."""

from protocol.api.document import Ask, Body, Document, Page


class FeedbackRow(Body, frozen=True, kw_only=True):
    """Something that was said about the work. ``author`` is an agent in ``space``, or the user."""

    id: str
    at: str
    author: str
    space: str | None
    text: str


class FeedbackAdded(Document, frozen=True, kw_only=True):
    """``awk feedback add``."""

    feedback: FeedbackRow
    schema: str = "awk/feedback-add/1"


class FeedbackList(Page, frozen=True, kw_only=True):
    """``awk feedback list``: the newest, oldest first. ``next`` goes into ``before``."""

    feedback: tuple[FeedbackRow, ...]
    schema: str = "awk/feedback-list/1"


class FeedbackRequest(Ask, frozen=True, kw_only=True):
    """POST /feedback."""

    text: str
