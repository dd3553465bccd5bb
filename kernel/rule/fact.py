"""A fact: what a proposal is asked about. A draft whose author and chain of causes are known."""

import msgspec

from kernel.rule.draft import Payload
from protocol.message import MessageKind
from protocol.names import AgentKey


class Fact(msgspec.Struct, frozen=True):
    """One message under evaluation.

    ``cause`` is the instruction it comes from, ``speaker`` the agent behind that, ``hops`` its place in the chain.
    ``asks``: that instruction goes on with the answer.
    """

    kind: MessageKind
    space: str
    sender: str
    text: str = ""
    to: tuple[str, ...] = ()
    mentions: tuple[str, ...] | None = None
    hops: int = 0
    cause: int | None = None
    speaker: AgentKey | None = None
    payload: Payload | None = None
    vouched: tuple[str, ...] = ()
    asks: bool = False
