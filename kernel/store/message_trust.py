"""Trust of messages: the class of each as an agent reads it, and of all that an attempt begins with."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol, cast

import apsw

from kernel.policy.provenance import class_of_message, class_unseen, repeats
from kernel.store.messages import printed, these
from kernel.store.trust import UNKNOWN, in_space, of_agent
from protocol.agent_memory import CLASSES, SourceClass, least
from protocol.api.instructions import PromptPart
from protocol.backends import BACKENDS
from protocol.message import Message
from protocol.names import number_of
from protocol.text import encode_json

CAUSES: Final = """
SELECT i.id, i.trust FROM json_each(?) AS asked CROSS JOIN instructions AS i ON i.id = asked.value
"""
SPACE: Final = "SELECT space FROM messages WHERE seq = ?"


def classes(conn: apsw.Connection, said: Iterable[Message], name: str = "") -> Mapping[int, SourceClass]:
    """Return the class of each message, by number, as the agent called ``name`` there reads them.

    What an agent said is trusted as the work in which it said that; its own words count as no colleague's.
    """
    messages = tuple(said)
    commanded = printed(conn, messages)
    causes = {one.seq: number_of(one.instruction, "i") or 0 for one in messages if one.instruction is not None}
    found = conn.execute(CAUSES, (encode_json(sorted(set(causes.values()))).decode(),)) if causes else ()
    rows = cast("Iterable[tuple[int, int]]", found)
    trusts: dict[int, SourceClass] = {number: CLASSES[trust] for number, trust in rows}
    unsaid = (one.seq for one in messages if one.seq not in causes and repeats(one))
    around: dict[int, SourceClass] = {one: in_space(conn, str(conn.execute(SPACE, (one,)).get)) for one in unsaid}
    return {
        one.seq: class_of_message(
            one,
            printed=one.seq in commanded,
            work=trusts.get(causes[one.seq], UNKNOWN) if one.seq in causes else around.get(one.seq),
            own=one.sender == name and one.seq in causes,
        )
        for one in messages
    }


class AnyWork(Protocol):
    """An instruction that an attempt begins."""

    @property
    def agent(self) -> str:
        """Its key."""
        ...

    @property
    def name(self) -> str:
        """The agent's name in the space."""
        ...

    @property
    def space(self) -> str:
        """The space that it works in."""
        ...

    @property
    def message_seq(self) -> int:
        """The message it was made of."""
        ...

    @property
    def joined(self) -> Sequence[int]:
        """Further messages that were made part of it."""
        ...


def of_start(conn: apsw.Connection, work: AnyWork, backend: str, parts: Iterable[PromptPart]) -> SourceClass:
    """Return the class of all that an attempt of ``backend`` begins with: its prompt and the session it goes on with.

    And of what it will read unseen.
    """
    said = these(conn, (work.message_seq, *work.joined))
    session: SourceClass = of_agent(conn, work.agent, work.space) if BACKENDS[backend].own_session else "user"
    prompt: list[SourceClass] = [part.trust for part in parts if part.trust != "system" and part.kept != "left_out"]
    return least([class_unseen(backend), session, *prompt, *classes(conn, said, work.name).values()])
