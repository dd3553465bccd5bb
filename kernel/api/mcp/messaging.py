"""Tools to talk with others: the channel and the members of the caller's space, its inbox, questions, feedback.

A question to a colleague is asked here, and answered in the asker's conversation once the colleague has ended.
"""

from typing import Annotated, Any, Final

import msgspec

from kernel.api.mcp.spaces import space_named
from kernel.api.mcp.tool import Caller, InSpace, ToolArguments
from kernel.operations.context import StoreAccess
from kernel.rule.draft import Draft
from kernel.store import agents, messages, run_outcomes, work_notes
from kernel.store.messages import acknowledge, add_feedback
from kernel.store.rows import Page
from kernel.store.transitions.append import append
from protocol.api.agents import AgentStatus
from protocol.api.instructions import Handover
from protocol.api.messages import InboxRow
from protocol.errors import Refused
from protocol.instruction import LARGEST
from protocol.message import Message
from protocol.names import message_id, number_of, place_of

READ_LIMIT: Final = 200
FEEDBACK_CHARACTERS: Final = 20_000
NOTE_CHARACTERS: Final = 500
HANDOVER_CHARACTERS: Final = 8000


class ChannelSendArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of channel_send."""

    message: Annotated[str, msgspec.Meta(min_length=1, description="What to say. @name wakes a colleague.")]
    space: InSpace | None = None


class ChannelSendResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it. ``not_woken`` were mentioned over the limit, or for another reason not woken."""

    message_id: str
    instruction_ids: tuple[str, ...]
    not_woken: tuple[str, ...]


class ChannelReadArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of channel_read."""

    since: Annotated[int, msgspec.Meta(ge=0, le=LARGEST, description="Only the first after this seq.")] | None = None
    before: Annotated[int, msgspec.Meta(ge=0, le=LARGEST, description="Only the newest before this seq.")] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=READ_LIMIT, description="At most this many, the newest.")] = 50
    space: InSpace | None = None


class ChannelReadResult(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of a space, oldest first, of ``total``.

    ``next`` goes into ``since`` if that was given, else ``before``; null: that is all.
    """

    space: str
    messages: tuple[Message, ...]
    total: int
    next: int | None


async def channel_send(caller: Caller, asked: ChannelSendArguments, store: StoreAccess) -> ChannelSendResult:
    """Append to the channel as the caller. A repeated call of the same key adds nothing."""
    identity = caller.identity
    space = space_named(caller, asked.space, store)
    draft = Draft(kind="said", space=space, sender=identity.name, text=asked.message, author=caller.author)
    appended = await store.writer.commit(append, draft, call_key=caller.call_key)
    return ChannelSendResult(
        message_id=appended.message_id, instruction_ids=appended.instruction_ids, not_woken=appended.not_woken
    )


async def channel_read(caller: Caller, asked: ChannelReadArguments, store: StoreAccess) -> ChannelReadResult:
    """The newest messages of the channel, those ``before`` one, or the first after ``since``."""
    if asked.since is not None and asked.before is not None:
        raise Refused("bad_request", "since and before exclude each other")
    space = space_named(caller, asked.space, store)
    if not store.reader.now(run_outcomes.expected_in, space).has_channel:
        text = f"{place_of(space)} has no channel: its agents do not hear each other"
        raise Refused("not_a_participant", text, "what is for you is in my_inbox")
    said = messages.ChannelFilter(space)
    found = await store.reader.read(messages.page, said, asked.limit, since=asked.since, before=asked.before)
    following = None if found.next is None else int(found.next)
    return ChannelReadResult(space=place_of(space), messages=found.messages, total=found.total, next=following)


class FeedbackSubmitArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of feedback_submit."""

    text: Annotated[
        str, msgspec.Meta(min_length=1, max_length=FEEDBACK_CHARACTERS, description="What was in your way, and when.")
    ]


class FeedbackSubmitResult(msgspec.Struct, frozen=True, kw_only=True):
    """It is kept."""

    id: str


async def feedback_submit(caller: Caller, asked: FeedbackSubmitArguments, store: StoreAccess) -> FeedbackSubmitResult:
    """Keep the remark. A repeated call of the same key adds nothing."""
    row = await store.writer.commit(add_feedback, asked.text, caller.author, call_key=caller.call_key)
    return FeedbackSubmitResult(id=row.id)


class MyInboxArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of my_inbox."""

    after: (
        Annotated[str, msgspec.Meta(description="Only what came after this message_id: next of an answer.")] | None
    ) = None


class MyInboxResult(msgspec.Struct, frozen=True, kw_only=True):
    """Deliveries that are not handled, oldest first, of ``total``. ``next`` goes into ``after``; null: that is all."""

    deliveries: tuple[InboxRow, ...]
    total: int
    next: str | None


class MyInboxAckArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of my_inbox_ack."""

    ids: Annotated[list[str], msgspec.Meta(min_length=1, max_length=200, description="message_id of what you handled")]


class MyInboxAckResult(msgspec.Struct, frozen=True, kw_only=True):
    """Those that were open until now."""

    acknowledged: tuple[str, ...]


async def my_inbox(caller: Caller, asked: MyInboxArguments, store: StoreAccess) -> MyInboxResult:
    """The messages that wait for the caller in its space."""
    identity = caller.identity
    page = Page(messages.DELIVERIES_LIMIT, 0 if asked.after is None else _seq(asked.after))
    found = store.reader.now(messages.inbox, identity.agent, identity.space, page.limit + 1, page.after or 0)
    rows, following = page.cut(found, lambda row: row.message_id)
    total = store.reader.now(messages.count, identity.agent, identity.space)
    return MyInboxResult(deliveries=rows, total=total, next=following)


async def my_inbox_ack(caller: Caller, asked: MyInboxAckArguments, store: StoreAccess) -> MyInboxAckResult:
    """Mark exactly these as handled. Ids of others, or unknown ones, change nothing."""
    acked = await store.writer.commit(acknowledge, caller.author, [_seq(text) for text in asked.ids])
    return MyInboxAckResult(acknowledged=tuple(message_id(seq) for seq in acked))


def _seq(text: str) -> int:
    seq = number_of(text, "m")
    if seq is None:
        raise Refused("bad_request", f"{text[:40]!r} is not the id of a message", hint="ids look like m17")
    return seq


class AskAgentArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of ask_agent."""

    agent: Annotated[str, msgspec.Meta(min_length=1, max_length=64, description="Whom: a name of team_members.")]
    query: Annotated[str, msgspec.Meta(min_length=1, description="All they need to know. It wakes nobody else.")]
    space: InSpace | None = None


class AskAgentResult(msgspec.Struct, frozen=True, kw_only=True):
    """Who was asked, and the instruction it became. The answer is not in here."""

    agent: str
    instruction_id: str
    message_id: str
    note: str


async def ask_agent(caller: Caller, asked: AskAgentArguments, store: StoreAccess) -> AskAgentResult:
    """Give a colleague the question as work of their own. A repeated call of the same key asks nobody again."""
    identity = caller.identity
    name = asked.agent.removeprefix("@").lower()
    draft = Draft(
        kind="said",
        space=space_named(caller, asked.space, store),
        sender=identity.name,
        text=asked.query,
        to=(name,),
        mentions=(),
        author=caller.author,
        asks=True,
    )
    appended = await store.writer.commit(append, draft, call_key=caller.call_key)
    (instruction,) = appended.instruction_ids
    note = f"{name} is asked; the answer, or why there is none, follows as the next message to you"
    return AskAgentResult(agent=name, instruction_id=instruction, message_id=appended.message_id, note=note)


class TeamMembersArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of team_members."""

    include_status: bool = False


class Member(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One colleague. ``state``, and the ``status`` that it has set itself, are there when they were asked for."""

    name: str
    state: str | None = None
    status: AgentStatus | None = None


class TeamMembersResult(msgspec.Struct, frozen=True, kw_only=True):
    """The members of a space, by name."""

    space: str
    members: tuple[Member, ...]


async def team_members(caller: Caller, asked: TeamMembersArguments, store: StoreAccess) -> TeamMembersResult:
    """The colleagues in the caller's space, the caller among them."""
    space = caller.identity.space
    rows = store.reader.now(agents.members, space)
    if not asked.include_status:
        return TeamMembersResult(space=place_of(space), members=tuple(Member(name=row.name) for row in rows))
    said = {row.key: store.reader.now(work_notes.status, row.key, space) for row in rows}
    found = tuple(Member(name=row.name, state=row.state, status=said[row.key]) for row in rows)
    return TeamMembersResult(space=place_of(space), members=found)


Metadata = Annotated[dict[str, Any], msgspec.Meta(description="Whatever else colleagues can use.")]
Few = Annotated[str, msgspec.Meta(max_length=NOTE_CHARACTERS)]


class MyStatusSetArguments(ToolArguments, frozen=True, kw_only=True, omit_defaults=True):
    """Arguments of my_status_set. What is left out stays as it is, null takes it away."""

    task: Annotated[Few, msgspec.Meta(description="What you are at.")] | msgspec.UnsetType | None = msgspec.UNSET
    state: Annotated[Few, msgspec.Meta(description="How it stands, in a word.")] | msgspec.UnsetType | None = (
        msgspec.UNSET
    )
    metadata: Metadata | msgspec.UnsetType | None = msgspec.UNSET


class MyStatusSetResult(msgspec.Struct, frozen=True, kw_only=True):
    """The status that is shown of you from now on."""

    status: AgentStatus


async def my_status_set(caller: Caller, asked: MyStatusSetArguments, store: StoreAccess) -> MyStatusSetResult:
    """Say what one is at, for all who look. It wakes nobody."""
    change = work_notes.StatusChange(task=asked.task, state=asked.state, metadata=asked.metadata)
    return MyStatusSetResult(status=await store.writer.commit(work_notes.set_status, change, caller.author))


Note = Annotated[str, msgspec.Meta(min_length=1, max_length=HANDOVER_CHARACTERS)]
Notes = Annotated[list[Annotated[str, msgspec.Meta(max_length=NOTE_CHARACTERS)]], msgspec.Meta(max_length=100)]


class HandoverWriteArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of handover_write."""

    done: Annotated[Note, msgspec.Meta(description="What is done, and how you know that it works.")]
    next: Annotated[Note, msgspec.Meta(description="What to do next, first things first.")]
    open: Annotated[Notes | Note, msgspec.Meta(description="Open questions and risks.")] = []
    files: Annotated[Notes, msgspec.Meta(description="Files that matter.")] = []


class HandoverWriteResult(msgspec.Struct, frozen=True, kw_only=True):
    """It is kept, in place of what you wrote before."""

    handover: Handover


async def handover_write(caller: Caller, asked: HandoverWriteArguments, store: StoreAccess) -> HandoverWriteResult:
    """Leave a note to whoever goes on with this work: another model, a later instruction."""
    questions = (asked.open,) if isinstance(asked.open, str) else tuple(asked.open)
    note = Handover(done=asked.done, next=asked.next, open=questions, files=tuple(asked.files))
    return HandoverWriteResult(handover=await store.writer.commit(work_notes.write_handover, note, caller.author))
