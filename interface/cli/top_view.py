"""Screens and keys of ``awk top`` as text; another module draws them.

Lines of an agent are escaped and follow a bar (interface.cli.prompts); questions are displayed below them.
"""

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from interface.cli.context import Context
from interface.cli.event_view import event_line, event_of
from interface.cli.output import Screen, one_line, view_lines, wrapped
from interface.cli.process_table import sort_key, status_of, target_of
from interface.cli.prompts import always_pattern, call_lines, change_lines, decided, quoted_rows
from interface.cli.targets import agent_path, target
from interface.cli.transcript_view import last_steps
from interface.client import Client, new_key, quoted
from interface.failure import Failure, Unreachable
from protocol.api.processes import Ps, PsRow

SORTS: Final = ("urgency", "name", "state", "age", "silent", "cpu", "tokens", "cost", "rss", "last")
LOG_LINES: Final = 500
STEPS: Final = 10
"""Number of the last steps of an agent that are shown. A reply counts as one with each of its calls that returned."""
METER_SECONDS: Final = 60.0
HELP: Final = (
    "up, down, j, k   choose an agent, or scroll",
    "enter            its work: steps, prompt, changes",
    "l                its log",
    "a                approve a call: it is shown whole first",
    "n                deny one, in the same way",
    "p                pause or resume it",
    "c                cancel its work, after confirmation",
    "s                sort by another column",
    "/                show only agents whose name has a text",
    "escape           leave a view",
    "q                quit",
)


class Question(NamedTuple):
    """Question that a key answers. Each answer returns its result; every other key dismisses the question."""

    text: str
    answers: Mapping[str, Callable[[Client], str]]
    always: Callable[[Client], str] | None = None
    """Answer of ``a``, which asks a second question, so that a key that is held down grants nothing."""
    change: Sequence[str] = ()
    """Diff that ``d`` shows above the call."""

    def line(self, *, read: bool) -> str:
        """Return the question and its keys. Keys that grant the call first scroll until the whole call was ``read``."""
        if len(self.answers) == 1:
            return f"{self.text} [y/N]{'' if read else ' (down: the rest of it)'}"
        yes = ("y once", *(("a always",) if self.always else ())) if read else ("y, down: more of it",)
        return f"{self.text} [{', '.join((*yes, 'n no', *(('d diff',) if self.change else ()), 'esc later'))}]"


class Meter:
    """Meter of tokens and cost per minute, over the last minute of observations."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int, float]] = deque()

    def rates(self, rows: Sequence[PsRow], now: float) -> tuple[float, float]:
        """Record usage at ``now`` (seconds); return tokens and USD per minute."""
        tokens = sum(row.usage.tokens for row in rows)
        usd = sum(row.usage.cost_usd or 0.0 for row in rows)
        if self._seen and (tokens < self._seen[-1][1] or usd < self._seen[-1][2]):
            self._seen.clear()  # agents were removed together with their usage
        self._seen.append((now, tokens, usd))
        while len(self._seen) > 2 and now - self._seen[1][0] >= METER_SECONDS:
            self._seen.popleft()
        at, before, cost = self._seen[0]
        minutes = max(now - at, 1.0) / 60
        return (tokens - before) / minutes, (usd - cost) / minutes


Lines = Callable[..., list[str]]


class Details(NamedTuple):
    """Formatters of the documents behind one agent: an instruction, its prompt, changes; and the events of its log."""

    instruction: Lines
    prompt: Lines
    changes: Lines
    log_events: str | tuple[str, ...]


class TopView:
    """State of the screen: rows, selection and typed text."""

    def __init__(self, context: Context, details: Details) -> None:
        self._context = context
        self._details = details
        self._meter = Meter()
        self.table = Ps(agents=())
        self.view: Literal["table", "lines"] = "table"
        self.lines: list[str] = []
        self.title = ""
        self._ours: Sequence[str] = ()
        self._quoted: Sequence[str] = ()
        """Unwrapped source of the displayed lines."""
        self._columns = 0
        self.first = 0
        """Index of the first displayed line."""
        self.height = 24
        self.chosen = ""
        self.sort = SORTS[0]
        self.filter = ""
        self.typing = False
        self.question: Question | None = None
        self.said = ""

    def rows(self) -> list[PsRow]:
        """Return the displayed agents in order."""
        found = [row for row in self.table.agents if self.filter in target_of(row)]
        return sorted(found, key=sort_key(self.sort))

    def place(self) -> int:
        """Return the position of the chosen agent."""
        return next((place for place, row in enumerate(self.rows()) if target_of(row) == self.chosen), 0)

    def header(self, now: float, state: str = "") -> str:
        """Return the header. Urgent information comes first, because a narrow window truncates the end."""
        rows = self.table.agents
        busy = sum(row.state == "running" for row in rows)
        tokens, usd = self._meter.rates(rows, now)
        needs = [f"{self.table.needs:,} need you"] if self.table.needs else []
        filtered = [f"/{one_line(self.filter)}{'_' if self.typing else ''}"] if self.filter or self.typing else []
        workers = sum(row.pid is not None for row in rows)
        meters = f"{workers} worker{'' if workers == 1 else 's'}, {tokens:,.0f} tok/min, ${usd:.4f}/min"
        return " | ".join([*needs, *filtered, f"{len(rows)} agents, {busy} running{state}", meters, f"by {self.sort}"])

    def footer(self) -> str:
        """Return the footer: a question, the last result, or the keys."""
        if self.question is not None:
            return self.question.line(read=self.read())
        if self.said:
            return self.said
        return "escape: back   q quits" if self.view == "lines" else "? help   q quits"

    def page(self) -> list[str]:
        """Return the displayed lines."""
        return self.lines[self.first : self.first + self._room()]

    def read(self) -> bool:
        """Return whether the user has seen the last of the displayed lines."""
        return self.first + self._room() >= len(self.lines)

    def _room(self) -> int:
        return max(self.height - 3, 1)  # beside the header, the title and the footer

    def press(self, key: str, client: Client) -> bool:
        """Handle ``key``. Returns whether to continue."""
        self.said = ""
        try:
            if self.typing:
                self._type(key)
            elif self.question is not None and key not in _SCROLLS:
                self._answer(key, client)
            elif key in _SCROLLS:
                self._move(_SCROLLS[key])
            elif key == "escape":
                self._leave()
            elif key in "qQ":
                return False
            elif (act := _KEYS.get(key)) is not None:
                act(self, client)
        except (Failure, Unreachable) as error:
            self.said = one_line(str(error))
        return True

    def _type(self, key: str) -> None:
        if key in ("enter", "escape"):
            self.typing = False
            self.filter = self.filter if key == "enter" else ""
            found = self.rows()
            self.chosen = target_of(found[0]) if found else ""
        elif key == "backspace":
            self.filter = self.filter[:-1]
        elif len(key) == 1 and key.isprintable():
            self.filter += key

    def _answer(self, key: str, client: Client) -> None:
        asked = self.question
        assert asked is not None
        if key == "d" and asked.change:
            self.question = asked._replace(change=())
            self._show(self.title, (), [*asked.change, *self._quoted])
        elif key in ("y", "Y", "a") and not self.read():
            self._move(self._room())  # a call can be granted only after all of it was shown
        elif key == "a" and asked.always is not None:
            self.question = Question(f"{asked.text} This very call from now on, too?", {"y": asked.always})
        else:
            self._leave()
            answer = asked.answers.get(key.lower())
            self.said = one_line(answer(client)) if answer else "nothing was done"

    def _move(self, by: int) -> None:
        if self.view == "lines":
            by = min(max(by, -self._room()), self._room())  # scroll so that no line is skipped
            self.first = min(max(self.first + by, 0), self._last())
            return
        rows = self.rows()
        if rows:
            self.chosen = target_of(rows[min(max(self.place() + by, 0), len(rows) - 1)])

    def _last(self) -> int:
        return max(len(self.lines) - self._room(), 0)

    def _leave(self) -> None:
        self.view, self.lines, self.title, self.first, self.question = "table", [], "", 0, None

    def _show(self, title: str, lines: Sequence[str], quoted: Sequence[str] = ()) -> None:
        self.view, self.title, self.first = "lines", one_line(title), 0
        self._ours, self._quoted, self._columns = lines, quoted, 0
        self.fit(self.height)

    def fit(self, height: int) -> None:
        """Set the window size; another width changes line breaks, so calls must be read again."""
        columns, self.height = self._context.out.width(), height
        if self.view == "lines" and columns != self._columns:
            self._columns = columns
            self.lines = [row for line in self._ours for row in wrapped(line, columns)]
            self.lines += quoted_rows(self._context, self._quoted)
            self.first = 0 if self.question else min(self.first, self._last())

    def _row(self) -> PsRow:
        rows = self.rows()
        if not rows:
            raise Failure("not_found", "no agents")
        return rows[self.place()]

    def _work(self, client: Client) -> tuple[PsRow, str | None]:
        row = self._row()
        queue = json.loads(client.get(agent_path(client, target(target_of(row)), "queue"), {"limit": "1"}))
        return row, next((str(one["id"]) for one in queue["instructions"]), None)

    def detail(self, client: Client) -> None:
        """Show the current work of the chosen agent: last steps, state, prompt, and changes of its working tree."""
        row, instruction = self._work(client)
        if instruction is None:
            self._show(target_of(row), ["it has nothing to do"])
            return
        path, plain = f"/instructions/{instruction}", Screen()
        lines = last_steps(client, instruction, STEPS, self._context.out.width())
        status = [f"it says: {one_line(status_of(row))}"] if status_of(row) else []
        lines += ["", *status, *view_lines(self._details.instruction, client.get(path), plain)]
        lines += ["", "prompt", *view_lines(self._details.prompt, client.get(f"{path}/prompt"), plain)]
        if row.space is not None and not row.space.startswith("dm:"):
            query = {"agent": row.name, "patch": "true"}
            found = client.get(f"/spaces/{quoted(row.space)}/diff", query)
            lines += ["", "changes", *view_lines(self._details.changes, found, plain)]
        self._show(f"{target_of(row)}: {instruction}", lines)

    def logs(self, client: Client) -> None:
        """Show the log of the chosen agent."""
        row = self._row()
        found: deque[str] = deque(maxlen=LOG_LINES)
        with client.events({"since": "0", "follow": "0"}) as stream:
            for received in stream:
                if received.data and received.type.startswith(self._details.log_events):
                    event = event_of(received.data)
                    if event.agent == row.name and row.space in (None, event.space):
                        found.append(event_line(event, Screen()))
        self._show(f"{target_of(row)}: the last {len(found)} lines of its log", [*found] or ["nothing yet"])
        self.first = self._last()

    def decide(self, client: Client, what: Literal["approve", "deny"]) -> None:
        """Show a complete call that waits for approval, preferably of the chosen agent, and ask once."""
        waiting: list[dict[str, Any]] = json.loads(client.get("/approvals"))["approvals"]
        if not waiting:
            self.said = "no pending approvals"
            return
        row = next(iter(self.rows()[self.place() :]), None)
        own = [one for one in waiting if row is not None and one["agent"] == row.name]
        name = str((own or waiting)[0]["id"])
        asked = json.loads(client.get(f"/approvals/{quoted(name)}"))
        reason = [f"reason: {asked['reason']}"] if asked.get("reason") else []
        title = f"{name}: {asked['agent']} in {asked['space']} wants to call {asked['tool']}"
        # A narrow window cuts the title.
        self._show(title, (), [f"tool: {asked['tool']}", *reason, *call_lines(asked["input"])])

        def sends(answer: str) -> Callable[[Client], str]:
            return lambda client: decided(client, asked, answer)

        if what == "deny":
            self.question = Question(f"Deny {name}?", {"y": sends("n")})
        else:
            always = None if always_pattern(asked) is None else sends("a")
            answers = {"y": sends("y"), "n": sends("n")}
            self.question = Question(f"Approve {name}?", answers, always, change_lines(asked["input"]))

    def pause(self, client: Client) -> None:
        """Pause or resume the selected agent."""
        row = self._row()
        what = "resume" if row.state in ("paused", "stopped") else "pause"
        found = json.loads(client.post(agent_path(client, target(target_of(row)), what), {}, key=new_key()))
        self.said = one_line(f"{target_of(row)} is {found['state']}")

    def cancel(self, client: Client) -> None:
        """Ask for confirmation to cancel the work of the chosen agent."""
        row, instruction = self._work(client)
        if instruction is None:
            self.said = one_line(f"{target_of(row)} has nothing to do")
            return

        def cancel(client: Client) -> str:
            found = json.loads(client.post(f"/instructions/{instruction}/cancel", {}, key=new_key()))
            return f"{instruction} is {found['status']}"

        self._show(f"{target_of(row)}: {instruction}", [])
        self.question = Question(f"Cancel {instruction} of {target_of(row)}?", {"y": cancel})

    def next_sort(self, _client: Client) -> None:
        """Sort by the next column."""
        self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]

    def begin_filter(self, _client: Client) -> None:
        """Start a filter: typed text selects the agents whose names contain it."""
        self.typing, self.filter = True, ""

    def help(self, _client: Client) -> None:
        """Show the keys."""
        self._show("keys", HELP)


def decode_table(body: bytes) -> Ps:
    """Decode the answer of GET /ps."""
    return msgspec.json.decode(body, type=Ps)


_SCROLLS: Final = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -10, "pagedown": 10, " ": 10}
_KEYS: Final[dict[str, Callable[[TopView, Client], None]]] = {
    "enter": TopView.detail,
    "l": TopView.logs,
    "a": lambda view, client: view.decide(client, "approve"),
    "n": lambda view, client: view.decide(client, "deny"),
    "p": TopView.pause,
    "c": TopView.cancel,
    "s": TopView.next_sort,
    "/": TopView.begin_filter,
    "?": TopView.help,
}
