"""TOOLS: the table of everything an agent can ask Daemon MCP for. Listing and calling both read it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kernel.api.mcp import (
    approvals,
    documents,
    messaging,
    resources,
    spaces,
    trees,
)
from kernel.api.mcp.tool import AnyTeamTool, TeamTool, Tool
from kernel.operations.table import OPERATIONS
from kernel.store.attempts import Identity
from kernel.store.transitions.threads import ASK_AGENT
from protocol.documents import DocumentChanged, DocumentHistory, SuggestionMade
from protocol.spaces import SpaceInfo
from protocol.tools import AUTH_REQUEST, CONTEXT_SCOPES, ToolScope

_ROWS: Final[tuple[AnyTeamTool, ...]] = (
    Tool(
        name="channel_send",
        description="Say something in the channel of your workspace. Mention a colleague as @name to give them work.",
        asks=messaging.ChannelSendArguments,
        gives=messaging.ChannelSendResult,
        handler=messaging.channel_send,
        mutating=True,
        idempotent=False,
    ),
    Tool(
        name="channel_read",
        description="Read the channel of your workspace, oldest first. Unless next is null there is more.",
        asks=messaging.ChannelReadArguments,
        gives=messaging.ChannelReadResult,
        handler=messaging.channel_read,
    ),
    Tool(
        name="my_inbox",
        description="List messages that reached you here and are not handled yet. Unless next is null there is more.",
        asks=messaging.MyInboxArguments,
        gives=messaging.MyInboxResult,
        handler=messaging.my_inbox,
    ),
    Tool(
        name="my_inbox_ack",
        description="Mark messages of your inbox as handled, by their message_id.",
        asks=messaging.MyInboxAckArguments,
        gives=messaging.MyInboxAckResult,
        handler=messaging.my_inbox_ack,
        mutating=True,
    ),
    Tool(
        name="team_members",
        description="List who works in your workspace.",
        asks=messaging.TeamMembersArguments,
        gives=messaging.TeamMembersResult,
        handler=messaging.team_members,
    ),
    Tool(
        name="my_status_set",
        description="Say what you are at, for colleagues and people who look. It wakes nobody.",
        asks=messaging.MyStatusSetArguments,
        gives=messaging.MyStatusSetResult,
        handler=messaging.my_status_set,
        mutating=True,
    ),
    Tool(
        name="handover_write",
        description="Before you stop with work left: say what is done and what is next, for whoever goes on with it.",
        asks=messaging.HandoverWriteArguments,
        gives=messaging.HandoverWriteResult,
        handler=messaging.handover_write,
        mutating=True,
    ),
    Tool(
        name=ASK_AGENT,
        description="Ask a colleague in your workspace something you need before you go on. You get their answer next.",
        asks=messaging.AskAgentArguments,
        gives=messaging.AskAgentResult,
        handler=messaging.ask_agent,
        mutating=True,
        idempotent=False,
    ),
    Tool(
        name="resource_create",
        description="Keep a long text for your workspace, and get a short reference that you can put into messages.",
        asks=resources.ResourceCreateArguments,
        gives=resources.ResourceCreateResult,
        handler=resources.resource_create,
        mutating=True,
    ),
    Tool(
        name="resource_read",
        description="Read a text that a message refers to as resource:ID. Unless next is null there is more.",
        asks=resources.ResourceReadArguments,
        gives=resources.ResourceReadResult,
        handler=resources.resource_read,
    ),
    Tool(
        name="team_doc_read",
        description="Read a document of your workspace: the entry document, another, an older version, a suggestion.",
        asks=documents.DocReadArguments,
        gives=documents.DocReadResult,
        handler=documents.team_doc_read,
    ),
    Tool(
        name="team_doc_write",
        description="Write the whole text of a document. Give if_version: what others changed since is merged with it.",
        asks=documents.DocWriteArguments,
        gives=DocumentChanged,
        handler=documents.team_doc_write,
        mutating=True,
        idempotent=False,
    ),
    Tool(
        name="team_doc_append",
        description="Add lines to the end of a document.",
        asks=documents.DocAppendArguments,
        gives=DocumentChanged,
        handler=documents.team_doc_append,
        mutating=True,
        idempotent=False,
    ),
    Tool(
        name="team_doc_create",
        description="Make a new document. Keep the entry document an index of what there is.",
        asks=documents.DocCreateArguments,
        gives=DocumentChanged,
        handler=documents.team_doc_create,
        mutating=True,
        idempotent=False,
    ),
    Tool(
        name="team_doc_list",
        description="List the documents of your workspace with their versions and owners, and open suggestions.",
        asks=documents.DocListArguments,
        gives=documents.DocListResult,
        handler=documents.team_doc_list,
    ),
    Tool(
        name="team_doc_delete",
        description="Delete a document. Its history stays.",
        asks=documents.DocDeleteArguments,
        gives=DocumentChanged,
        handler=documents.team_doc_delete,
        mutating=True,
        idempotent=False,
    ),
    Tool(
        name="team_doc_history",
        description="See who made which version of a document, in which instruction, and why.",
        asks=documents.DocHistoryArguments,
        gives=DocumentHistory,
        handler=documents.team_doc_history,
    ),
    Tool(
        name="team_doc_suggest",
        description="Suggest another text for a document that you do not own. Its owner decides, or a vote.",
        asks=documents.DocSuggestArguments,
        gives=SuggestionMade,
        handler=documents.team_doc_suggest,
        mutating=True,
        idempotent=False,
    ),
    Tool(
        name="team_doc_accept",
        description="Accept a suggestion: it becomes the newest version, merged with what changed since it was made.",
        asks=documents.DocAcceptArguments,
        gives=SuggestionMade,
        handler=documents.team_doc_accept,
        mutating=True,
    ),
    Tool(
        name="team_doc_reject",
        description="Reject a suggestion, or take back one of your own, and say why.",
        asks=documents.DocRejectArguments,
        gives=SuggestionMade,
        handler=documents.team_doc_reject,
        mutating=True,
    ),
    *(TeamTool(row, row.team) for row in OPERATIONS if row.team is not None),
    Tool(
        name="tree_status",
        description="See your git working tree: its commit, what is not committed, your colleagues' branches.",
        asks=trees.TreeStatusArguments,
        gives=trees.TreeStatusResult,
        handler=trees.tree_status,
    ),
    Tool(
        name="tree_take",
        description="Bring a colleague's commits into your working tree: merge them, or reset to them.",
        asks=trees.TreeTakeArguments,
        gives=trees.TreeTakeResult,
        handler=trees.tree_take,
        mutating=True,
    ),
    Tool(
        name="tree_commit",
        description="Commit all that is not committed in your working tree.",
        asks=trees.TreeCommitArguments,
        gives=trees.TreeCommitResult,
        handler=trees.tree_commit,
        mutating=True,
    ),
    Tool(
        name="feedback_submit",
        description="Tell the people who run you what gets in your way here: a tool, a message, an instruction.",
        asks=messaging.FeedbackSubmitArguments,
        gives=messaging.FeedbackSubmitResult,
        handler=messaging.feedback_submit,
        mutating=True,
        idempotent=False,
    ),
    Tool(
        name="space_create",
        description="Open a space for some of your workspace: its channel, documents, tasks and votes only they see.",
        asks=spaces.SpaceCreateArguments,
        gives=SpaceInfo,
        handler=spaces.space_create,
        mutating=True,
        idempotent=False,
    ),
    Tool(
        name="space_members",
        description="See who is in a space; in one that you opened, let others in or have them leave.",
        asks=spaces.SpaceMembersArguments,
        gives=SpaceInfo,
        handler=spaces.space_members,
        mutating=True,
    ),
    Tool(
        name=AUTH_REQUEST,
        description="Ask the user to approve a call of a tool. You need not: you are asked about where it is needed.",
        asks=approvals.AuthRequestArguments,
        gives=approvals.AuthRequestResult,
        handler=approvals.auth_request,
        mutating=True,
        waits=True,
        words=approvals.words,
    ),
)

_BY_NAME: Final = {row.name: row for row in _ROWS}
TOOLS: Final[Mapping[str, AnyTeamTool]] = MappingProxyType({name: _BY_NAME[name] for name in CONTEXT_SCOPES})

if len(TOOLS) != len(_ROWS):
    raise ValueError("two rows of TOOLS have the same name, or one has no scope")


_OF_ALL: Final[frozenset[ToolScope]] = frozenset({"all"})
_WITH_TREE: Final[frozenset[ToolScope]] = frozenset({"all", "tree"})


def opened_by(identity: Identity) -> frozenset[ToolScope]:
    """The scopes that the token of an attempt opens."""
    return identity.scopes | (_WITH_TREE if identity.has_tree else _OF_ALL)
