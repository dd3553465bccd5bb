"""Admission of kernels to a node: one project, and the highest term. Pure."""

from protocol.node import SPOKEN, KernelHello, Refusal, agree
from protocol.version import VERSION

_SHOWN = 100


def refusal_of(
    hello: KernelHello, project: str | None, highest_term: int, spoken: tuple[int, int] = SPOKEN
) -> Refusal | None:
    """Return why the kernel is not served; None: it is.

    ``project`` is the one that the node was started for; None: a join token leads to one alone. ``highest_term`` is
    the highest that was served in its folder.
    """
    theirs, ours = hello.protocol[1], spoken[1]
    if agree(spoken, hello.protocol) is None:
        older = "kernel's machine" if theirs < ours else "node"
        return Refusal(
            code="version",
            why=(
                f"the kernel ({hello.version}) speaks protocol {theirs} of nodes, this node ({VERSION}) {ours}: "
                f"upgrade agent-worker on the {older}"
            ),
        )
    if project is not None and hello.project != project:
        return Refusal(
            code="project",
            why=(f"this node serves project {project[:_SHOWN]!r}, and not {hello.project[:_SHOWN]!r}"),
        )
    if hello.term < highest_term:
        return Refusal(
            code="term",
            why=f"a later kernel of this project was here: term {highest_term}, and this one has {hello.term}",
        )
    return None
