"""TOOLS: the table of everything an agent can ask Daemon MCP for. Listing and calling both read it."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from kernel.api.mcp import approval, ballot, channel, feedback, inbox, question, team
from kernel.api.mcp.tool import Scope, Tool
from kernel.store.commits.answer import ASK_AGENT
from protocol.tools import AUTH_REQUEST

_ROWS: Final = (
    Tool(
        name="channel_send",
        description="Say something in the channel of your workspace. Mention a colleague as @name to give them work.",
        asks=channel.Say,
        gives=channel.Said,
        handler=channel.say,
        mutating=True,
        idempotent=False,
    ),
    Tool(
        name="channel_read",
        description="Read the channel of your workspace, oldest first. Unless next is null there is more.",
        asks=channel.Read,
        gives=channel.ChannelText,
        handler=channel.read,
    ),
    Tool(
        name="my_inbox",
        description="List messages that reached you here and are not handled yet. Unless next is null there is more.",
        asks=inbox.Look,
        gives=inbox.InboxText,
        handler=inbox.look,
    ),
    Tool(
        name="my_inbox_ack",
        description="Mark messages of your inbox as handled, by their message_id.",
        asks=inbox.Acknowledge,
        gives=inbox.Acknowledged,
        handler=inbox.mark,
        mutating=True,
    ),
    Tool(
        name="team_members",
        description="List who works in your workspace.",
        asks=team.Members,
        gives=team.Team,
        handler=team.members,
    ),
    Tool(
        name=ASK_AGENT,
        description="Ask a colleague in your workspace something you need before you go on. You get their answer next.",
        asks=question.Question,
        gives=question.Asked,
        handler=question.ask,
        mutating=True,
        idempotent=False,
    ),
    Tool(
        name="team_proposal_create",
        description="Put something to the vote of your team: an election, a decision, an approval, an assignment.",
        asks=ballot.Propose,
        gives=ballot.Put,
        handler=ballot.propose,
        mutating=True,
        idempotent=False,
    ),
    Tool(
        name="team_vote",
        description="Vote on a proposal of your team, once: a vote is final.",
        asks=ballot.CastVote,
        gives=ballot.Counted,
        handler=ballot.cast_vote,
        mutating=True,
    ),
    Tool(
        name="team_proposal_status",
        description="See how a proposal stands, or which are open.",
        asks=ballot.Status,
        gives=ballot.Standings,
        handler=ballot.status,
    ),
    Tool(
        name="team_proposal_cancel",
        description="Cancel a proposal of your own that is open.",
        asks=ballot.TakeBack,
        gives=ballot.TakenBack,
        handler=ballot.take_back,
        mutating=True,
    ),
    Tool(
        name="feedback_submit",
        description="Tell the people who run you what gets in your way here: a tool, a message, an instruction.",
        asks=feedback.Feedback,
        gives=feedback.Noted,
        handler=feedback.submit,
        mutating=True,
        idempotent=False,
    ),
    Tool(
        name=AUTH_REQUEST,
        description="Ask the user to approve a call of a tool. You need not: you are asked about where it is needed.",
        asks=approval.Leave,
        gives=approval.Decided,
        handler=approval.request,
        mutating=True,
        waits=True,
        words=approval.words,
    ),
)


def _table(rows: Iterable[Tool]) -> Mapping[str, Tool]:
    table: dict[str, Tool] = {}
    for row in rows:
        if row.name in table:
            raise ValueError(f"two tools are called {row.name}")
        table[row.name] = row
    return MappingProxyType(table)


TOOLS: Final[Mapping[str, Tool]] = _table(_ROWS)

ATTEMPT_SCOPES: Final[frozenset[Scope]] = frozenset({"context"})
"""What the token of an attempt opens."""


def visible(scopes: frozenset[Scope]) -> tuple[Tool, ...]:
    """The tools that ``scopes`` open. The others do not exist for the caller: neither listed nor callable."""
    return tuple(tool for tool in TOOLS.values() if tool.scope in scopes)
