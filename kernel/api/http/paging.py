"""The page of a list that a request wants: ``?limit=`` from 1 to 1000, and behind what.

Lists of what was are newest first and take ``?before=``; those of what is to be done take ``?after=``.
"""

from typing import Any

from kernel.api.http.route import Call
from kernel.store.page import LONGEST, Page
from protocol.errors import Refused
from protocol.names import number_of


def page_of(call: Call[Any], parameter: str, letter: str, *, default: int = LONGEST) -> Page:
    """The page that is asked for. Ids in its ``parameter`` begin with ``letter``. Raises Refused (bad_request)."""
    limit = call.number("limit", default, low=1, high=LONGEST)
    text = call.query.get(parameter)
    if text is None:
        return Page(limit)
    number = number_of(text, letter)
    if number is None:
        raise Refused("bad_request", f"{parameter} must be what the page before has as next, such as {letter}12")
    return Page(limit, number)
