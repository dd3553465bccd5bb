"""Admission of kernels to a node: one project, the highest term, one session at a time. Pure."""

from typing import Final, Literal

import msgspec

from protocol.node import SPOKEN, KernelHello, Refusal, agree
from protocol.version import VERSION

_SHOWN: Final = 100


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a node when a kernel greets it."""

    project: str | None
    """None: it has not served any yet."""
    highest_term: int
    session: str | None
    """The one that holds its lease, or waits for it."""
    term: int = 0
    """Its term."""
    holds_lease: bool = False
    spoken: tuple[int, int] = SPOKEN


def admit(hello: KernelHello, standing: Standing) -> Refusal | Literal["resume", "new"]:
    """Judge a greeting: go on with the session, begin a new one in place of the one that is there, or refuse."""
    theirs, ours, served = hello.protocol[1], standing.spoken[1], standing.project or hello.project
    resumes = hello.session == standing.session
    older = "kernel's machine" if theirs < ours else "node"
    faults = (
        (
            agree(standing.spoken, hello.protocol) is None,
            "version",
            (
                f"the kernel ({hello.version}) speaks protocol {theirs} of nodes, this node ({VERSION}) {ours}: "
                f"upgrade agent-worker on the {older}"
            ),
        ),
        (
            hello.project != served,
            "project",
            (
                f"this node serves project {served[:_SHOWN]!r}, and not {hello.project[:_SHOWN]!r}: "
                "give it a folder of its own with --state"
            ),
        ),
        (
            hello.term < standing.highest_term,
            "term",
            f"a later kernel of this project was here: term {standing.highest_term}, and this one has {hello.term}",
        ),
        (
            hello.resume and not resumes,
            "session",
            (
                "nothing of that session is here: its lease was over, the node was started anew, "
                "or another machine has the same join word"
            ),
        ),
        (
            standing.holds_lease and hello.term == standing.term and not resumes,
            "busy",
            (
                "another session of the same kernel holds the lease of this folder: two nodes of one project that are "
                "the same user of the same machine need a --state, or an AGENT_WORKER_HOME, of their own"
            ),
        ),
    )
    for is_so, code, why in faults:
        if is_so:
            return Refusal(code=code, why=why)
    return "resume" if resumes else "new"
