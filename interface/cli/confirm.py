"""Questions to the user: put on a terminal only, and answered by ``--yes`` (contracts 7)."""

from interface.cli.context import Context


def can_ask(context: Context) -> bool:
    """Return whether a person can read a question and answer it."""
    return not context.out.unattended and context.stdin.isatty() and context.out.is_terminal


def agrees(context: Context, question: str) -> bool:
    """Return whether the user wants it: said with ``--yes``, asked where somebody can answer, else taken as meant."""
    if context.args.yes or not can_ask(context):
        return True
    context.out.ask(f"{question} [y/N] ")
    return context.stdin.readline().strip().lower() in {"y", "yes"}
