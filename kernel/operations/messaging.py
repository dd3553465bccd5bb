"""Communication between agents: channels, inboxes, questions to colleagues, status texts, and feedback.

A question to a colleague is asked here. The answer appears in the asker's conversation when the colleague has ended.
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
    """Message to a channel."""

    message: Annotated[str, msgspec.Meta(min_length=1, description="Text of the message. @name wakes a colleague.")]


class ChannelSendResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a message. ``not_woken``: mentioned members that were not woken, such as those beyond the limit."""

    message_id: str
    instruction_ids: tuple[str, ...]
    not_woken: tuple[str, ...]


class ChannelRequest(InSpace, frozen=True, kw_only=True):
    """Filter of messages."""

    since: Annotated[Seq, msgspec.Meta(description="Messages after this seq: the first up to limit.")] | None = None
    before: Annotated[Seq, msgspec.Meta(description="Messages before this seq: the newest up to limit.")] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=LONGEST, description="Maximum number of messages.")] = 50
    agent: Annotated[str, msgspec.Meta(description="Only messages from and to this agent.")] | None = None
    run: Run = None


class ChannelReadResult(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of a space, oldest first, of ``total``. Pass ``next`` as ``since`` if the request
    had ``since``, else as ``before``. Null: no more messages."""

    space: str
    messages: tuple[Message, ...]
    total: int
    next: int | None


def channel_send(tx: Transaction, asked: ChannelSendRequest, actor: Actor) -> ChannelSendResult:
    """Post a message in the channel of your workspace. Mention a colleague as @name to give them work; at most eight
    mentions are woken. Returns the message id and the instructions it created. To get an answer before you continue,
    use ask_agent."""
    draft = Draft(kind="said", space=asked.space, sender=actor.name, text=asked.message, author=actor.author)
    appended = append(tx, draft)
    return ChannelSendResult(
        message_id=appended.message_id, instruction_ids=appended.instruction_ids, not_woken=appended.not_woken
    )


async def channel(
    asked: ChannelRequest, actor: Actor, store: StoreAccess, files: ProjectFiles
) -> Channel | ChannelReadResult:
    """Read the messages of a space, oldest first. More messages exist unless next is null."""
    space, run = asked.space, None
    if asked.since is not None and asked.before is not None:
        raise Refused("bad_request", "since and before cannot be combined")
    if actor.identity is not None and not store.reader.now(run_outcomes.expected_in, space).has_channel:
        text = f"{place_of(space)} has no channel: its agents do not share messages"
        raise Refused("not_a_participant", text, "read your own messages with my_inbox")
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

    text: Annotated[str, msgspec.Meta(description="What hindered the work, and when.")]


class FeedbackSubmitRequest(Ask, frozen=True, kw_only=True):
    """Feedback of an agent."""

    text: Annotated[
        str,
        msgspec.Meta(min_length=1, max_length=FEEDBACK_CHARACTERS, description="What hindered your work, and when."),
    ]


class FeedbackSubmitResult(msgspec.Struct, frozen=True, kw_only=True):
    """Stored feedback."""

    id: str


def list_feedback(conn: apsw.Connection, asked: Backward) -> FeedbackList:
    """List feedback about the work: the newest entries, oldest first."""
    return messages.feedback_list(conn, page_of(asked, "f"))


def create_feedback(tx: Transaction, asked: FeedbackRequest) -> FeedbackAdded:
    """Record feedback of the user."""
    text = asked.text.strip()
    if not text:
        raise Refused("bad_request", "the text is empty")
    return FeedbackAdded(feedback=add_feedback(tx, text))


def feedback_submit(tx: Transaction, asked: FeedbackSubmitRequest, actor: Actor) -> FeedbackSubmitResult:
    """Send feedback to the people who run you about a tool, a message or an instruction that hinders your work. You get
    no answer: use ask_agent or your reply for questions."""
    return FeedbackSubmitResult(id=add_feedback(tx, asked.text, actor.attempt).id)


class MyInboxRequest(Ask, frozen=True, kw_only=True):
    """Page of the inbox."""

    after: (
        Annotated[str, msgspec.Meta(description="Only messages after this message_id: next of the previous answer.")]
        | None
    ) = None


class MyInboxResult(msgspec.Struct, frozen=True, kw_only=True):
    """Unhandled deliveries, oldest first, of ``total``. Pass ``next`` as ``after``. Null: no more deliveries."""

    deliveries: tuple[InboxRow, ...]
    total: int
    next: str | None


class MyInboxAckRequest(Ask, frozen=True, kw_only=True):
    """Deliveries to mark as handled."""

    ids: Annotated[
        list[str], msgspec.Meta(min_length=1, max_length=200, description="message_id of each handled message.")
    ]


class MyInboxAckResult(msgspec.Struct, frozen=True, kw_only=True):
    """Deliveries that were open before the call."""

    acknowledged: tuple[str, ...]


async def my_inbox(asked: MyInboxRequest, actor: Actor, store: StoreAccess) -> MyInboxResult:
    """List the unhandled messages that you received in this space, oldest first. Mark them with my_inbox_ack. More
    messages exist unless next is null."""
    key, space = actor.agent.agent, actor.agent.space
    page = RowPage(messages.DELIVERIES_LIMIT, 0 if asked.after is None else _seq(asked.after))
    found = store.reader.now(messages.inbox, key, space, page.limit + 1, page.after or 0)
    rows, following = page.cut(found, lambda row: row.message_id)
    return MyInboxResult(deliveries=rows, total=store.reader.now(messages.count, key, space), next=following)


def my_inbox_ack(tx: Transaction, asked: MyInboxAckRequest, actor: Actor) -> MyInboxAckResult:
    """Mark messages of your inbox as handled, by their message_id. Returns the ids that were open;
    a repeated call changes nothing.

    Unknown ids, and ids of messages to other agents, are ignored.
    """
    acked = acknowledge(tx, actor.attempt, [_seq(text) for text in asked.ids])
    return MyInboxAckResult(acknowledged=tuple(message_id(seq) for seq in acked))


def _seq(text: str) -> int:
    seq = number_of(text, "m")
    if seq is None:
        raise Refused("bad_request", f"{text[:40]!r} is not a message id", hint="ids look like m17")
    return seq


class AskAgentRequest(InSpace, frozen=True, kw_only=True):
    """Question to a colleague."""

    agent: Annotated[
        str, msgspec.Meta(min_length=1, max_length=64, description="Name of the colleague, from team_members.")
    ]
    query: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            description="Question with all the information that the colleague needs. No other agent is woken.",
        ),
    ]


class AskAgentResult(msgspec.Struct, frozen=True, kw_only=True):
    """Asked colleague and created instruction. The answer arrives later."""

    agent: str
    instruction_id: str
    message_id: str
    note: str


def ask_agent(tx: Transaction, asked: AskAgentRequest, actor: Actor) -> AskAgentResult:
    """Ask a colleague in your workspace a question whose answer you need before you continue. Finish your turn after
    the call: the answer arrives as your next message. Fails if the colleague is not a member."""
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
    appended = append(tx, draft)
    (instruction,) = appended.instruction_ids
    note = f"{name} was asked; the answer, or the reason that there is none, is the next message to you"
    return AskAgentResult(agent=name, instruction_id=instruction, message_id=appended.message_id, note=note)


class TeamMembersRequest(Ask, frozen=True, kw_only=True):
    """Options of the list of members."""

    include_status: bool = False


class Member(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Colleague. ``state`` and ``status`` are set only if they were requested."""

    name: str
    state: str | None = None
    status: AgentStatus | None = None


class TeamMembersResult(msgspec.Struct, frozen=True, kw_only=True):
    """Members of a space, sorted by name."""

    space: str
    members: tuple[Member, ...]


async def team_members(asked: TeamMembersRequest, actor: Actor, store: StoreAccess) -> TeamMembersResult:
    """List the members of your workspace. Use it before you mention or ask a colleague. Returns names, and on request
    their state and the status that they set."""
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
    """Status to show."""

    task: (
        Annotated[Few, msgspec.Meta(description="Current activity. Unset: unchanged; null: remove it.")] | Unset | None
    ) = msgspec.UNSET
    state: Annotated[Few, msgspec.Meta(description="Progress in one word.")] | Unset | None = msgspec.UNSET
    metadata: Annotated[dict[str, Any], msgspec.Meta(description="Additional data for colleagues.")] | Unset | None = (
        msgspec.UNSET
    )


class MyStatusSetResult(msgspec.Struct, frozen=True, kw_only=True):
    """Status that others see now."""

    status: AgentStatus


def my_status_set(tx: Transaction, asked: MyStatusSetRequest, actor: Actor) -> MyStatusSetResult:
    """Set your status, which colleagues and people see. No agent is woken. Omitted fields stay unchanged."""
    return MyStatusSetResult(status=work_notes.set_status(tx, asked, actor.attempt))


Note = Annotated[str, msgspec.Meta(min_length=1, max_length=HANDOVER_CHARACTERS)]
Notes = Annotated[list[Few], msgspec.Meta(max_length=100)]


class HandoverWriteRequest(Ask, frozen=True, kw_only=True):
    """Handover note."""

    done: Annotated[Note, msgspec.Meta(description="Finished work, and how it was verified.")]
    next: Annotated[Note, msgspec.Meta(description="Next steps, the most important first.")]
    open: Annotated[Notes | Note, msgspec.Meta(description="Open questions and risks.")] = []
    files: Annotated[Notes, msgspec.Meta(description="Relevant files.")] = []


class HandoverWriteResult(msgspec.Struct, frozen=True, kw_only=True):
    """Stored note. It replaces your earlier one."""

    handover: Handover


def handover_write(tx: Transaction, asked: HandoverWriteRequest, actor: Actor) -> HandoverWriteResult:
    """Write a handover note before you stop with unfinished work. The agent that continues your work receives it in its
    prompt. It replaces your earlier note."""
    questions = (asked.open,) if isinstance(asked.open, str) else tuple(asked.open)
    note = Handover(done=asked.done, next=asked.next, open=questions, files=tuple(asked.files))
    return HandoverWriteResult(handover=work_notes.write_handover(tx, note, actor.attempt))


_READ = ToolFront(
    "channel_read",
    "Read the channel of your workspace, oldest first. Use since to read only new messages. More messages exist "
    "unless next is null.",
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
