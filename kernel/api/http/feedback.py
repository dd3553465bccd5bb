"""What was said about the work itself: read by people, and added to."""

from kernel.api.context import Services
from kernel.api.http.route import Request, once, page_of
from kernel.api.responses import Response
from kernel.store import feedback
from kernel.store.feedback import add_feedback
from kernel.store.transaction import Transaction
from protocol.api.feedback import FeedbackAdded, FeedbackList, FeedbackRequest
from protocol.errors import Refused


async def list_(services: Services, call: Request[None]) -> FeedbackList:
    """GET /feedback?limit=&before=: the newest, oldest first."""
    return await services.reader.read(feedback.listing, page_of(call, "before", "f"))


async def create(services: Services, call: Request[FeedbackRequest]) -> Response:
    """POST /feedback: the user's own."""
    text = call.body.text.strip()
    if not text:
        raise Refused("bad_request", "the text is empty")

    def change(tx: Transaction) -> FeedbackAdded:
        return FeedbackAdded(feedback=add_feedback(tx, text))

    return Response(201, await services.writer.commit(once, call.request_key, change, status=201))
