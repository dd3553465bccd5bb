"""Questions to the user, put only where somebody is there to answer: to go on (``--yes``), and to trust files.

A request that the kernel refused as untrusted is sent again with the digests of exactly what was shown: where the
files changed in between, it is refused again.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from interface.cli.context import Context
from interface.cli.output import Screen, escape, one_line
from interface.discovery import URL
from interface.failure import Failure


def can_ask(context: Context) -> bool:
    """Return whether a person can read a question and answer it."""
    return not context.out.unattended and context.stdin.isatty() and context.out.is_terminal


def agrees(context: Context, question: str) -> bool:
    """Return whether the user wants it: said with ``--yes``, asked where somebody can answer, else taken as meant."""
    if context.args.yes or not can_ask(context):
        return True
    context.out.ask(f"{question} [y/N] ")
    return context.stdin.readline().strip().lower() in {"y", "yes"}


T = TypeVar("T")
Request = Mapping[str, object]

_INDENT: Final = "    "


def with_trust(context: Context, request: Request, ask: Callable[[Request], T]) -> T:
    """The answer of ``ask`` to ``request``; refused as untrusted, it is asked again with what a person agrees to.

    Raises what ``ask`` raises; the refusal where nobody agrees, or nobody is there.
    """
    agreed: frozenset[str] = frozenset()
    while True:
        try:
            return ask({**request, "agree": sorted(agreed)} if agreed else request)
        except Failure as refused:
            wanted = {str(want["digest"]) for want in refused.wants}
            if refused.code != "untrusted" or not wanted or wanted <= agreed or not can_ask(context):
                raise
            if not agrees_to_trust(context, refused):
                raise
            agreed |= wanted


def agrees_to_trust(context: Context, refused: Failure) -> bool:
    """Show what is wanted, and ask. What is to be kept is written before anything is done with it."""
    local = not context.environ.get(URL)  # the state of a kernel that is named there may be elsewhere
    context.out.note("The project's files are not trusted yet. They would:")
    for want in refused.wants:
        context.out.notes(unit_lines(want, context.out.error_screen))
    keep = ", a = yes, and keep it until they change" if local else ""
    context.out.ask(f"Go on? [y = this time{keep}, N] ")
    answer = context.stdin.readline().strip().lower()
    if local and answer in {"a", "always"}:
        from interface.trust_file import TrustFile  # noqa: PLC0415  (most commands keep nothing)

        TrustFile(context.project).keep(refused.wants, context.clock.wall())
        return True
    return answer in {"y", "yes"}


def unit_lines(want: Mapping[str, Any], screen: Screen) -> list[str]:
    """One unit: its subject and everything it demands, each as it is written; what is new of it is marked.

    Every line of a demand is indented: none can pass for a line of ours.
    """
    before: list[str] = list(want.get("before", ()))
    changed = " (changed since it was trusted)" if before else ""
    head = f"  {one_line(str(want['subject']))}{changed}, digest {str(want['digest'])[:12]}"
    lines = [screen.style(head, "bold")]
    for demand in map(str, want["demands"]):
        mark = "  + " if before and demand not in before else _INDENT
        first, *rest = escape(demand).split("\n")
        lines += [f"{mark}{first}", *(f"{_INDENT}  {line}" for line in rest)]
    return lines
