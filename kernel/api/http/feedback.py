"""What was said about the work itself: read by people, and added to."""

from kernel.api.context import Services
from kernel.api.http.once import once
from kernel.api.http.paging import page_of
from kernel.api.http.route import Call
from kernel.api.reply import Reply
from kernel.store import feedback
from kernel.store.commits.feedback import say_of_work
from kernel.store.transaction import Transaction
from protocol.api.feedback import FeedbackAdded, FeedbackList, FeedbackRequest
from protocol.errors import Refused


async def listing(services: Services, call: Call[None]) -> FeedbackList:
    """GET /feedback?limit=&before=: the newest, oldest first."""
    return await services.reader.read(feedback.listing, page_of(call, "before", "f"))


async def add(services: Services, call: Call[FeedbackRequest]) -> Reply:
    """POST /feedback: the user's own."""
    text = call.body.text.strip()
    if not text:
        raise Refused("bad_request", "the text is empty")

    def change(tx: Transaction) -> FeedbackAdded:
        return FeedbackAdded(feedback=say_of_work(tx, text))

    return Reply(201, await services.writer.commit(once, call.request_key, change, status=201))
