"""TOOLS: the table of everything an agent can ask Daemon MCP for. Listing and calling both read it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kernel.api.mcp import (
    messaging,
    trees,
)
from kernel.api.mcp.tool import AnyTeamTool, TeamTool, Tool
from kernel.operations.table import OPERATIONS
from kernel.store.attempts import Identity
from kernel.store.transitions.threads import ASK_AGENT
from protocol.tools import CONTEXT_SCOPES, ToolScope

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
