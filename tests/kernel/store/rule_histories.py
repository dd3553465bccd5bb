"""Random rules and messages, with redefinition, restarts and reopened databases, held against a plain interpreter.

The plain one knows no effects and no views: it is a list of rules, a queue of messages and two counters. What it says
that a message leads to has to be in the log, in its order, and nothing else (promises P53, P54).
``python -m tests.kernel.store.rule_histories COUNT [FIRST]`` tries many; a seed says all that happens.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, get_args

import msgspec
import pytest

from kernel.policy.grants import WantedGrant
from kernel.rule.draft import Draft
from kernel.store import rules as stored
from kernel.store.database import MEMORY, Database
from kernel.store.transitions import grants, rules
from kernel.store.transitions.append import append
from kernel.store.transitions.close import close
from protocol.agent import SCOPES, Scope
from protocol.errors import Refused
from protocol.message import SYSTEM, USER
from protocol.rules import RuleSpec
from tests.kernel.store.busy_workspace import MEMBERS, SPACE, BusyWorkspace
from tests.kernel.store.migrated import open_migrated
from tests.soak import run_seeds, say

ALL: Final[frozenset[Scope]] = frozenset(get_args(Scope))
STEPS: Final = 20
FUEL: Final = 32
DEPTH: Final = 8
HOPS: Final = 32
MOST_OPEN: Final = 16
NAMES: Final = ("one", "two", "three", "four")
PATTERNS: Final = ("A", "B", "C", "A|B", "(A)(B)?", "^C", "B.*C", "[AB]C?")
PIECES: Final = (
    "A",
    "B",
    "C",
    " @bob ",
    " @carol ",
    "${{ message.text }}",
    "${{ message.from }}",
    "${{ match.1 }}",
    "${{ params.p }}",
)
TASK_PIECES: Final = ("A", "B", "C", "${{ message.from }}", "${{ match.1 }}")
HOOK: Final = "hook:build"
SAID: Final = "SELECT kind, sender, text, hops, addressed FROM messages WHERE space = ? AND seq > ? ORDER BY seq"
TASKS: Final = "SELECT count(*) FROM tasks"
NEWEST: Final = "SELECT coalesce(max(seq), 0) FROM messages"
OVER: Final = "SELECT count(*) FROM instructions WHERE hops > ? AND state = 'queued'"

Row = tuple[str, str, str, int, str]
"""Kind, sender, text, hops, and who was addressed or woken by it."""


@dataclass
class PlainRule:
    """A rule as the plain interpreter keeps it."""

    name: str
    body: dict[str, Any]
    author: str
    enabled: bool = True


@dataclass
class Message:
    """One message on its way. ``left`` is the fuel of what answers it, ``deep`` how many rules are behind it."""

    kind: str
    sender: str
    text: str
    hops: int
    to: str = ""
    left: int = FUEL
    deep: int = 0


@dataclass
class Plain:
    members: set[str]
    rules: list[PlainRule] = field(default_factory=list)
    open: int = 0
    """So many questions whether a rule may be done nobody has answered."""
    grant: str | None = None
    """By which carol defines rules, who may not by her file; None: she has none now."""
    tasks: int = 0
    limited: bool = False
    """It was told that nobody is woken beyond the hops: once in a run."""
    tasked: set[str] = field(default_factory=set)
    """Members that were given one."""

    def define(self, name: str, body: dict[str, Any], author: str) -> None:
        for one in self.rules:
            if one.name == name:
                one.body, one.author, one.enabled = body, author, True
                return
        self.rules.append(PlainRule(name, body, author))

    def on(self) -> list[PlainRule]:
        return [one for one in self.rules if one.enabled]

    def follow(self, first: Message) -> list[Message]:
        """Everything that ``first`` leads to, itself included, in the order of the log."""
        return self.follow_all([first])

    def follow_all(self, log: list[Message]) -> list[Message]:
        for message in log:  # it grows on the way
            if message.kind == "done" and message.text.strip():
                log.append(Message("reply", message.sender, message.text, message.hops))
            if message.kind == "said" and message.to and message.hops > HOPS and not self.limited:
                self.limited = True
                log.append(Message("note", "limit", "", message.hops))
            if message.kind in ("said", "reply", "done"):
                log += self.answers(message)
            elif message.kind == "gate" and self.open >= MOST_OPEN:
                message.kind = "note"
            elif message.kind == "gate":
                self.open += 1
        return log

    def answers(self, message: Message) -> list[Message]:
        watched = "done" if message.kind == "done" else "said"
        if message.sender == HOOK:
            if message.hops:
                return []
            watched = "hook"
        work: list[tuple[PlainRule, dict[str, Any]]] = []
        for rule in self.on():
            when = rule.body.get("when")
            if when is None or watched not in when:
                continue
            names = when[watched].get("from")
            if when[watched].get("name") == "other":
                continue
            if names is not None and message.sender not in ([names] if isinstance(names, str) else names):
                continue
            found = re.search(when[watched]["matches"], message.text)
            if found is not None:
                groups = [found.group(0), *(one or "" for one in found.groups())]
                work.append((rule, {"text": message.text, "from": message.sender, "groups": groups, "params": {}}))
        return self.do(work, message)

    def do(self, work: list[tuple[PlainRule, dict[str, Any]]], message: Message) -> list[Message]:
        made, told, spent = self.look(work, message)
        share = (message.left - spent) // max(len(made), 1)
        answers: list[Message] = []
        planned: list[Message] = []
        asked: list[tuple[str, str]] = []
        for rule, action, occasion in made:
            is_void = rule.author == "carol" and self.grant is None
            if is_void or (rule.author in MEMBERS and rule.author not in self.members):
                told.append(rule.name)
            elif action is None:
                again = (rule.name, repr(occasion["params"]))
                answers.append(Message("note" if again in asked else "gate", rule.name, "", message.hops + 1))
                asked.append(again)
            elif "task" in action:
                planned += self.plan(rule, action["task"], occasion, message, share)
            else:
                answers.append(self.answer(rule, action, occasion, message, share))
        return [*answers, *(Message("note", name, "", message.hops) for name in told[:1]), *planned]

    def plan(
        self, rule: PlainRule, task: dict[str, Any], occasion: dict[str, Any], message: Message, share: int
    ) -> list[Message]:
        """What tells of a task, and what gives it to whom it is for."""
        to = task.get("for")
        if to is not None and to not in self.members:
            return [Message("note", rule.name, "", message.hops)]
        self.tasks += 1
        sender = voice(rule, message, task["title"] + task["text"])
        title, text = fill(task["title"], occasion), fill(task["text"], occasion).strip()
        suffix = "" if to is None else f" (for {to})"
        said = f"[TASKS] planned by the rule {rule.name}:\n- t{self.tasks} {title}{suffix}"
        made = [Message("status", sender, said, message.hops + 1)]
        if to is not None:
            self.tasked.add(to)
            call = f'{{"task": "t{self.tasks}", "result": "<what>"}}'
            lines = [
                f"[TASK:t{self.tasks}] {title}",
                *([text] if text else []),
                f"You hold this task. When it is done, call team_task_done with {call};",
                "if it cannot be done, team_task_fail with a reason.",
            ]
            made.append(Message("said", sender, "\n".join(lines), message.hops + 1, to, share, message.deep + 1))
        return made

    def look(
        self, work: list[tuple[PlainRule, dict[str, Any]]], message: Message
    ) -> tuple[list[tuple[PlainRule, dict[str, Any] | None, dict[str, Any]]], list[str], int]:
        """What is done, which rules are told to have been cut short, and what that took."""
        spent = 0
        made: list[tuple[PlainRule, dict[str, Any] | None, dict[str, Any]]] = []
        told: list[str] = []
        # What is still to be looked at: a rule with its occasion, or one action of one. The last is the next.
        todo: list[tuple[PlainRule, dict[str, Any], int, dict[str, Any] | None]] = [
            (rule, occasion, message.deep, None) for rule, occasion in reversed(work)
        ]
        while todo:
            rule, occasion, deep, action = todo.pop()
            if action is None:
                if deep >= DEPTH:
                    told.append(rule.name)
                elif rule.body.get("requires"):
                    if spent >= message.left:
                        told.append(rule.name)
                    else:
                        spent += 1
                        made.append((rule, None, occasion))
                else:
                    todo += [(rule, occasion, deep, one) for one in reversed(rule.body["then"])]
                continue
            if spent >= message.left:
                told.append(rule.name)
                continue
            spent += 1
            if "invoke" not in action:
                made.append((rule, action, occasion))
                continue
            sub = next((one for one in self.on() if one.name == action["invoke"]), None)
            given = {name: fill(value, occasion) for name, value in action.get("params", {}).items()}
            if sub is None or set(given) != set(sub.body.get("params", {})):
                told.append(rule.name)
            else:
                todo.append((sub, {**occasion, "params": given}, deep + 1, None))
        return made, told, spent

    def answer(
        self, rule: PlainRule, action: dict[str, Any], occasion: dict[str, Any], message: Message, share: int
    ) -> Message:
        template = action.get("say") or action.get("message") or ""
        sender = voice(rule, message, template)
        named = [name for name in ("bob", "carol") if f"@{name}" in template] if "say" in action else []
        named.sort(key=lambda name: template.index(f"@{name}"))
        to = [action["assign"]] if "assign" in action else [action["ask"]] if "ask" in action else named
        if "assign" in action and action["assign"] not in self.members:
            return Message("note", rule.name, "", message.hops + 1)
        heard = [name for name in to if name in self.members and ("assign" in action or name != rule.author)]
        text = fill(template, occasion)
        return Message("said", sender, text, message.hops + 1, " ".join(heard), share, message.deep + 1)


def voice(rule: PlainRule, message: Message, template: str) -> str:
    """Who says it: words of a stranger's stay one's."""
    if message.sender == HOOK and "${{" in template:
        return HOOK
    return rule.author if rule.author in MEMBERS else SYSTEM


def fill(template: str, occasion: dict[str, Any]) -> str:
    text = template.replace("${{ message.text }}", "\0t").replace("${{ message.from }}", "\0f")
    text = text.replace("${{ match.1 }}", "\0m").replace("${{ params.p }}", "\0p")
    groups = occasion["groups"]
    for mark, value in (
        ("\0f", occasion["from"]), ("\0m", groups[1] if len(groups) > 1 else ""),
        ("\0p", occasion["params"].get("p", "")), ("\0t", occasion["text"]),
    ):  # fmt: skip
        text = text.replace(mark, value)
    return text


class Trial:
    """One history: a workspace on a real store, and the plain interpreter beside it."""

    def __init__(self, database: Database, seed: int, path: Path | None) -> None:
        self.chance = random.Random(seed)
        self.path = path
        self.plain = Plain(set(MEMBERS))
        self.workspace = BusyWorkspace(database)
        self.workspace.begin()
        self.made = 0

    def define(self) -> None:
        chance = self.chance
        who = chance.choice((USER, USER, *sorted(self.plain.members)))
        if who == "carol" and self.plain.grant is None:
            self.grant()
        name = chance.choice(NAMES)
        body = self._body(who)
        known = next((one for one in self.plain.rules if one.name == name), None)
        spec = msgspec.convert({"name": name, **body}, RuleSpec)
        author = self.workspace.author(who)
        scopes = None if author is None else SCOPES if who == "carol" else ALL
        own = any(who in (one.get("assign"), one.get("ask")) for one in body["then"])
        foreign = known is not None and who not in (USER, known.author)
        before = self._newest()
        if own or foreign:
            with pytest.raises(Refused):
                self.workspace.commit(rules.define, SPACE, spec, author=author, scopes=scopes)
            return
        self.workspace.commit(rules.define, SPACE, spec, author=author, scopes=scopes)
        made = len(self._rows(before))
        assert made == 1 or self._is_repeated(who, made), "a definition does nothing by itself"
        if made:
            self.plain.define(name, body, who)

    def _body(self, who: str) -> dict[str, Any]:
        chance = self.chance
        body: dict[str, Any] = {}
        if chance.random() < 0.3:
            body["params"] = {"p": "string"}
        if chance.random() < 0.85:
            watched: dict[str, Any] = {"matches": chance.choice(PATTERNS)}
            if chance.random() < 0.4:
                watched["from"] = chance.choice((USER, SYSTEM, "alice", ["bob", "carol"], ["system", "alice"]))
            kind = chance.choice(("said", "said", "said", "done", "hook"))
            if kind == "hook":
                watched = {"matches": watched["matches"], "name": chance.choice(("build", "build", "other"))}
            body["when"] = {kind: watched}
        if chance.random() < 0.15:
            body["requires"] = {"grants": 1, "from": ["user"]}
        body["then"] = [self._action(body, who) for _ in range(chance.choice((1, 1, 2, 3, 16)))]
        return body

    def _action(self, body: dict[str, Any], who: str) -> dict[str, Any]:
        chance = self.chance
        pieces = [one for one in PIECES if "params" not in one or "params" in body]
        text = "".join(dict.fromkeys(chance.choices(pieces, k=chance.randint(1, 3)))).strip() or "A"
        members = sorted(self.plain.members - {who}) or ["bob"]
        verb = chance.choice(("say", "say", "assign", "ask", "invoke", "task"))
        if verb == "say":
            return {"say": text}
        if verb == "invoke":
            name = chance.choice(NAMES)
            return {"invoke": name, **({"params": {"p": text}} if chance.random() < 0.5 else {})}
        if verb == "task":
            title = "".join(dict.fromkeys(chance.choices(TASK_PIECES, k=chance.randint(1, 3)))) + "!"
            to = chance.choice((None, "carol", *(("alice",) if "alice" in self.plain.members else ())))
            return {"task": {"title": title, "text": text, **({} if to is None else {"for": to})}}
        return {verb: chance.choice(members), "message": text}

    def say(self) -> None:
        who = self.chance.choice((USER, USER, *sorted(self.plain.members)))
        text = "".join(self.chance.choices("ABCx ", k=self.chance.randint(1, 5)))
        before = self._newest()
        draft = Draft(kind="said", space=SPACE, sender=who, text=text, author=self.workspace.author(who))
        self.workspace.commit(append, draft)
        if not self._is_repeated(who, len(self._rows(before))):
            self._check(before, lambda first: Message("said", who, text, first[3]))

    def hear(self) -> None:
        """A program outside says something."""
        text = "".join(self.chance.choices("ABCx ", k=self.chance.randint(1, 5)))
        before = self._newest()
        self.workspace.commit(append, Draft(kind="said", space=SPACE, sender=HOOK, text=text))
        self._check(before, lambda first: Message("said", HOOK, text, first[3]))

    def finish(self) -> None:
        """Of those who have no tasks: what becomes of these is tried by task_graphs."""
        free = sorted(self.plain.members - self.plain.tasked)
        if not free:
            return
        who = self.chance.choice(free)
        text = "".join(self.chance.choices("ABC", k=self.chance.randint(0, 3)))
        author = self.workspace.attempt(who)
        before = self._newest()
        self.workspace.commit(close, author.instruction, author.epoch, status="done", text=text)
        self._check(before, lambda first: Message("done", who, text, first[3]))
        self._take()

    def grant(self) -> None:
        """Carol is given the scope rules, or it is taken back."""
        if self.plain.grant is None:
            self.plain.grant = self.workspace.commit(grants.give, SPACE, WantedGrant("rules", None, None), "carol").id
        else:
            self.workspace.commit(grants.revoke, SPACE, self.plain.grant)
            self.plain.grant = None

    def invoke(self) -> None:
        one = next(iter(self.plain.on()), None)
        if one is None:
            return
        params = dict.fromkeys(one.body.get("params", {}), "C")
        before = self._newest()
        self.workspace.commit(rules.invoke_rule, SPACE, one.name, params)
        rows = self._rows(before)
        status = Message("status", USER, rows[0][2], 0)
        occasion = {"text": "", "from": USER, "groups": [], "params": params}
        self._compare(rows[1:], self.plain.follow_all(self.plain.do([(one, occasion)], status)))

    def switch_off(self) -> None:
        one = next(iter(self.plain.on()), None)
        if one is not None:
            self.workspace.commit(rules.switch_off, SPACE, one.name)
            one.enabled, one.author = False, USER  # so nobody else switches it on again

    def read_file(self) -> None:
        """The workflow's file is read: it has some of the names, whoever had them, and switches off its own others."""
        chance = self.chance
        names = chance.sample(NAMES, chance.randint(0, 2))
        bodies = {name: self._body(USER) for name in names}
        specs = [msgspec.convert({"name": name, **body}, RuleSpec) for name, body in bodies.items()]
        self.workspace.commit(rules.define_of_file, SPACE, specs)
        for one in self.plain.rules:
            if one.author == SYSTEM and one.enabled and one.name not in bodies:
                one.enabled = False
        for name, body in bodies.items():
            self.plain.define(name, body, SYSTEM)
        found = stored.in_space(self.workspace.conn, SPACE)
        assert [(one.name, one.author, one.enabled) for one in found] == [
            (one.name, one.author, one.enabled) for one in self.plain.rules
        ]

    def leave(self) -> None:
        """A member is gone, and what it defined does nothing any more."""
        if len(self.plain.members) > 2 and self.chance.random() < 0.2:
            self.plain.members.discard("alice")
            self.workspace.conn.execute("DELETE FROM members WHERE name = 'alice'")

    def restart(self) -> None:
        """Another kernel goes on, for a database in a file with what the file has."""
        if self.path is not None:
            self.workspace.database.close()
            self.workspace.database = open_migrated(str(self.path))
        if "alice" in self.plain.members:
            self.workspace.restart()
        # Work that broke off too often has failed by now, which may have set a rule off.
        self.plain.tasks = int(self.workspace.conn.execute(TASKS).get)

    def _is_repeated(self, who: str, made: int) -> bool:
        return made == 0 and who != USER

    def _take(self) -> None:
        if "alice" in self.plain.members:
            self.workspace.take_all()

    def _newest(self) -> int:
        return int(self.workspace.conn.execute(NEWEST).get)

    def _rows(self, after: int) -> list[Row]:
        return list(self.workspace.conn.execute(SAID, (SPACE, after)))

    def _check(self, before: int, first_of: Callable[[Row], Message]) -> None:
        rows = self._rows(before)
        self._compare(rows[1:], self.plain.follow(first_of(rows[0]))[1:])

    def _compare(self, rows: list[Row], wanted: list[Message]) -> None:
        assert list(map(_seen, rows)) == list(map(_meant, wanted))
        self.made += len(rows)
        # Work that ends is two messages; a thing that is done is two at most, and what answers one may be left out.
        assert len(rows) <= 2 * 3 * FUEL + 4, "it ends"
        assert max((row[3] for row in rows), default=0) <= min((row[3] for row in rows), default=0) + DEPTH + 1
        assert int(self.workspace.conn.execute(OVER, (HOPS,)).get) == 0, "work beyond the hops begins"


def _seen(row: Row) -> tuple[object, ...]:
    kind, sender, text, hops, addressed = row
    if kind == "system":
        return "note", text[len("[RULE:") :].partition("]")[0] if text.startswith("[RULE:") else "limit"
    if kind == "proposal":
        return "gate", text.partition("May the rule ")[2].partition(" ")[0], hops
    return kind, sender, text, hops, addressed if kind == "said" else ""


def _meant(message: Message) -> tuple[object, ...]:
    if message.kind == "note":
        return "note", message.sender
    if message.kind == "gate":
        return "gate", message.sender, message.hops
    return message.kind, message.sender, message.text, message.hops, message.to if message.kind == "said" else ""


def trial(seed: int) -> int:
    """One history. Returns how many messages its rules made."""
    with TemporaryDirectory(prefix="awk-rules-") as folder:
        path = Path(folder) / "store.db" if seed % 16 == 0 else None
        one = Trial(open_migrated(MEMORY if path is None else str(path)), seed, path)
        try:
            for _ in range(3):
                one.define()
            seldom = (one.hear, one.invoke, one.grant, one.switch_off, one.read_file, one.restart)
            steps = (*[one.define] * 2, *[one.say] * 4, *seldom)
            for _ in range(STEPS):
                one.chance.choice((*steps, one.leave, *((one.finish,) if "alice" in one.plain.members else ())))()
            return one.made
        finally:
            one.workspace.database.close()


def main() -> None:
    count, first, (made,) = run_seeds(lambda seed: (trial(seed),))
    say(f"{count:,} histories from seed {first}, {made:,} messages of rules: each as the plain one says")


if __name__ == "__main__":
    main()
