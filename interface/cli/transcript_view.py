"""Transcript of an agent as lines: replies, calls with arguments and results; for show, attach, logs, run and top.

Lines of an agent are indented, escaped and marked, so that they can neither move the cursor nor look like lines of this
program.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from interface.cli.output import Screen, behind, cut, escape, one_line
from interface.failure import Failure, Unreachable

if TYPE_CHECKING:
    from interface.cli.context import Context
    from interface.client import Client

Entry = Mapping[str, Any]
"""protocol.api.instructions.EntryInfo as JSON."""
LINES: Final = 40
"""Maximum number of lines of a call's arguments and of its result."""
CHARACTERS: Final = 2000
"""Maximum number of characters of a line."""
_SAID: Final = "    "
_GIVEN: Final = "    > "
_GOT: Final = "    < "
_NO_WORD: Final = "(its outcome is not known)"


def entry_lines(entry: Entry, screen: Screen, *, who: str = "", full: bool = False, said: bool = True) -> list[str]:
    """Return an entry: a header line, then its text, calls or results.

    ``who`` precedes the header if several agents are shown. Without ``said`` the text is omitted, because it was
    already streamed.
    """
    lines = [screen.style(who + _head(entry), "red" if entry["is_error"] else "bold")]
    if entry["text"] and said:
        lines += _marked(_SAID, str(entry["text"]).rstrip("\n").split("\n"), None, screen.width)
    if entry["kind"] == "tool":
        most = None if full else LINES
        lines += _marked(_GIVEN, argument_lines(entry["input"] or {}), most, screen.width)
        output = str(entry["output"] or "").rstrip("\n")
        lines += _marked(_GOT, output.split("\n") if output else [], most, screen.width)
    return lines


def last_steps(client: "Client", instruction: str, count: int, columns: int) -> list[str]:
    """Return the last ``count`` actions as a summary: each text, call and result on one line of ``columns``.

    The pending calls of the last reply follow.
    """
    from interface.cli.requests import ENTRIES, fetch_list  # noqa: PLC0415  (only top looks at the end of a list)

    path = f"/instructions/{instruction}/entries"
    begun = json.loads(client.get(path, {"limit": "1"}))
    if not begun["entries"]:
        return ["nothing was done yet"]
    # Numbers only increase and may have gaps: at least as many entries as needed have a number above this one.
    after = begun["entries"][0]["n"] - 1 + max(begun["total"] - count, 0)
    found = fetch_list(client, path, ENTRIES, 0, {"after": str(after)})
    entries = found["entries"][-count:]
    earlier = begun["total"] - len(entries)
    lines = [f"{earlier:,} earlier: awk show {instruction} --steps"] if earlier > 0 else []
    for entry in entries:
        lines.append(cut(_head(entry), columns))
        lines += [_brief(_SAID, str(entry["text"]), columns)] if entry["text"] else []
        if entry["kind"] == "tool":
            lines.append(_brief(_GIVEN, json.dumps(entry["input"] or {}, ensure_ascii=False), columns))
            lines += [_brief(_GOT, str(entry["output"]), columns)] if entry["output"] else []
    for call, outcome in _unanswered(entries, found):
        # A model may call a missing tool with any name, which must not start a line.
        lines.append(cut(f"asked for {one_line(str(call['tool']))}  {outcome}", columns))
        lines.append(_brief(_GIVEN, json.dumps(call["input"], ensure_ascii=False), columns))
    return lines


def _head(entry: Entry) -> str:
    what = {"reply": "reply", "session": "session"}.get(str(entry["kind"]), one_line(str(entry["tool"] or "?")))
    took, used = entry["duration_ms"], entry["usage"]
    facts = [
        f"#{entry['n']}",
        one_line(str(entry["at"])),
        what,
        "" if took is None else seconds_text(took / 1000),
        usage_text(used["input_tokens"] + used["cache_write_tokens"], used["output_tokens"], used["cost_usd"])
        if used
        else "",
        "failed" if entry["is_error"] else "",
    ]
    return "  ".join(fact for fact in facts if fact)


def _brief(mark: str, text: str, columns: int) -> str:
    # One more than fits, so that the truncation is visible.
    return cut(mark + one_line(text.strip()[: CHARACTERS + 1]), min(columns, CHARACTERS))


def argument_lines(arguments: Mapping[str, Any]) -> list[str]:
    """Return the arguments of a call, one per line; a text of several lines follows its name."""
    lines: list[str] = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if "\n" in text.rstrip("\n"):
            lines += [f"{one_line(name)}:", *(f"  {line}" for line in text.rstrip("\n").split("\n"))]
        else:
            lines.append(f"{one_line(name)}: {text}".rstrip("\n"))
    return lines


def unanswered_lines(found: Mapping[str, Any], screen: Screen) -> list[str]:
    """Return lines for the pending calls of the last reply, which wait for approval, run, or were interrupted."""
    lines: list[str] = []
    for call, outcome in _unanswered(found["entries"], found):
        lines.append(screen.style(f"{one_line(str(call['tool']))}  {outcome}", "yellow"))
        lines += _marked(_GIVEN, argument_lines(call["input"]), LINES, screen.width)
    return lines


def _unanswered(entries: Sequence[Entry], found: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield each pending call with its state. Of several calls of one tool, the first waits for approval."""
    place = max((at for at, entry in enumerate(entries) if entry["kind"] == "reply"), default=None)
    if place is None:
        return
    back = sum(entry["kind"] == "tool" for entry in entries[place + 1 :])
    calls: Sequence[Mapping[str, Any]] = entries[place]["calls"]
    pending = dict(found.get("pending", {}))  # missing in archives and older kernels
    for call in calls[back:]:
        asked = pending.pop(str(call["tool"]), None)
        yield call, _NO_WORD if asked is None else f"waits for approval {one_line(str(asked))}"


def usage_text(tokens_in: int, tokens_out: int, cost_usd: float | None) -> str:
    """Format tokens and cost. An unknown cost is omitted instead of displayed as zero."""
    cost = "" if cost_usd is None else f", ${cost_usd:.4f}"
    return f"{tokens_in:,} tokens in, {tokens_out:,} out{cost}"


def seconds_text(seconds: float) -> str:
    """Format a duration: ``0.4 s``, ``42 s``, ``5m07s``, ``2h03m``."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = int(seconds) // 60
    return f"{minutes}m{int(seconds) % 60:02}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02}m"


def _marked(mark: str, lines: Sequence[str], most: int | None, columns: int | None) -> list[str]:
    """Return ``lines`` prefixed with ``mark``, escaped and truncated to ``most`` lines."""
    kept = lines if most is None else lines[:most]
    shown: list[str] = []
    for line in kept:
        more = len(line) - CHARACTERS
        short = line if most is None or more <= 0 else f"{line[:CHARACTERS]} [{more:,} more characters]"
        shown += behind(mark, escape(short), columns)
    left_out = len(lines) - len(kept)
    return [*shown, f"{mark}[{left_out:,} more lines: awk show --steps --full]"] if left_out else shown


class StepReader:
    """Lookup of transcript entries for step events, over one connection."""

    def __init__(self, context: "Context") -> None:
        self._context = context
        self._client: Client | None = None

    def entry(self, event: Mapping[str, Any]) -> Entry | None:
        """Return the entry of an ``instruction.step`` event; None for other events or deleted entries."""
        number = (event.get("data") or {}).get("k")
        if event["type"] != "instruction.step" or number is None or not event.get("instruction"):
            return None
        try:
            self._client = self._client or self._context.kernel()
            path = f"/instructions/{event['instruction']}/entries"
            found = json.loads(self._client.get(path, {"after": str(number), "limit": "1"}))["entries"]
        except (Failure, Unreachable):
            self._client = None
            return None
        return found[0] if found and found[0]["n"] == number + 1 else None


def who_of(event: Mapping[str, Any]) -> str:
    """Return the agent and the instruction of an event as a prefix of its lines."""
    return "".join(f"{one_line(str(event[part]))} " for part in ("agent", "instruction") if event.get(part))
