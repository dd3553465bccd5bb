"""ROUTES: the table of everything the REST API answers (contracts 4). The fast path, Quart and tests read it."""

from typing import Final

from kernel.api.http import (
    agents,
    approvals,
    events,
    feedback,
    instructions,
    messages,
    needs,
    proposals,
    runs,
    spaces,
    system,
    workflows,
)
from kernel.api.http.route import Route
from protocol.api.agents import (
    AgentChanged,
    AgentInfo,
    AgentList,
    AgentMade,
    AgentPatch,
    AgentRename,
    AgentRequest,
    AgentRow,
    Cleared,
)
from protocol.api.approvals import ApprovalInfo, ApprovalRules, ApproveRequest, DenyRequest, Pending
from protocol.api.instructions import (
    Dead,
    DeadCleared,
    InstructionInfo,
    InstructionList,
    PromptReport,
    QueueReport,
    RetryRequest,
)
from protocol.api.kernel import BackendList, Health, ProviderList, Ready, ShutdownRequest, StatusReport, UsageReport
from protocol.api.messages import (
    Channel,
    FeedbackAdded,
    FeedbackList,
    FeedbackRequest,
    Inbox,
    MessageReport,
    SendReceipt,
    SendReport,
    SendRequest,
)
from protocol.api.needs import NeedList
from protocol.api.processes import Ps
from protocol.api.runs import DiffReport, RunList, RunReport, RunRequest
from protocol.api.workflows import MemberList, StartRequest, WorkflowList, WorkflowRow
from protocol.trust import TrustList
from protocol.voting import CallOffRequest, ProposalInfo, ProposalList, ProposalRequest, VoteRequest

ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", "/health", system.health, Health, open=True),
    Route("GET", "/ready", system.ready, Ready),
    Route("GET", "/status", system.status, StatusReport),
    Route("POST", "/shutdown", system.shutdown, Health, asks=ShutdownRequest, status=202, people_only=True),
    Route("GET", "/agents", agents.list_, AgentList),
    Route("POST", "/agents", agents.create, AgentMade, asks=AgentRequest, status=201, people_only=True),
    Route("GET", "/agents/<name>", agents.show, AgentInfo),
    Route("PATCH", "/agents/<name>", agents.update, AgentInfo, asks=AgentPatch, people_only=True),
    Route("DELETE", "/agents/<name>", agents.delete, AgentRow, people_only=True),
    Route("POST", "/agents/<name>/rename", agents.rename, AgentRow, asks=AgentRename, people_only=True),
    Route("POST", "/agents/<name>/reset", agents.reset, AgentChanged, people_only=True),
    Route("POST", "/agents/<name>/pause", agents.pause, AgentChanged, people_only=True),
    Route("POST", "/agents/<name>/resume", agents.resume, AgentChanged, people_only=True),
    Route("POST", "/agents/<name>/stop", agents.stop, AgentChanged, people_only=True, waits=True),
    Route("POST", "/agents/<name>/restart", agents.restart, AgentChanged, people_only=True),
    Route("POST", "/agents/<name>/continue", agents.continue_, AgentChanged, people_only=True),
    Route("GET", "/agents/<name>/queue", agents.queue, QueueReport),
    Route("GET", "/agents/<name>/inbox", agents.inbox, Inbox),
    Route("GET", "/ps", agents.ps, Ps),
    Route("GET", "/needs", needs.list_, NeedList),
    Route("GET", "/workflows", workflows.list_, WorkflowList),
    Route(
        "POST", "/workflows", workflows.start, WorkflowRow, asks=StartRequest, status=201, people_only=True, waits=True
    ),
    Route("GET", "/workflows/<name>", workflows.show, WorkflowRow),
    Route("GET", "/workflows/<name>/<tag>", workflows.show, WorkflowRow),
    Route("DELETE", "/workflows/<name>", workflows.stop, WorkflowRow, people_only=True, waits=True),
    Route("DELETE", "/workflows/<name>/<tag>", workflows.stop, WorkflowRow, people_only=True, waits=True),
    Route("POST", "/workflows/<name>/pause", workflows.pause, WorkflowRow, people_only=True),
    Route("POST", "/workflows/<name>/resume", workflows.resume, WorkflowRow, people_only=True),
    Route("POST", "/workflows/<name>/continue", workflows.continue_, WorkflowRow, people_only=True),
    Route("POST", "/workflows/<name>/<tag>/pause", workflows.pause, WorkflowRow, people_only=True),
    Route("POST", "/workflows/<name>/<tag>/resume", workflows.resume, WorkflowRow, people_only=True),
    Route("POST", "/workflows/<name>/<tag>/continue", workflows.continue_, WorkflowRow, people_only=True),
    Route("POST", "/run", runs.run, None, asks=RunRequest),
    Route("POST", "/serve", runs.serve, SendReport, asks=RunRequest, waits=True),
    Route("GET", "/runs", runs.list_, RunList),
    Route("GET", "/runs/<run>", runs.show, RunReport),
    Route("POST", "/messages", messages.send, SendReceipt, asks=SendRequest, status=202),
    Route("GET", "/messages/<id>", messages.show, MessageReport),
    Route("GET", "/instructions", instructions.list_, InstructionList),
    Route("GET", "/instructions/<id>", instructions.show, InstructionInfo),
    Route("GET", "/instructions/<id>/prompt", instructions.prompt, PromptReport),
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
    Route("POST", "/instructions/<id>/promote", instructions.promote, InstructionInfo, people_only=True),
    Route("GET", "/usage", system.usage, UsageReport),
    Route("GET", "/dead", instructions.dead, Dead),
    Route("POST", "/dead/clear", instructions.clear_dead, DeadCleared, people_only=True),
    Route("GET", "/feedback", feedback.list_, FeedbackList),
    Route("POST", "/feedback", feedback.create, FeedbackAdded, asks=FeedbackRequest, status=201),
    Route("GET", "/approvals", approvals.list_, Pending),
    Route("GET", "/approvals/rules", approvals.list_rules, ApprovalRules),
    Route("DELETE", "/approvals/rules/<id>", approvals.delete_rule, ApprovalRules, people_only=True),
    Route("GET", "/approvals/<id>", approvals.show, ApprovalInfo),
    Route(
        "POST",
        "/approvals/<id>/approve",
        approvals.approve,
        ApprovalInfo,
        asks=ApproveRequest,
        body_optional=True,
        people_only=True,
    ),
    Route(
        "POST",
        "/approvals/<id>/deny",
        approvals.deny,
        ApprovalInfo,
        asks=DenyRequest,
        body_optional=True,
        people_only=True,
    ),
    Route("GET", "/proposals", proposals.list_all, ProposalList),
    Route("GET", "/spaces/<space>/proposals", proposals.list_in_space, ProposalList),
    Route(
        "POST",
        "/spaces/<space>/proposals",
        proposals.create,
        ProposalInfo,
        asks=ProposalRequest,
        status=201,
        people_only=True,
    ),
    Route("GET", "/spaces/<space>/proposals/<id>", proposals.show, ProposalInfo),
    Route(
        "POST", "/spaces/<space>/proposals/<id>/vote", proposals.vote, ProposalInfo, asks=VoteRequest, people_only=True
    ),
    Route(
        "POST",
        "/spaces/<space>/proposals/<id>/cancel",
        proposals.cancel,
        ProposalInfo,
        asks=CallOffRequest,
        body_optional=True,
        people_only=True,
    ),
    Route("GET", "/spaces/<space>/channel", spaces.channel, Channel),
    Route("POST", "/spaces/<space>/clear", spaces.clear, Cleared, people_only=True),
    Route("GET", "/spaces/<space>/diff", spaces.diff, DiffReport, waits=True),
    Route("GET", "/spaces/<space>/members", spaces.members, MemberList),
    Route("GET", "/events", events.stream, None),
    Route("GET", "/providers", system.providers, ProviderList),
    Route("GET", "/backends", system.backends, BackendList),
    Route("GET", "/trust", system.trust, TrustList),
)

if len({(route.method, route.path) for route in ROUTES}) != len(ROUTES):
    raise ValueError("two rows of ROUTES have the same method and path")
