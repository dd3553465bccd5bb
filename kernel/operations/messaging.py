"""Words between agents: channels, inboxes, questions to colleagues, what an agent says of its work, and feedback.

A question to a colleague is asked here, and answered in the asker's conversation once the colleague has ended.
"""

from typing import Annotated, Any, Final

import apsw
import msgspec

from kernel.operations.context import ProjectFiles, StoreAccess, run_at
from kernel.operations.operation import Actor, Backward, InSpace, Run, ToolFront, operation, page_of
from kernel.rule.draft import Draft
from kernel.store import agents, messages, run_outcomes, work_notes, workflows
from kernel.store.messages import acknowledge, add_feedback
from kernel.store.rows import LONGEST, RowPage
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import append
from kernel.store.transitions.threads import ASK_AGENT
from protocol.api.agents import AgentStatus
from protocol.api.document import Ask
from protocol.api.instructions import Handover
from protocol.api.messages import Channel, FeedbackAdded, FeedbackList, InboxRow
from protocol.errors import Refused
from protocol.instruction import LARGEST
from protocol.message import Message
from protocol.names import message_id, number_of, place_of

READ_LIMIT: Final = 200
FEEDBACK_CHARACTERS: Final = 20_000
NOTE_CHARACTERS: Final = 500
HANDOVER_CHARACTERS: Final = 8000

Seq = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]


class ChannelSendRequest(InSpace, frozen=True, kw_only=True):
    """A message to a channel."""

    message: Annotated[str, msgspec.Meta(min_length=1, description="What to say. @name wakes a colleague.")]


class ChannelSendResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it. ``not_woken`` were mentioned over the limit, or for another reason not woken."""

    message_id: str
    instruction_ids: tuple[str, ...]
    not_woken: tuple[str, ...]


class ChannelRequest(InSpace, frozen=True, kw_only=True):
    """The messages to show."""

    since: Annotated[Seq, msgspec.Meta(description="Only the first after this seq.")] | None = None
    before: Annotated[Seq, msgspec.Meta(description="Only the newest before this seq.")] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=LONGEST, description="At most this many, the newest.")] = 50
    agent: Annotated[str, msgspec.Meta(description="Only by this agent and to it.")] | None = None
    run: Run = None


class ChannelReadResult(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of a space, oldest first, of ``total``.

    ``next`` goes into ``since`` if that was given, else ``before``; null: that is all.
    """

    space: str
    messages: tuple[Message, ...]
    total: int
    next: int | None


def channel_send(tx: Transaction, asked: ChannelSendRequest, actor: Actor) -> ChannelSendResult:
    """Say something in the channel of your workspace. Mention a colleague as @name to give them work."""
    draft = Draft(kind="said", space=asked.space, sender=actor.name, text=asked.message, author=actor.author)
    appended = append(tx, draft, call_key=actor.call_key)
    return ChannelSendResult(
        message_id=appended.message_id, instruction_ids=appended.instruction_ids, not_woken=appended.not_woken
    )


async def channel(
    asked: ChannelRequest, actor: Actor, store: StoreAccess, files: ProjectFiles
) -> Channel | ChannelReadResult:
    """Read the messages of a space, oldest first. Unless next is null there is more."""
    space, run = asked.space, None
    if asked.since is not None and asked.before is not None:
        raise Refused("bad_request", "since and before exclude each other")
    if actor.identity is not None and not store.reader.now(run_outcomes.expected_in, space).has_channel:
        text = f"{place_of(space)} has no channel: its agents do not hear each other"
        raise Refused("not_a_participant", text, "what is for you is in my_inbox")
    if asked.run is not None:
        run = run_at(store, files, place_of(space), asked.run)
        space = store.reader.now(workflows.space_at, place_of(space), run.id) or run.space
    said = messages.ChannelFilter(space, None if run is None else run.id, asked.agent)
    found = await store.reader.read(messages.page, said, asked.limit, since=asked.since, before=asked.before)
    if actor.identity is None:
        return Channel(space=place_of(space), messages=found.messages, total=found.total, next=found.next)
    following = None if found.next is None else int(found.next)
    return ChannelReadResult(space=place_of(space), messages=found.messages, total=found.total, next=following)


class FeedbackRequest(Ask, frozen=True, kw_only=True):
    """POST /feedback."""

    text: Annotated[str, msgspec.Meta(description="What was in your way, and when.")]


class FeedbackSubmitRequest(Ask, frozen=True, kw_only=True):
    """A remark of an agent."""

    text: Annotated[
        str, msgspec.Meta(min_length=1, max_length=FEEDBACK_CHARACTERS, description="What was in your way, and when.")
    ]


class FeedbackSubmitResult(msgspec.Struct, frozen=True, kw_only=True):
    """It is kept."""

    id: str


def list_feedback(conn: apsw.Connection, asked: Backward) -> FeedbackList:
    """List what was said about the work: the newest, oldest first."""
    return messages.feedback_list(conn, page_of(asked, "f"))


def create_feedback(tx: Transaction, asked: FeedbackRequest) -> FeedbackAdded:
    """Record a remark of the user's."""
    text = asked.text.strip()
    if not text:
        raise Refused("bad_request", "the text is empty")
    return FeedbackAdded(feedback=add_feedback(tx, text))


def feedback_submit(tx: Transaction, asked: FeedbackSubmitRequest, actor: Actor) -> FeedbackSubmitResult:
    """Tell the people who run you what gets in your way here: a tool, a message, an instruction."""
    return FeedbackSubmitResult(id=add_feedback(tx, asked.text, actor.attempt, call_key=actor.call_key).id)


class MyInboxRequest(Ask, frozen=True, kw_only=True):
    """The deliveries to list."""

    after: (
        Annotated[str, msgspec.Meta(description="Only what came after this message_id: next of an answer.")] | None
    ) = None


class MyInboxResult(msgspec.Struct, frozen=True, kw_only=True):
    """Deliveries that are not handled, oldest first, of ``total``. ``next`` goes into ``after``; null: that is all."""

    deliveries: tuple[InboxRow, ...]
    total: int
    next: str | None


class MyInboxAckRequest(Ask, frozen=True, kw_only=True):
    """Deliveries that were handled."""

    ids: Annotated[list[str], msgspec.Meta(min_length=1, max_length=200, description="message_id of what you handled")]


class MyInboxAckResult(msgspec.Struct, frozen=True, kw_only=True):
    """Those that were open until now."""

    acknowledged: tuple[str, ...]


async def my_inbox(asked: MyInboxRequest, actor: Actor, store: StoreAccess) -> MyInboxResult:
    """List messages that reached you here and are not handled yet. Unless next is null there is more."""
    key, space = actor.agent.agent, actor.agent.space
    page = RowPage(messages.DELIVERIES_LIMIT, 0 if asked.after is None else _seq(asked.after))
    found = store.reader.now(messages.inbox, key, space, page.limit + 1, page.after or 0)
    rows, following = page.cut(found, lambda row: row.message_id)
    return MyInboxResult(deliveries=rows, total=store.reader.now(messages.count, key, space), next=following)


def my_inbox_ack(tx: Transaction, asked: MyInboxAckRequest, actor: Actor) -> MyInboxAckResult:
    """Mark messages of your inbox as handled, by their message_id.

    Ids of others, or unknown ones, change nothing.
    """
    acked = acknowledge(tx, actor.attempt, [_seq(text) for text in asked.ids])
    return MyInboxAckResult(acknowledged=tuple(message_id(seq) for seq in acked))


def _seq(text: str) -> int:
    seq = number_of(text, "m")
    if seq is None:
        raise Refused("bad_request", f"{text[:40]!r} is not the id of a message", hint="ids look like m17")
    return seq


class AskAgentRequest(InSpace, frozen=True, kw_only=True):
    """A question to a colleague."""

    agent: Annotated[str, msgspec.Meta(min_length=1, max_length=64, description="Whom: a name of team_members.")]
    query: Annotated[str, msgspec.Meta(min_length=1, description="All they need to know. It wakes nobody else.")]


class AskAgentResult(msgspec.Struct, frozen=True, kw_only=True):
    """Who was asked, and the instruction it became. The answer is not in here."""

    agent: str
    instruction_id: str
    message_id: str
    note: str


def ask_agent(tx: Transaction, asked: AskAgentRequest, actor: Actor) -> AskAgentResult:
    """Ask a colleague in your workspace something you need before you go on. You get their answer next."""
    name = asked.agent.removeprefix("@").lower()
    draft = Draft(
        kind="said",
        space=asked.space,
        sender=actor.name,
        text=asked.query,
        to=(name,),
        mentions=(),
        author=actor.author,
        asks=True,
    )
    appended = append(tx, draft, call_key=actor.call_key)
    (instruction,) = appended.instruction_ids
    note = f"{name} is asked; the answer, or why there is none, follows as the next message to you"
    return AskAgentResult(agent=name, instruction_id=instruction, message_id=appended.message_id, note=note)


class TeamMembersRequest(Ask, frozen=True, kw_only=True):
    """The members to list."""

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


async def team_members(asked: TeamMembersRequest, actor: Actor, store: StoreAccess) -> TeamMembersResult:
    """List who works in your workspace."""
    space = actor.agent.space
    rows = store.reader.now(agents.members, space)
    if not asked.include_status:
        return TeamMembersResult(space=place_of(space), members=tuple(Member(name=row.name) for row in rows))
    said = {row.key: store.reader.now(work_notes.status, row.key, space) for row in rows}
    found = tuple(Member(name=row.name, state=row.state, status=said[row.key]) for row in rows)
    return TeamMembersResult(space=place_of(space), members=found)


Few = Annotated[str, msgspec.Meta(max_length=NOTE_CHARACTERS)]
Unset = msgspec.UnsetType


class MyStatusSetRequest(work_notes.StatusChange, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The status to show."""

    task: (
        Annotated[Few, msgspec.Meta(description="What you are at. Unset: as before; null takes it away.")]
        | Unset
        | None
    ) = msgspec.UNSET
    state: Annotated[Few, msgspec.Meta(description="How it stands, in a word.")] | Unset | None = msgspec.UNSET
    metadata: (
        Annotated[dict[str, Any], msgspec.Meta(description="Whatever else colleagues can use.")] | Unset | None
    ) = msgspec.UNSET


class MyStatusSetResult(msgspec.Struct, frozen=True, kw_only=True):
    """The status that is shown of you from now on."""

    status: AgentStatus


def my_status_set(tx: Transaction, asked: MyStatusSetRequest, actor: Actor) -> MyStatusSetResult:
    """Say what you are at, for colleagues and people who look. It wakes nobody."""
    return MyStatusSetResult(status=work_notes.set_status(tx, asked, actor.attempt))


Note = Annotated[str, msgspec.Meta(min_length=1, max_length=HANDOVER_CHARACTERS)]
Notes = Annotated[list[Few], msgspec.Meta(max_length=100)]


class HandoverWriteRequest(Ask, frozen=True, kw_only=True):
    """The note to leave."""

    done: Annotated[Note, msgspec.Meta(description="What is done, and how you know that it works.")]
    next: Annotated[Note, msgspec.Meta(description="What to do next, first things first.")]
    open: Annotated[Notes | Note, msgspec.Meta(description="Open questions and risks.")] = []
    files: Annotated[Notes, msgspec.Meta(description="Files that matter.")] = []


class HandoverWriteResult(msgspec.Struct, frozen=True, kw_only=True):
    """It is kept, in place of what you wrote before."""

    handover: Handover


def handover_write(tx: Transaction, asked: HandoverWriteRequest, actor: Actor) -> HandoverWriteResult:
    """Before you stop with work left: say what is done and what is next, for whoever goes on with it."""
    questions = (asked.open,) if isinstance(asked.open, str) else tuple(asked.open)
    note = Handover(done=asked.done, next=asked.next, open=questions, files=tuple(asked.files))
    return HandoverWriteResult(handover=work_notes.write_handover(tx, note, actor.attempt))


_READ = ToolFront(
    "channel_read",
    "Read the channel of your workspace, oldest first. Unless next is null there is more.",
    limits=(50, READ_LIMIT),
    in_space=True,
    without=("agent", "run"),
)
OPERATIONS = (
    operation(channel_send, team=ToolFront("channel_send", idempotent=False, in_space=True)),
    operation(channel, "GET /spaces/<space>/channel", team=_READ, manage=ToolFront("channel_read", without=("run",))),
    operation(my_inbox, team=ToolFront("my_inbox")),
    operation(my_inbox_ack, team=ToolFront("my_inbox_ack")),
    operation(team_members, team=ToolFront("team_members")),
    operation(my_status_set, team=ToolFront("my_status_set")),
    operation(handover_write, team=ToolFront("handover_write")),
    operation(ask_agent, team=ToolFront(ASK_AGENT, idempotent=False, in_space=True)),
    operation(list_feedback, "GET /feedback"),
    operation(create_feedback, "POST /feedback", status=201, people_only=False),
    operation(feedback_submit, team=ToolFront("feedback_submit", idempotent=False)),
)
