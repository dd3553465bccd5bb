"""ROUTES: the table of everything the REST API answers (contracts.md section 4). Front, Quart and tests read it."""

from typing import Final

from kernel.api.http import (
    agents,
    events,
    health,
    instructions,
    kernel,
    messages,
    processes,
    providers,
    run,
    runs,
    spaces,
    workflows,
)
from kernel.api.http.route import Route
from protocol import api

ROUTES: Final[tuple[Route, ...]] = (
    Route(method="GET", path="/health", handler=health.health, answers=api.Health, open=True),
    Route(method="GET", path="/ready", handler=health.ready, answers=api.Ready),
    Route(method="GET", path="/status", handler=kernel.status, answers=api.StatusReport),
    Route(
        method="POST",
        path="/shutdown",
        handler=kernel.shutdown,
        asks=api.ShutdownRequest,
        answers=api.Health,
        status=202,
    ),
    Route(method="GET", path="/agents", handler=agents.listing, answers=api.AgentList),
    Route(
        method="POST", path="/agents", handler=agents.create, asks=api.AgentRequest, answers=api.AgentMade, status=201
    ),
    Route(method="GET", path="/agents/<name>", handler=agents.info, answers=api.AgentInfo),
    Route(method="PATCH", path="/agents/<name>", handler=agents.change, asks=api.AgentPatch, answers=api.AgentInfo),
    Route(method="DELETE", path="/agents/<name>", handler=agents.delete, answers=api.AgentRow),
    Route(method="POST", path="/agents/<name>/reset", handler=agents.reset, answers=api.AgentInfo),
    Route(method="GET", path="/agents/<name>/queue", handler=agents.queue, answers=api.QueueReport),
    Route(method="GET", path="/ps", handler=processes.ps, answers=api.Ps),
    Route(method="GET", path="/workflows", handler=workflows.listing, answers=api.WorkflowList),
    Route(
        method="POST",
        path="/workflows",
        handler=workflows.begin,
        asks=api.StartRequest,
        answers=api.WorkflowRow,
        status=201,
        waits=True,
    ),
    Route(method="GET", path="/workflows/<name>", handler=workflows.show, answers=api.WorkflowRow),
    Route(method="GET", path="/workflows/<name>/<tag>", handler=workflows.show, answers=api.WorkflowRow),
    Route(method="DELETE", path="/workflows/<name>", handler=workflows.stop, answers=api.WorkflowRow),
    Route(method="DELETE", path="/workflows/<name>/<tag>", handler=workflows.stop, answers=api.WorkflowRow),
    Route(method="POST", path="/run", handler=run.stream, asks=api.RunRequest, answers=None),
    Route(method="POST", path="/serve", handler=run.serve, asks=api.RunRequest, answers=api.SendReport, waits=True),
    Route(method="GET", path="/runs", handler=runs.listing, answers=api.RunList),
    Route(method="GET", path="/runs/<run>", handler=runs.show, answers=api.RunReport),
    Route(
        method="POST",
        path="/messages",
        handler=messages.send,
        asks=api.SendRequest,
        answers=api.SendReceipt,
        status=202,
    ),
    Route(method="GET", path="/messages/<id>", handler=messages.report, answers=api.MessageReport),
    Route(method="GET", path="/instructions", handler=instructions.in_space, answers=api.InstructionList),
    Route(method="GET", path="/instructions/<id>", handler=instructions.show, answers=api.InstructionInfo),
    Route(method="GET", path="/dead", handler=instructions.dead, answers=api.Dead),
    Route(method="GET", path="/spaces/<space>/channel", handler=spaces.channel, answers=api.Channel),
    Route(method="GET", path="/spaces/<space>/members", handler=spaces.members, answers=api.MemberList),
    Route(method="GET", path="/events", handler=events.stream, answers=None),
    Route(method="GET", path="/providers", handler=providers.providers, answers=api.ProviderList),
    Route(method="GET", path="/backends", handler=providers.backends, answers=api.BackendList),
)

if len({(route.method, route.path) for route in ROUTES}) != len(ROUTES):
    raise ValueError("two rows of ROUTES have the same method and path")
