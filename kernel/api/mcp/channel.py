"""The channel of the space an agent works in: say something, read what was said."""

from typing import Annotated

import msgspec

from kernel.api.context import Services
from kernel.api.mcp.tool import Ask, Caller
from kernel.rule.draft import Draft
from kernel.store import finals, messages
from kernel.store.commits.append import append
from protocol.errors import Refused
from protocol.instruction import LARGEST
from protocol.message import Message
from protocol.names import place_of

READ_LIMIT = 200


class Say(Ask, frozen=True, kw_only=True):
    """Arguments of channel_send."""

    message: Annotated[str, msgspec.Meta(min_length=1, description="What to say. @name wakes a colleague.")]


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it. ``not_woken`` were mentioned over the limit, or for another reason not woken."""

    message_id: str
    instruction_ids: tuple[str, ...]
    not_woken: tuple[str, ...]


class Read(Ask, frozen=True, kw_only=True):
    """Arguments of channel_read."""

    since: Annotated[int, msgspec.Meta(ge=0, le=LARGEST, description="Only the first after this seq.")] | None = None
    before: Annotated[int, msgspec.Meta(ge=0, le=LARGEST, description="Only the newest before this seq.")] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=READ_LIMIT, description="At most this many, the newest.")] = 50


class ChannelText(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of a space, oldest first, of ``total``.

    ``next`` goes into ``since`` if that was given, else ``before``; null: that is all.
    """

    space: str
    messages: tuple[Message, ...]
    total: int
    next: int | None


async def say(services: Services, caller: Caller, asked: Say) -> Said:
    """Append to the channel as the caller. A repeated call of the same key adds nothing."""
    identity = caller.identity
    draft = Draft(kind="said", space=identity.space, sender=identity.name, text=asked.message, author=caller.author)
    appended = await services.writer.commit(append, draft, call_key=caller.call_key)
    return Said(message_id=appended.message_id, instruction_ids=appended.instruction_ids, not_woken=appended.not_woken)


async def read(services: Services, caller: Caller, asked: Read) -> ChannelText:
    """The newest messages of the channel, those ``before`` one, or the first after ``since``."""
    if asked.since is not None and asked.before is not None:
        raise Refused("bad_request", "since and before exclude each other")
    space = caller.identity.space
    if not services.reader.now(finals.expected_in, space).has_channel:
        text = f"{place_of(space)} has no channel: its agents do not hear each other"
        raise Refused("not_a_participant", text, "what is for you is in my_inbox")
    said = messages.Said(space)
    found = await services.reader.read(messages.page, said, asked.limit, since=asked.since, before=asked.before)
    following = None if found.next is None else int(found.next)
    return ChannelText(space=place_of(space), messages=found.messages, total=found.total, next=following)
