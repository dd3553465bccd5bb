"""Screens and keys of ``awk top`` as text; another module draws them.

Lines of an agent are escaped and follow a bar (interface.cli.prompts); questions are displayed below them.
"""

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from interface.cli.commands.events import SHOWN
from interface.cli.commands.runs import diff_lines
from interface.cli.commands.show import instruction_lines, prompt_lines
from interface.cli.commands.top_tabs import AGENTS, HELP, TABS
from interface.cli.context import Context
from interface.cli.event_view import event_line, event_of
from interface.cli.output import Screen, decode, one_line, view_lines, wrapped
from interface.cli.process_table import sort_key, status_of, target_of
from interface.cli.prompts import always_pattern, call_lines, change_lines, decided, quoted_rows
from interface.cli.targets import agent_path, target
from interface.cli.transcript_view import last_steps
from interface.client import Client, new_key, quoted
from interface.failure import Failure, Unreachable
from protocol.api.overview import Overview
from protocol.api.processes import Ps, PsRow

SORTS: Final = ("urgency", "name", "state", "age", "silent", "cpu", "tokens", "cost", "rss", "last")
LOG_LINES: Final = 500
STEPS: Final = 10
"""Number of the last steps of an agent that are shown. A reply counts as one with each of its calls that returned."""
FOLDED: Final = 10
"""Number of idle agents from which on they are one line."""
TOTALS_SECONDS: Final = 1.0
"""Minimum age of the totals of the header before they are requested again."""


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


class TopView:
    """State of the screen: rows, selection and typed text."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.table = Ps(agents=())
        self.overview: Overview | None = None
        self._totals_at = 0.0
        self.tab = AGENTS
        self.items: Sequence[Any] = ()
        """Rows of a tab other than agents."""
        self.unfolded = False
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

    def read(self, client: Client) -> None:
        """Query the rows of the tab, and the totals of the header."""
        every = self.unfolded or self.filter or self.typing
        self.table = decode(client.get("/ps" if every else f"/ps?idle={FOLDED}"), Ps)
        now = self._context.clock.wall()
        if now - self._totals_at >= TOTALS_SECONDS:
            self._totals_at = now
            with suppress(Failure):  # a kernel of an older version has no overview
                self.overview = decode(client.get("/overview"), Overview)
        self.items = TABS[self.tab].read(client)

    def rows(self) -> list[Any]:
        """Return the displayed rows of the tab in order."""
        every = self.table.agents if self.tab == AGENTS else self.items
        found = [row for row in every if self.filter in TABS[self.tab].key(row)]
        if self.folded():
            found = [row for row in found if row.state != "idle"]
        return sorted(found, key=sort_key(self.sort)) if self.tab == AGENTS else found

    def folded(self) -> int:
        """Return the number of idle agents that are one line instead of rows."""
        idle = sum(row.state == "idle" for row in self.table.agents) + self.table.idle
        return 0 if self.tab != AGENTS or self.unfolded or self.filter or idle <= FOLDED else idle

    def place(self) -> int:
        """Return the position of the chosen row."""
        key = TABS[self.tab].key
        return next((place for place, row in enumerate(self.rows()) if key(row) == self.chosen), 0)

    def header(self, state: str = "") -> str:
        """Return the header. Urgent information comes first, because a narrow window truncates the end."""
        needs = [f"{self.table.needs:,} need you"] if self.table.needs else []
        filtered = [f"/{one_line(self.filter)}{'_' if self.typing else ''}"] if self.filter or self.typing else []
        seen = self.overview
        if seen is None:
            return " | ".join([*needs, *filtered, f"{len(self.table.agents)} agents{state}"])
        agents = f"{seen.running:,} running, {seen.waiting:,} waiting, {seen.idle:,} idle{state}"
        spent = f"${seen.spend_today_usd:,.2f} today, {seen.tokens_per_minute:,.0f} tok/min"
        project = one_line(seen.project.rpartition("/")[2])
        return " | ".join([*needs, *filtered, project, agents, spent, f"by {self.sort}"])

    def footer(self) -> str:
        """Return the footer: a question, the last result, or the keys with the tabs, the displayed one in brackets."""
        if self.question is not None:
            return self.question.line(read=self.is_read())
        if self.said:
            return self.said
        if self.view == "lines":
            return "escape: back   q quits"
        tabs = (f"[{number} {tab}]" if tab == self.tab else f" {number} {tab} " for number, tab in enumerate(TABS, 1))
        return f"? help   q quits   {''.join(tabs)}".rstrip()

    def page(self) -> list[str]:
        """Return the displayed lines."""
        return self.lines[self.first : self.first + self._room()]

    def is_read(self) -> bool:
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
            self.chosen = TABS[self.tab].key(found[0]) if found else ""
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
        elif key in ("y", "Y", "a") and not self.is_read():
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
            self.chosen = TABS[self.tab].key(rows[min(max(self.place() + by, 0), len(rows) - 1)])

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

    def show_tab(self, client: Client, name: str = "") -> None:
        """Show the tab ``name``, by default the next one."""
        self._leave()
        following = dict(zip(TABS, [*list(TABS)[1:], AGENTS], strict=True))
        self.tab, self.filter, self.chosen = name or following[self.tab], "", ""
        self.items = TABS[self.tab].read(client)

    def fold(self, client: Client) -> None:
        """List or fold idle agents."""
        self.unfolded = not self.unfolded
        self.read(client)

    def _item(self) -> Any:
        rows = self.rows()
        if not rows:
            raise Failure("not_found", f"no {self.tab}")
        return rows[self.place()]

    def _row(self) -> PsRow:
        if self.tab != AGENTS:
            raise Failure("usage", "this key is for agents: press 1 and choose one")
        row: PsRow = self._item()
        return row

    def open(self, client: Client) -> None:
        """Show the chosen row in full."""
        if self.tab == AGENTS:
            self.detail(client)
            return
        one, tab = self._item(), TABS[self.tab]
        self._show(tab.key(one), tab.lines(client, one, self._context.clock.wall()))

    def _work(self, client: Client) -> tuple[PsRow, str | None, str | None]:
        row = self._row()
        queue = json.loads(client.get(agent_path(target(target_of(row)), "queue"), {"limit": "1"}))
        return row, next((str(one["id"]) for one in queue["instructions"]), None), queue.get("last")

    def detail(self, client: Client) -> None:
        """Show the current work of the chosen agent: last steps, state, prompt, and changes of its working tree."""
        row, instruction, last = self._work(client)
        idle = "" if instruction else "idle; last work: "
        instruction = instruction or last
        if instruction is None:
            self._show(target_of(row), ["it has nothing to do, and no earlier work"])
            return
        path, plain = f"/instructions/{instruction}", Screen()
        lines = last_steps(client, instruction, STEPS, self._context.out.width())
        status = [f"it says: {one_line(status_of(row))}"] if status_of(row) else []
        lines += ["", *status, *view_lines(instruction_lines, client.get(path), plain)]
        lines += ["", "prompt", *view_lines(prompt_lines, client.get(f"{path}/prompt"), plain)]
        if row.space is not None and not row.space.startswith("dm:"):
            query = {"agent": row.name, "patch": "true"}
            found = client.get(f"/spaces/{quoted(row.space)}/diff", query)
            lines += ["", "changes", *view_lines(diff_lines, found, plain)]
        self._show(f"{target_of(row)}: {idle}{instruction}", lines)

    def logs(self, client: Client) -> None:
        """Show the log of the chosen agent."""
        row = self._row()
        found: deque[str] = deque(maxlen=LOG_LINES)
        with client.events({"since": "0", "follow": "0"}) as stream:
            for received in stream:
                if received.data and received.type.startswith(SHOWN):
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
        row: Any = next(iter(self.rows()[self.place() :]), None)
        wanted = {AGENTS: ("agent", "name"), "needs": ("id", "id")}.get(self.tab)
        own = [one for one in waiting if row is not None and wanted and one[wanted[0]] == getattr(row, wanted[1])]
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
        found = json.loads(client.post(agent_path(target(target_of(row)), what), {}, key=new_key()))
        self.said = one_line(f"{target_of(row)} is {found['state']}")

    def cancel(self, client: Client) -> None:
        """Ask for confirmation to cancel the work of the chosen agent."""
        row, instruction, _ = self._work(client)
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


_SCROLLS: Final = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -10, "pagedown": 10, " ": 10}
_KEYS: Final[dict[str, Callable[[TopView, Client], None]]] = {
    "enter": TopView.open,
    "tab": TopView.show_tab,
    "i": TopView.fold,
    **{str(place): partial(TopView.show_tab, name=name) for place, name in enumerate(TABS, 1)},
    "l": TopView.logs,
    "a": lambda view, client: view.decide(client, "approve"),
    "n": lambda view, client: view.decide(client, "deny"),
    "p": TopView.pause,
    "c": TopView.cancel,
    "s": TopView.next_sort,
    "/": TopView.begin_filter,
    "?": TopView.help,
}
