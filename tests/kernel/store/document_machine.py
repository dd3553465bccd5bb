"""Documents as a state machine: any history of writers, suggestions and kills, against a plain model (promise P37).

Every line that is ever written has a text of its own, and none moves. So the model merges by asking which lines are
where, and knows nothing of how texts are compared.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, Final

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kernel.policy.documents import DocumentChange
from kernel.store import documents
from kernel.store.database import MEMORY, Database
from kernel.store.decisions import DOCUMENT
from kernel.store.rows import RowPage
from kernel.store.transitions import documents as commits
from protocol.documents import MOST_SUGGESTIONS
from protocol.errors import Refused
from protocol.message import SYSTEM, USER
from protocol.voting import Binds
from tests.kernel.store.busy_workspace import MEMBERS, SPACE, BusyWorkspace, asked
from tests.kernel.store.migrated import open_migrated

FILES: Final = ("notes.md", "plans/a.md")
BALLOTS: Final = 8
"""So many may be open in a space, and more would be refused for that."""
Text = tuple[str, ...]
people = st.sampled_from((*MEMBERS, USER))
files = st.sampled_from(FILES)
picks = st.integers(0, 1_000_000)


class Killed(BaseException):
    """The kernel dies here."""


@dataclass
class Sheet:
    """One document, as it ought to be: each version's lines (None: deleted), and who brought each line when."""

    versions: list[Text | None] = field(default_factory=lambda: [None])
    brought: list[dict[str, tuple[int, str]]] = field(default_factory=lambda: [{}])
    owner: str | None = None

    @property
    def now(self) -> Text | None:
        return self.versions[-1]

    def add(self, text: Text | None, author: str) -> None:
        number, before = len(self.versions), self.brought[-1]
        self.brought.append({line: before.get(line, (number, author)) for line in text or ()})
        self.versions.append(text)


@dataclass
class Idea:
    """One suggestion. ``ballot``: the members vote on it."""

    name: str
    file: str
    since: int
    text: Text
    author: str
    is_open: bool = True
    ballot: str | None = None


def merged(base: Text, now: Text, new: Text) -> Text | None:
    """All three, where their changes do not touch; None where they do."""
    stays = [line for line in base if line in now and line in new]
    edges: list[str | None] = [None, *stays, None]
    made: list[str] = []
    for before, after in pairwise(edges):
        gaps = [_between(text, before, after) for text in (base, now, new)]
        if gaps[0] not in gaps[1:] and gaps[1] != gaps[2]:
            return None
        made += [*(gaps[2] if gaps[1] == gaps[0] else gaps[1]), *([] if after is None else [after])]
    return tuple(made)


def _between(text: Text, before: str | None, after: str | None) -> Text:
    start = 0 if before is None else text.index(before) + 1
    return text[start : len(text) if after is None else text.index(after)]


class DocumentMachine(RuleBasedStateMachine):
    """In memory."""

    def __init__(self) -> None:
        super().__init__()
        self.database = self.open()
        self.workspace = BusyWorkspace(self.database)
        self.sheets = {file: Sheet() for file in FILES}
        self.ideas: list[Idea] = []
        self.calls = 0
        self.lines = 0
        self.checked: dict[str, int] = {}
        """How many versions each document had when all of them were looked at."""

    def open(self) -> Database:
        return open_migrated(MEMORY)

    def teardown(self) -> None:
        self.database.close()

    @initialize()
    def begin(self) -> None:
        self.workspace.begin()

    def line(self) -> str:
        """A line that was never there."""
        self.lines += 1
        return f"line {self.lines}"

    def edited(self, text: Text, pick: int) -> Text:
        """``text`` with up to three lines taken out somewhere, and up to two put there."""
        place, cut, more = pick % (len(text) + 1), pick // 7 % 4, pick // 31 % 3
        made = (*text[:place], *(self.line() for _ in range(more)), *text[place + cut :])
        return made or (self.line(),)

    def ask(self, who: str, commit: Any, *words: Any) -> Any:
        """The answer, or the code of the refusal. What is answered is answered so again."""
        self.calls += 1
        author = self.workspace.author(who, f"call-{self.calls}")
        try:
            answer = self.workspace.commit(commit, SPACE, *words, author=author)
        except Refused as refused:
            return refused.code
        if author is not None and answer.message_id:
            again = self.workspace.commit(commit, SPACE, *words, author=author)
            assert again == answer, (again, answer)
        return answer

    def allowed(self, who: str, file: str) -> bool:
        return who == USER or self.sheets[file].owner in (None, who)

    @rule(who=people, file=files, back=st.none() | st.integers(0, 4), pick=picks)
    def write(self, who: str, file: str, back: int | None, pick: int) -> None:
        sheet = self.sheets[file]
        newest = len(sheet.versions) - 1
        since = newest if back is None else max(newest - back, 0)
        text = self.edited(sheet.versions[since] or (), pick)
        answer = self.ask(
            who, commits.change, file, DocumentChange("write", "\n".join(text), None if back is None else since)
        )
        if not self.allowed(who, file):
            assert answer == "forbidden"
        else:
            self.taken(answer, sheet, self.becomes(sheet, None if back is None else since, text), who)

    def becomes(self, sheet: Sheet, since: int | None, text: Text) -> Text | None:
        """What a write of ``text`` leads to; None: a refusal."""
        newest = len(sheet.versions) - 1
        if since is None or since == newest:
            return text
        return None if sheet.now is None else merged(sheet.versions[since] or ("",), sheet.now, text)

    def taken(self, answer: Any, sheet: Sheet, text: Text | None, author: str) -> None:
        if text is None:
            assert answer == "version_conflict"
        elif text == sheet.now:
            assert answer.unchanged
        else:
            sheet.add(text, author)
            assert answer.version == len(sheet.versions) - 1

    @rule(who=people, file=files)
    def add(self, who: str, file: str) -> None:
        sheet, line = self.sheets[file], self.line()
        answer = self.ask(who, commits.change, file, DocumentChange("append", line))
        if not self.allowed(who, file):
            assert answer == "forbidden"
        else:
            self.taken(answer, sheet, (*(sheet.now or ()), line), who)

    @rule(who=people, file=files, old=st.booleans())
    def delete(self, who: str, file: str, old: bool) -> None:
        sheet = self.sheets[file]
        newest = len(sheet.versions) - 1
        answer = self.ask(who, commits.change, file, DocumentChange("delete", since=max(newest - old, 0)))
        if not self.allowed(who, file):
            assert answer == "forbidden"
        elif sheet.now is None:
            assert answer == "not_found"
        elif old:
            assert answer == "version_conflict"
        else:
            sheet.add(None, who)
            assert answer.version == newest + 1

    @rule(who=people, file=files, back=st.integers(0, 3), pick=picks)
    def suggest(self, who: str, file: str, back: int, pick: int) -> None:
        sheet = self.sheets[file]
        since = max(len(sheet.versions) - 1 - back, 0)
        text = (*self.edited(sheet.versions[since] or (), pick), self.line())
        author = self.workspace.author(who)
        if DOCUMENT.count(self.database.writer(), SPACE) >= MOST_SUGGESTIONS:
            return
        made = self.workspace.commit(commits.suggest, SPACE, file, "\n".join(text), since=since, author=author)
        self.ideas.append(Idea(made.id, file, since, text, who))

    @precondition(lambda self: self.ideas)
    @rule(who=people, pick=picks, takes=st.booleans())
    def judge(self, who: str, pick: int, takes: bool) -> None:
        idea = self.ideas[pick % len(self.ideas)]
        sheet = self.sheets[idea.file]
        answer = self.ask(who, partial(commits.decide, accepts=takes), idea.name)
        own = who == idea.author
        may = who in (USER, sheet.owner) or (own and not takes) or (sheet.owner is None and not (own and takes))
        if not idea.is_open:
            assert answer == "conflict"
        elif not may:
            assert answer == "forbidden"
        elif not takes:
            idea.is_open = False
            assert answer.state == "rejected"
        elif (text := self.becomes(sheet, idea.since, idea.text)) is None:
            assert answer == "version_conflict"
        else:
            idea.is_open = False
            if text != sheet.now:
                sheet.add(text, idea.author)
            assert answer.accepted_version == len(sheet.versions) - 1

    @precondition(lambda self: self.ideas)
    @rule(pick=picks)
    def put_to_the_vote(self, pick: int) -> None:
        """A person asks the members about a suggestion: one that somebody has decided by then is refused."""
        idea = self.ideas[pick % len(self.ideas)]
        if sum(one.ballot is not None for one in self.ideas) >= BALLOTS or idea.ballot is not None:
            return
        terms = asked("approval", name=f"take-{idea.name}", rule="majority", binding=True, seconds=3600)
        terms = msgspec.structs.replace(terms, binds=Binds(suggestion=idea.name))
        if idea.is_open:
            idea.ballot = self.workspace.create(USER, terms).ballot.id
        else:
            with pytest.raises(Refused):
                self.workspace.create(USER, terms)

    @precondition(lambda self: any(one.ballot for one in self.ideas))
    @rule(pick=picks, takes=st.booleans())
    def decide_by_vote(self, pick: int, takes: bool) -> None:
        """The vote ends. What was decided, written or deleted meanwhile stays as it is."""
        voted = [one for one in self.ideas if one.ballot is not None]
        idea = voted[pick % len(voted)]
        name, sheet = idea.ballot, self.sheets[idea.file]
        assert name is not None
        if self.workspace.ballot(name).state != "open":
            return
        for who in MEMBERS[:2]:
            self.workspace.vote(who, name, "yes" if takes else "no")
        row = DOCUMENT.find(self.database.writer(), SPACE, idea.name)
        if not idea.is_open:
            assert row.decided_by != SYSTEM
        elif not takes:
            idea.is_open = False
            assert (row.state, row.decided_by) == ("rejected", SYSTEM)
        elif (text := self.becomes(sheet, idea.since, idea.text)) is None:
            assert row.state == "open"
        else:
            idea.is_open = False
            if text != sheet.now:
                sheet.add(text, idea.author)
            assert (row.state, row.version) == ("accepted", len(sheet.versions) - 1)

    @rule(file=files, owner=st.sampled_from(MEMBERS))
    def elect(self, file: str, owner: str) -> None:
        self.workspace.commit(documents.set_owners, SPACE, (file,), owner)
        self.sheets[file].owner = owner

    @rule()
    def restart(self) -> None:
        self.workspace.restart()

    @rule(who=people, file=files, pick=picks, statements=st.integers(0, 60))
    def killed(self, who: str, file: str, pick: int, statements: int) -> None:
        """The kernel dies in a commit, after so many of its statements or right before its end: it never was."""
        text = "\n".join(self.edited(self.sheets[file].now or (), pick))
        author, left = self.workspace.author(who, f"killed-{self.calls}"), iter(range(statements, -1, -1))

        def die_in_time(_cursor: object, sql: str, _values: object) -> bool:
            if sql not in ("BEGIN IMMEDIATE", "ROLLBACK") and next(left, None) == 0:
                raise Killed
            return True

        def write(*words: Any, **more: Any) -> None:
            commits.change(*words, **more)
            raise Killed

        self.database.writer().exec_trace = die_in_time
        try:
            self.workspace.commit(write, SPACE, file, DocumentChange("write", text), author=author)
        except (Killed, Refused):
            pass
        finally:
            self.database.writer().exec_trace = None
        self.restart()

    @invariant()
    def every_version_is_as_the_model_says(self) -> None:
        self.checked.clear()
        self.check()

    def check(self) -> None:
        """Hold each document against the model, and its older versions if it has changed since they were looked at."""
        conn = self.database.writer()
        for file, sheet in self.sheets.items():
            document = documents.find(conn, SPACE, file)
            if document is None:
                assert len(sheet.versions) == 1
                continue
            assert (document.version, document.text) == (
                len(sheet.versions) - 1,
                None if sheet.now is None else "\n".join(sheet.now),
            )
            if self.checked.get(file) == document.version:
                continue
            self.checked[file] = document.version
            texts = [tuple(documents.lines_at(conn, document, one)) for one in range(document.version + 1)]
            assert texts == [text or () for text in sheet.versions]
            history = documents.history(conn, SPACE, file, RowPage()).versions
            assert [row.version for row in history] == list(range(document.version, 0, -1))
            blamed = documents.blame_of(conn, SPACE, file).lines
            assert {one.text: (one.version, one.author) for one in blamed} == sheet.brought[-1]

    def steps(self, chance: random.Random) -> list[Callable[[], None]]:
        """Return one of each step that there is, with what it is about, for those who draw a history themselves."""
        who, file, pick = chance.choice((*MEMBERS, USER)), chance.choice(FILES), chance.randrange(1_000_000)
        back, maybe = chance.randrange(4), chance.random() < 0.5
        return [
            lambda: self.write(who=who, file=file, back=back if maybe else None, pick=pick),
            lambda: self.write(who=who, file=file, back=back, pick=pick),
            lambda: self.add(who=who, file=file),
            lambda: self.delete(who=who, file=file, old=maybe),
            lambda: self.suggest(who=who, file=file, back=back, pick=pick),
            lambda: self.judge(who=who, pick=pick, takes=back > 0) if self.ideas else None,
            lambda: self.put_to_the_vote(pick=pick) if self.ideas else None,
            lambda: self.decide_by_vote(pick=pick, takes=maybe) if any(one.ballot for one in self.ideas) else None,
            lambda: self.elect(file=file, owner=chance.choice(MEMBERS)),
            self.restart,
            lambda: self.killed(who=who, file=file, pick=pick, statements=pick % 61),
        ]

    def play(self, chance: random.Random, most: int) -> int:
        """One history of up to ``most`` steps, held against the model after each. Returns how many there were."""
        self.begin()
        count = chance.randint(1, most)
        for _ in range(count):
            chance.choice(self.steps(chance))()
            self.check()
        self.every_version_is_as_the_model_says()
        return count


class FileDocumentMachine(DocumentMachine):
    """In a file: the process may end between any two commits."""

    def open(self) -> Database:
        from tempfile import TemporaryDirectory

        self.folder = TemporaryDirectory()
        return open_migrated(f"{self.folder.name}/store.db")

    @rule()
    def reopen(self) -> None:
        """The process ends and another begins."""
        self.database.close()
        self.database = open_migrated(self.database.path)
        self.workspace.database = self.database
        self.workspace.restart()

    def steps(self, chance: random.Random) -> list[Callable[[], None]]:
        """One more."""
        return [*super().steps(chance), self.reopen]

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()
