"""Questions to the user, if present: confirmations (``--yes``), approvals, and trust in files.

After a refusal as untrusted, the request is repeated with the digests of exactly the displayed content. If the files
have changed in between, it is refused again.
"""

import json
import termios
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from typing import Any, Final, TypeVar

from interface.cli.context import Context
from interface.cli.output import Screen, behind, escape, one_line, wrapped
from interface.client import Client, new_key, quoted
from interface.discovery import URL
from interface.failure import Failure, Unreachable


def can_ask(context: Context) -> bool:
    """Return whether a person can read a question and answer it."""
    return not context.out.unattended and context.stdin.isatty() and context.out.is_terminal


def agrees(context: Context, question: str) -> bool:
    """Return whether the user agrees: by ``--yes``, by answer, or by default if no user is present."""
    if context.args.yes or not can_ask(context):
        return True
    return _asked(context, f"{question} [y/N] ") in {"y", "yes"}


def confirm(context: Context, question: str, declined: str) -> None:
    """Raise Failure with the text ``declined`` unless the user agrees."""
    if not agrees(context, question):
        raise Failure("failed", declined)


def _asked(context: Context, question: str) -> str:
    """Ask a question, discarding input typed before it, and return the answer."""
    _forget_typed(context)
    context.out.ask(question)
    return context.stdin.readline().strip().lower()


def _forget_typed(context: Context) -> None:
    with suppress(OSError, ValueError, termios.error):  # standard input is no terminal
        termios.tcflush(context.stdin.fileno(), termios.TCIFLUSH)


SHOWN_ROWS: Final = 40
"""Number of lines of a call that are shown before ``d``."""
_GUTTER: Final = "  | "
"""Prefix of each row of agent text, so that no text imitates a line of this command."""
_OLD: Final = ("old_string", "old", "old_str")
_NEW: Final = ("new_string", "new", "new_str", "content")


def decide_in_place(context: Context, approval: str) -> None:
    """Show a call that waits for approval, ask the user, and send the answer. An empty answer leaves the request open.

    A call can be approved only after it was shown completely.
    """
    try:
        with closing(context.find_kernel()) as client:
            asked = json.loads(client.get(f"/approvals/{quoted(approval)}"))
            if asked["state"] != "open":
                return
            context.out.note(
                one_line(f"{asked['agent']} in {asked['space']} wants to call {asked['tool']} ({approval})")
            )
            if asked.get("reason"):
                context.out.notes(quoted_rows(context, [f"reason: {asked['reason']}"]))
            rows = quoted_rows(context, call_lines(asked["input"]))
            change = change_lines(asked["input"])
            whole = len(rows) <= SHOWN_ROWS
            context.out.notes(
                rows if whole else [*rows[:SHOWN_ROWS], f"  {len(rows) - SHOWN_ROWS} more rows: d shows all"]
            )
            more = "d diff" if change else "d all"
            while True:
                answer = _asked(context, f"Approve {approval}? [y once, a always, n no, {more}, Enter: later] ")
                if answer == "d" or (answer in {"y", "a"} and not whole):
                    context.out.notes([*(() if whole else rows), *quoted_rows(context, change)])
                    whole = True
                    continue
                if answer == "a" and always_pattern(asked) is None:
                    context.out.note(f"note: {NOT_ALWAYS}: answer y, or approve --always")
                    continue
                if answer in {"y", "a", "n"}:
                    context.out.note(decided(client, asked, answer))
                else:
                    context.out.note(f"note: {approval} remains open: {context.program} approve {approval}")
                return
    except (Failure, Unreachable) as error:
        context.out.note(one_line(f"note: {approval}: {error}"))


def is_question(event: Mapping[str, Any]) -> bool:
    """Return whether an event is about an instruction that waits for a person's answer."""
    return event.get("type") == "instruction.queued" and event.get("data", {}).get("waits_for") == "person"


def answer_in_place(context: Context, instruction: str) -> None:
    """Show a question to the person who is an agent, and send the typed answer. An empty answer leaves it open."""
    try:
        with closing(context.find_kernel()) as client:
            asked = json.loads(client.get(f"/instructions/{quoted(instruction)}"))
            if asked["status"] != "waiting" or asked.get("waits_for") != "person":
                return
            context.out.note(one_line(f"{asked['agent']} in {asked['space']} is asked to reply ({instruction}):"))
            told = json.loads(client.get(f"/instructions/{quoted(instruction)}/prompt"))["messages"][-1]["text"]
            context.out.notes(quoted_rows(context, str(told).split("\n")))
            _forget_typed(context)
            context.out.ask(f"Answer for {asked['agent']} [end with an empty line; empty: answer later] ")
            lines: list[str] = []
            while line := context.stdin.readline().rstrip("\n"):
                lines.append(line)
            if not lines:
                context.out.note(f"note: {instruction} remains open: {context.program} answer {instruction} TEXT")
                return
            said = {"text": "\n".join(lines), "as": asked["agent"]}
            client.post(f"/instructions/{quoted(instruction)}/answer", said, key=new_key())
    except (Failure, Unreachable) as error:
        context.out.note(one_line(f"note: {instruction}: {error}"))


NOT_ALWAYS: Final = "its input contains *, which would match any text"


def always_pattern(asked: Mapping[str, Any]) -> str | None:
    """Return the pattern that matches exactly this call, or None if every pattern would match other calls, too.

    The pattern is the call in the kernel's form.
    """
    pattern = json.dumps(asked["input"], ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return None if "*" in pattern else pattern


def decided(client: Client, asked: Mapping[str, Any], answer: str) -> str:
    """Send the answer to an approval request: ``y`` once, ``a`` always, ``n`` no. Returns the result as a line."""
    body = {"always": always_pattern(asked)} if answer == "a" else {}
    what = "deny" if answer == "n" else "approve"
    found = json.loads(client.post(f"/approvals/{quoted(str(asked['id']))}/{what}", body, key=new_key()))
    also = f", and with it {', '.join(found['also_granted'])}" if found.get("also_granted") else ""
    return one_line(f"{found['id']} was {found['state']}{also}")


def call_lines(given: object) -> list[str]:
    """Return the complete input of a call: one line for each value, as JSON, so that no text can look like a key."""
    return json.dumps(given, ensure_ascii=False, sort_keys=True, indent=2).split("\n")


def change_lines(given: object) -> list[str]:
    """Return the change of an edit as a diff of its old and new lines."""
    if not isinstance(given, dict):
        return []
    values: dict[str, Any] = given
    old = next((values[key] for key in _OLD if isinstance(values.get(key), str)), "")
    new = next((values[key] for key in _NEW if isinstance(values.get(key), str)), None)
    if new is None:
        return []
    from difflib import unified_diff  # noqa: PLC0415  (10 ms, for who asks to see it)

    return list(unified_diff(old.splitlines(), new.splitlines(), "before", "after", lineterm="", n=3))


def quoted_rows(context: Context, lines: Iterable[str]) -> list[str]:
    """Return lines of an agent, escaped, in rows of the terminal's width, each after a bar.

    Tabs are visible, because an edit may change only them.
    """
    columns = max(context.out.width() - len(_GUTTER), 20)
    shown = (escape(line.replace("\n", "\\n").replace("\t", "\\t")) for line in lines)
    return [_GUTTER + row for line in shown for row in wrapped(line, columns)]


T = TypeVar("T")
Request = Mapping[str, object]

_INDENT: Final = "    "


def with_trust(context: Context, request: Request, ask: Callable[[Request], T]) -> T:
    """Return the response of ``ask`` to ``request``; after an untrusted refusal ask the user and retry.

    Raises errors of ``ask``, and the refusal if the user does not agree or is not present.
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
    """Show the refused demands and return whether the user agrees, for this request or permanently (stored)."""
    local = not context.environ.get(URL)  # a kernel from the environment may use another state directory
    context.out.note("The files of this project are not trusted yet. They would:")
    for want in refused.wants:
        context.out.notes(unit_lines(want, context.out.error_screen))
    keep = ", a = yes, and keep it until they change" if local else ""
    answer = _asked(context, f"Continue? [y = this time{keep}, N] ")
    if local and answer in {"a", "always"}:
        from interface.trust_file import TrustFile  # noqa: PLC0415  (most commands keep nothing)

        TrustFile(context.project).keep(refused.wants, context.clock.wall())
        return True
    return answer in {"y", "yes"}


def unit_lines(want: Mapping[str, Any], screen: Screen) -> list[str]:
    """Return the lines that show a trust request: its subject and its demands, with new demands marked.

    Every line of a demand is indented, so that its text cannot imitate a line of this program.
    """
    before: list[str] = list(want.get("before", ()))
    changed = " (changed since it was trusted)" if before else ""
    head = f"  {one_line(str(want['subject']))}{changed}, digest {str(want['digest'])[:12]}"
    lines = [screen.style(head, "bold")]
    for demand in map(str, want["demands"]):
        mark = "  + " if before and demand not in before else _INDENT
        first, *rest = escape(demand).split("\n")
        head, *more = behind(_INDENT, first, screen.width)
        lines += [f"{mark}{head.removeprefix(_INDENT)}", *more]
        lines += [row for line in rest for row in behind(f"{_INDENT}  ", line, screen.width)]
    return lines
