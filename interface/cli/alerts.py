"""Alerts of ``awk top --bell``: the terminal's bell and, where it is known to work, a desktop notification."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from interface.cli.output import cut, one_line

_COLUMNS: Final = 200
_OSC_9: Final = "\x1b]9;agent-worker: {}\x07"  # a text with a number first would be a command
_OSC_777: Final = "\x1b]777;notify;agent-worker;{}\x07"
_PROGRAMS: Final = {"iTerm.app": _OSC_9, "WezTerm": _OSC_9, "ghostty": _OSC_9}
"""Notification by TERM_PROGRAM, unless TERM has one."""
_TERMS: Final = {"xterm-kitty": _OSC_9, "foot": _OSC_777, "rxvt": _OSC_777, "tmux": "", "screen": ""}
"""Notification by the start of TERM."""


def alert(texts: Collection[str], environ: Mapping[str, str]) -> str:
    """Return the characters that alert the user to new needs: a bell, and one notification with the first text."""
    term, by_program = environ.get("TERM", ""), _PROGRAMS.get(environ.get("TERM_PROGRAM", ""), "")
    forms = (form for start, form in _TERMS.items() if term.startswith(start))
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    return "\x07" + next(forms, by_program).format(cut(one_line(next(iter(texts))), _COLUMNS) + more)


class NewNeeds:
    """Needs that were not present at the previous check; the first check finds none."""

    _known: frozenset[tuple[str, str, str | None]] | None = None

    def texts(self, items: Collection[Any]) -> list[str]:
        """Return the texts of the new needs."""
        now = {(item.kind, item.id, item.since): item.text for item in items}
        known, self._known = self._known, frozenset(now)
        return [] if known is None else [text for key, text in now.items() if key not in known]
