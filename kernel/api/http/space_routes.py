"""SPACE_ROUTES: the rows of ROUTES for what members share: votes, rules, tasks, documents, resources, grants."""

from typing import Final

from kernel.api.http import (
    spaces,
)
from kernel.api.http.route import Route
from protocol.api.agents import (
    Cleared,
)
from protocol.api.messages import (
    Channel,
)
from protocol.api.runs import (
    DiffReport,
)
from protocol.api.workflows import MemberList
from protocol.spaces import SpaceDocument, SpaceList, SpaceMembersRequest

SPACE_ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", "/spaces/<space>/channel", spaces.channel, Channel),
    Route("POST", "/spaces/<space>/clear", spaces.clear, Cleared, people_only=True, scope="admin"),
    Route("GET", "/spaces/<space>/diff", spaces.diff, DiffReport, waits=True),
    Route("GET", "/spaces", spaces.list_spaces, SpaceList, people_only=True),
    Route("GET", "/spaces/<space>/members", spaces.members, MemberList),
    Route(
        "POST",
        "/spaces/<space>/members",
        spaces.change_members,
        SpaceDocument,
        asks=SpaceMembersRequest,
        people_only=True,
        scope="approve",
    ),
    Route("DELETE", "/spaces/<space>", spaces.close_space, SpaceDocument, people_only=True),
)
