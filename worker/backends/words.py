"""What a program is given to read: the work with its thread, or the word to go on. Pure."""

from collections.abc import Sequence
from typing import Final

from protocol.ipc import Granted, Turn
from worker.conversation import Conversation
from worker.fit import shorten

GO_ON: Final = (
    "(You were interrupted. What came of the last thing you did may be unknown: check before you do it again. "
    "Then go on with the work.)"
)
_GRANTED: Final = (
    "(A call of yours was waiting for an approval when you were interrupted. It did not run, and it is approved now: "
    "make the same call again, with the same arguments, if it is still needed. It was {tool} with {input})"
)
INPUT_BYTES: Final = 16 * 1024
"""Of one call, as it is told again."""
_ASKED: Final = "What you were asked to do:"
_BEFORE: Final = "# What was said before"
_NOW: Final = "# And now, for you"
_SPEAKERS: Final = {"user": "To you:", "assistant": "You:"}


def opening(conversation: Conversation) -> str:
    """The instruction; what was said before it as quoted lines, that nobody takes for it."""
    earlier, asked = _parted(conversation)
    if not earlier:
        return asked
    told = "\n\n".join(f"{_SPEAKERS[turn.role]}\n{_quoted(turn.text)}" for turn in earlier)
    return f"{_BEFORE}\n\n{told}\n\n{_NOW}\n\n{asked}"


def going_on(conversation: Conversation, granted: Sequence[Granted] = ()) -> str:
    """The word to go on in a session that knows the rest, with what was added since its last reply.

    ``granted``: calls that were asked about, and were approved when nobody was there to hear it.

    Where it has not replied yet it may not have read the work either, so that is said again.
    """
    last = conversation.last
    more = [_GRANTED.format(tool=one.tool, input=_fitting(one)) for one in granted]
    if last is None:
        return "\n\n".join([GO_ON, *more, _ASKED, _parted(conversation)[1]])
    return "\n\n".join([GO_ON, *more, *(note.text for note in last.notes)])


def _fitting(one: Granted) -> str:
    return shorten(bytes(one.input).decode("utf-8", "replace"), INPUT_BYTES)


def _parted(conversation: Conversation) -> tuple[Sequence[Turn], str]:
    """The thread, and the instruction with what was added before the first reply."""
    thread = conversation.opening[: conversation.thread_turns]
    return thread, "\n\n".join(turn.text for turn in conversation.opening[conversation.thread_turns :])


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.splitlines())
