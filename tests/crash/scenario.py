"""What the clients ask for in one round, and the client that asks until it is told.

Every text and every key is used once, so that what is there can be counted against what was said.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.crash.life import Answer, Gone, Life
from tests.project import Project

LEAVING: Final = 503
"""A kernel that is stopping takes nothing new."""
STEPS: Final = "steps.log"
"""Each scripted shell step writes one line: its key, and the worker it ran in."""
STEP: Final = f'shell: "echo $AGENT_IDEMPOTENCY_KEY $PPID >> {STEPS}"'

ALICE: Final = f"""
backend: mock
mock:
  - when: 'first (?P<n>\\d+)'
    do:
      - {{ {STEP} }}
      - {{ {STEP} }}
      - {{ text: "alice did ${{{{ match.n }}}}" }}
  - when: 'ack (?P<id>m\\d+)'
    do:
      - {{ tool: my_inbox }}
      - {{ tool: my_inbox_ack, args: {{ ids: ["${{{{ match.id }}}}"] }} }}
      - {{ text: "acked ${{{{ match.id }}}}" }}
"""
ROUND: Final = 'type: approval, title: "Go on?", resolution: { quorum: 1 }, timeout_seconds: 600'
TEAM: Final = f"""
agents:
  carol:
    backend: mock
    mock:
      - when: 'go (?P<n>\\d+)'
        do:
          - {{ {STEP} }}
          - {{ tool: channel_send, args: {{ message: "@dave look at ${{{{ match.n }}}}" }} }}
          - {{ tool: team_proposal_create, args: {{ id: "go-${{{{ match.n }}}}", {ROUND} }} }}
          - {{ tool: team_vote, args: {{ proposal: "go-${{{{ match.n }}}}", choice: "yes" }} }}
          - {{ {STEP} }}
          - {{ text: "carol asked ${{{{ match.n }}}}" }}
  dave:
    backend: mock
    mock:
      - when: 'look at (?P<n>\\d+)'
        do:
          - {{ {STEP} }}
          - {{ text: "dave looked at ${{{{ match.n }}}}" }}
      - when: 'PROPOSAL:go-(?P<n>\\d+)'
        do:
          - {{ text: "dave has read ${{{{ match.n }}}}" }}
"""
IVAN: Final = f"""
backend: mock
tools: [bash]
mock:
  - when: 'may (?P<n>\\d+)'
    do:
      - {{ {STEP} }}
      - {{ tool: bash, args: {{ command: "true ${{{{ match.n }}}}" }} }}
      - {{ {STEP} }}
      - {{ text: "ivan might ${{{{ match.n }}}}" }}
"""
GINA: Final = "backend: mock\nmock:\n  - sleep: 600\n"
IDLE: Final = """
agents:
  erin:
    backend: mock
    mock:
      - sleep: 600
kickoff: "@erin wait"
"""


def furnish(project: Project) -> None:
    project.write(".agents/alice.yaml", ALICE)
    project.write(".agents/gina.yaml", GINA)
    project.write(".agents/ivan.yaml", IVAN)
    project.write(".workflows/team.yaml", TEAM)
    project.write(".workflows/idle.yaml", IDLE)


@dataclass
class Request:
    """One thing asked for, and what was answered at last. ``settled_by``: refusals that mean it has happened."""

    method: str
    path: str
    body: dict[str, str] | None
    key: str
    settled_by: frozenset[str] = frozenset()
    may_be_late: bool = False
    """What it is about may have ended by itself: given up, where kernels died of something else while it slept."""
    answer: Answer | None = None
    tries: int = 0

    @property
    def text(self) -> str | None:
        return None if self.body is None else self.body.get("text")


@dataclass
class Client:
    """Asks, and asks again with the same key where no answer came; remembers all it was told."""

    asked: list[Request] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Nothing asked for here may be refused."""
    _round: Iterator[Request] | None = None
    _open: Request | None = None
    _begun: bool = False

    def play(self, life: Life, number: int) -> None:
        """Finish what was interrupted, then round ``number``. Raises Gone."""
        if self._open is not None:
            self._settle(life, self._open)
        if self._round is not None:
            self._play_on(life, self._round)
        self._round = self._requests(number)
        self._play_on(life, self._round)

    def finish(self, life: Life) -> None:
        if self._open is not None:
            self._settle(life, self._open)
        if self._round is not None:
            self._play_on(life, self._round)

    def _play_on(self, life: Life, requests: Iterator[Request]) -> None:
        for request in requests:
            self.asked.append(request)
            self._settle(life, request)

    def _settle(self, life: Life, request: Request) -> None:
        self._open = request
        request.tries += 1
        answer = life.ask(request.method, request.path, request.body, request.key)
        if answer.status == LEAVING:
            raise Gone
        may_have_happened = request.tries > 1 or request.may_be_late
        settled = answer.accepted or (may_have_happened and answer.body.get("code") in request.settled_by)
        if not settled:
            self.refused.append(f"{request.method} {request.path} {request.body} was refused: {answer}")
        request.answer = answer
        self._open = None

    def _requests(self, number: int) -> Iterator[Request]:
        if not self._begun:  # kernels may die before the first round is played
            self._begun = True
            yield _begin("team", "main", number)
        first = _say("alice", f"first {number}", number)
        yield first
        stay = _say("gina", f"stay {number}", number)
        yield stay
        yield _order("/agents/alice/pause", number)
        yield _say("@team", f"@carol go {number}", number)
        yield _order("/agents/alice/resume", number)
        if number % 3 == 0:
            yield _begin("idle", f"t{number}", number)
            yield _say("ivan", f"may {number}", number)
        assert first.answer is not None
        yield _say("alice", f"ack {first.answer.body['message_id']}", number)
        assert stay.answer is not None
        yield _order(f"/instructions/{stay.answer.body['instruction_ids'][0]}/cancel", number, "conflict")
        if number % 3 == 0:
            path = f"/workflows/idle/t{number}"
            yield Request("DELETE", path, None, f"{number} end", frozenset({"not_found", "workflow_not_running"}))


def approve_all(life: Life) -> None:
    """Grant what waits for that, as a person does who looks from time to time. Raises Gone."""
    for row in life.ask("GET", "/approvals").body["approvals"]:
        life.ask("POST", f"/approvals/{row['id']}/approve", None, f"approve {row['id']}")


def _say(to: str, text: str, number: int) -> Request:
    return Request("POST", "/messages", {"to": to, "text": text}, f"{number} {to} {text}")


def _order(path: str, number: int, *settled_by: str) -> Request:
    return Request("POST", path, None, f"{number} {path}", frozenset(settled_by), bool(settled_by))


def _begin(name: str, tag: str, number: int) -> Request:
    return Request(
        "POST", "/workflows", {"workflow": name, "tag": tag}, f"{number} {name}", frozenset({"already_running"})
    )
