"""Whom a node serves: one project, the highest term, one session at a time. Pure."""

from typing import Final, Literal

import msgspec

from protocol.node import SPOKEN, KernelHello, Refusal, agree
from protocol.version import VERSION

_SHOWN: Final = 100


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What a node knows when a kernel greets it."""

    project: str | None
    """None: it has not served any yet."""
    highest_term: int
    session: str | None
    """The one that holds its lease, or waits for it."""
    spoken: tuple[int, int] = SPOKEN


def admit(hello: KernelHello, standing: Standing) -> Refusal | Literal["resume", "new"]:
    """Judge a greeting: go on with the session, begin a new one in place of the one that is there, or refuse."""
    if agree(standing.spoken, hello.protocol) is None:
        theirs, ours = hello.protocol[1], standing.spoken[1]
        older = "kernel's machine" if theirs < ours else "node"
        return Refusal(
            code="version",
            why=f"the kernel ({hello.version}) speaks protocol {theirs} of nodes, this node ({VERSION}) {ours}: "
            f"upgrade agent-worker on the {older}",
        )
    if standing.project is not None and hello.project != standing.project:
        return Refusal(
            code="project",
            why=f"this node serves project {standing.project[:_SHOWN]!r}, and not {hello.project[:_SHOWN]!r}: "
            "give it a folder of its own with --state",
        )
    if hello.term < standing.highest_term:
        return Refusal(
            code="term",
            why=f"a later kernel of this project was here: term {standing.highest_term}, and this one has {hello.term}",
        )
    if hello.session == standing.session:
        return "resume"
    if hello.resume:
        return Refusal(code="session", why="its lease was over, or the node was started anew: nothing of it is left")
    return "new"
