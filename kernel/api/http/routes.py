"""ROUTES: the table of everything the REST API answers (contracts 4). The fast path, Quart and tests read it."""

import re
from typing import Final

from kernel.api.http import (
    archives,
    events,
    hooks,
    instructions,
    messages,
    metrics,
    openapi,
    page,
    runs,
    system,
)
from kernel.api.http.route import AnyRoute, Request, Route
from kernel.api.http.space_routes import SPACE_ROUTES
from kernel.operations.table import OPERATIONS
from protocol.api.instructions import (
    AnswerRequest,
    BulkReport,
    BulkRequest,
    BulkRetryRequest,
    Dead,
    DeadCleared,
    EntryList,
    InstructionInfo,
    InstructionList,
    PromptReport,
    ReassignRequest,
    RetryRequest,
)
from protocol.api.kernel import (
    BackendList,
    Health,
    OpenApi,
    ProviderList,
    PruneReport,
    PruneRequest,
    Ready,
    ShutdownRequest,
    StatusReport,
    UpgradeReport,
    UpgradeRequest,
    UsageReport,
)
from protocol.api.messages import (
    BatchReceipt,
    FeedbackAdded,
    FeedbackList,
    FeedbackRequest,
    MessageReport,
    SendReceipt,
    SendReport,
    SendRequest,
)
from protocol.api.page import PageKey, PageKeyRequest, PageToken, PageTokenRequest
from protocol.api.runs import (
    RunList,
    RunReport,
    RunRequest,
)
from protocol.trust import TrustList


async def openapi_document(_call: Request[None]) -> OpenApi:
    """GET /openapi.json: this table, as OpenAPI 3.1."""
    return openapi.describe(ROUTES)


ROUTES: Final[tuple[AnyRoute, ...]] = (
    Route("GET", "/health", system.health, Health, open=True),
    Route("GET", "/ready", system.ready, Ready, statuses=(503,)),
    Route("GET", "/openapi.json", openapi_document, OpenApi),
    Route("GET", "/status", system.status, StatusReport),
    Route("GET", "/page", page.index, None, open=True, file=True),
    Route("GET", "/page/<name>", page.file, None, open=True, file=True),
    Route(
        "POST", "/page/keys", page.make_key, PageKey, asks=PageKeyRequest, status=201, people_only=True, scope="admin"
    ),
    Route(
        "POST",
        "/page/token",
        page.trade_key,
        PageToken,
        asks=PageTokenRequest,
        status=201,
        people_only=True,
        keyed=True,
    ),
    Route(
        "POST", "/shutdown", system.shutdown, Health, asks=ShutdownRequest, status=202, people_only=True, scope="admin"
    ),
    Route("GET", "/upgrade", system.upgrade_state, UpgradeReport),
    Route(
        "POST",
        "/upgrade",
        system.upgrade,
        UpgradeReport,
        asks=UpgradeRequest,
        body_optional=True,
        status=202,
        people_only=True,
        scope="admin",
    ),
    Route("POST", "/run", runs.run, None, asks=RunRequest),
    Route("POST", "/serve", runs.serve, SendReport, asks=RunRequest, waits=True),
    Route("GET", "/runs", runs.list_, RunList),
    Route("GET", "/runs/<run>", runs.show, RunReport),
    Route("GET", "/runs/<run>/export", archives.of_run, None),
    Route("POST", "/messages", messages.send, SendReceipt, asks=SendRequest, status=202, also=(BatchReceipt,)),
    Route("GET", "/messages/<id>", messages.show, MessageReport),
    Route("GET", "/instructions", instructions.list_, InstructionList),
    Route("GET", "/instructions/<id>", instructions.show, InstructionInfo),
    Route("GET", "/instructions/<id>/prompt", instructions.prompt, PromptReport),
    Route("GET", "/instructions/<id>/entries", instructions.entries_, EntryList),
    Route("POST", "/instructions/cancel", instructions.cancel_many, BulkReport, asks=BulkRequest, people_only=True),
    Route("POST", "/instructions/retry", instructions.retry_many, BulkReport, asks=BulkRetryRequest, people_only=True),
    Route("POST", "/instructions/<id>/cancel", instructions.cancel, InstructionInfo, people_only=True),
    Route(
        "POST",
        "/instructions/<id>/retry",
        instructions.retry,
        InstructionInfo,
        asks=RetryRequest,
        body_optional=True,
        people_only=True,
    ),
    Route(
        "POST",
        "/instructions/<id>/answer",
        instructions.answer,
        InstructionInfo,
        asks=AnswerRequest,
        people_only=True,
        scope="approve",
    ),
    Route(
        "POST",
        "/instructions/<id>/reassign",
        instructions.reassign,
        InstructionInfo,
        asks=ReassignRequest,
        people_only=True,
        scope="approve",
    ),
    Route("POST", "/instructions/<id>/promote", instructions.promote, InstructionInfo, people_only=True),
    Route("GET", "/usage", system.usage, UsageReport),
    Route("GET", "/metrics", metrics.expose, None),
    Route("GET", "/dead", instructions.dead, Dead),
    Route("POST", "/dead/clear", instructions.clear_dead, DeadCleared, people_only=True, scope="admin"),
    Route("GET", "/feedback", messages.list_feedback, FeedbackList),
    Route("POST", "/feedback", messages.create_feedback, FeedbackAdded, asks=FeedbackRequest, status=201),
    *(row for row in OPERATIONS if row.path),
    *SPACE_ROUTES,
    Route("GET", "/spaces/<space>/export", archives.of_space, None),
    Route(
        "POST",
        "/prune",
        system.prune,
        PruneReport,
        asks=PruneRequest,
        body_optional=True,
        people_only=True,
        waits=True,
        scope="admin",
    ),
    Route("POST", "/hooks/<name>", hooks.receive, SendReceipt, status=202, signed=True),
    Route("GET", "/events", events.stream, None),
    Route("GET", "/providers", system.providers, ProviderList),
    Route("GET", "/backends", system.backends, BackendList),
    Route("GET", "/trust", system.trust, TrustList),
)

if len({(route.method, route.path) for route in ROUTES}) != len(ROUTES):
    raise ValueError("two rows of ROUTES have the same method and path")

_PATTERNS: Final = tuple(
    (route, re.compile(re.sub(r"<\w+>", "[^/]+", route.path.replace("<path:path>", ".+"))))
    for route in sorted(ROUTES, key=lambda route: route.path.count("<"))
)


def route_of(method: str, path: str) -> AnyRoute | None:
    """The route that a request is for, as the router will find it; None: there is none."""
    return next((route for route, pattern in _PATTERNS if route.method == method and pattern.fullmatch(path)), None)
