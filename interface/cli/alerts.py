"""Alerts of ``awk top --bell``: the terminal's bell and, where it is known to work, a desktop notification."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from interface.cli.output import cut, one_line

_COLUMNS: Final = 200
_FORMS: Final = {"9": "\x1b]9;{}\x07", "777": "\x1b]777;notify;agent-worker;{}\x07"}
"""Control sequences of a notification: OSC 9 of iTerm2, OSC 777 of rxvt."""
_PROGRAMS: Final = {"iTerm.app": "9", "WezTerm": "9", "ghostty": "9"}
"""Form by TERM_PROGRAM."""
_TERMS: Final = {"xterm-kitty": "9", "xterm-ghostty": "9", "foot": "777", "rxvt-unicode": "777"}
"""Form by the start of TERM. Other terminals, also tmux and screen, get the bell only."""


def alert(texts: Collection[str], environ: Mapping[str, str]) -> str:
    """Return the characters that alert the user to new needs: a bell, and one notification with the first text."""
    term = environ.get("TERM", "")
    form = next((form for start, form in _TERMS.items() if term.startswith(start)), None)
    if form is None and not term.startswith(("tmux", "screen")):
        form = _PROGRAMS.get(environ.get("TERM_PROGRAM", ""))
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    text = cut(one_line(next(iter(texts))), _COLUMNS) + more
    return "\x07" + ("" if form is None else _FORMS[form].format(text))


class NewNeeds:
    """Needs that were not present at the previous check; the first check finds none."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str, str | None]] | None = None

    def texts(self, items: Collection[Any]) -> list[str]:
        """Return the texts of the new needs."""
        now = {(item.kind, item.id, item.since): item.text for item in items}
        known, self._known = self._known, set(now)
        return [] if known is None else [text for key, text in now.items() if key not in known]
