"""Feedback: remarks of agents and people about the work itself."""

from kernel.api.context import StoreAccess
from kernel.api.http.route import Request, once, page_of
from kernel.api.responses import Response
from kernel.store import feedback
from kernel.store.transaction import Transaction
from protocol.api.messages import FeedbackAdded, FeedbackList, FeedbackRequest
from protocol.errors import Refused


async def list_(call: Request[None], store: StoreAccess) -> FeedbackList:
    """GET /feedback?limit=&before=: the newest, oldest first."""
    return await store.reader.read(feedback.listing, page_of(call, "before", "f"))


async def create(call: Request[FeedbackRequest], store: StoreAccess) -> Response:
    """POST /feedback: the user's own."""
    text = call.body.text.strip()
    if not text:
        raise Refused("bad_request", "the text is empty")

    def change(tx: Transaction) -> FeedbackAdded:
        return FeedbackAdded(feedback=feedback.add_feedback(tx, text))

    return Response(201, await store.writer.commit(once, call.request_key, change, status=201))
