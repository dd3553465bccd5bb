"""docs/backends.md, made of the table of backends and of what the contract suite insists on: ``scripts/generate``."""

from collections.abc import Iterable, Iterator
from typing import Final

from protocol.backends import BACKENDS, BackendSpec
from tests.contracts.check_backend import SCENARIOS, Scenario
from tests.worker.backends.subject import Subject
from tests.worker.backends.test_contract import SUBJECTS

_OPENING: Final = """\
# Backends

What runs an agent is its `backend:`. Whatever does the work, the kernel sees to the rest alike: a token for each
attempt, steps made durable as they come, budgets, preemption, resume, a stop that is bounded, an end of all that was
started. A program changes no file of yours or of the project: it gets its configuration through flags, variables and
private files, and keeps its sessions in the state directory. `awk backends` shows which are installed, and in which
version.

*This page is written by `scripts/generate`.*
"""
_ABILITIES: Final = {
    "steps": "steps",
    "resume": "resume",
    "permission_prompt": "asks",
    "budget": "budget",
    "system_prompt": "system prompt",
    "daemon_check": "notices",
}
_ABLE: Final = """
## What they can do

*steps*: each reply is booked as it comes, so that limits act between two of them. *asks*: a person can be asked
before a tool runs (`approval:`); who cannot ask refuses instead. *notices*: it tells by itself where it could not
connect to Daemon MCP. An attempt whose token never came there has failed in any case.
"""
_KEYS: Final = """
## What they show their provider

The key in its variable (`ANTHROPIC_API_KEY`, `OPENAI_API_KEY`, `CURSOR_API_KEY`, ...: `awk config AGENT` names it) in
the environment of the kernel, which is that of the shell it was started from: `awk validate` warns where it is not set,
and `awk restart --kernel` from a shell that has it hands it on. Programs are given that key and nothing else: a login
that `claude`, `codex`, `opencode` or `cursor` keeps in your home is not used, and neither is `CLAUDE_CODE_OAUTH_TOKEN`.

Requests of codex and opencode, and those of claude to an endpoint that the agent or the project names, pass their
worker on the way (on loopback, unchanged): what each answer cost is booked, also of an attempt that is cancelled, and
no request is made that a budget has nothing left for.
"""
_PROVED: Final = """
## What the contract suite found

One suite is run against all of them (`tests/contracts/check_backend.py`), with a scripted provider: each time against
recordings of these versions, and with `scripts/test-backends`, which installs them, against the programs themselves.
What is *weaker* does less, and safely. A *no* is insisted on, too: where its check begins to pass, the suite fails.
"""


def page() -> str:
    """The page."""
    parts = [_OPENING, _ABLE, *_able(), *_notes(), _KEYS, _PROVED, *_proved(), *_remarks()]
    return "\n".join(parts).replace("\n\n\n", "\n\n")


def _able() -> Iterator[str]:
    yield from _table(
        ["backend", "what it is", *_ABILITIES.values(), "how to get it"],
        (
            [f"`{spec.name}`", spec.title, *(getattr(spec, key) for key in _ABILITIES), _install(spec)]
            for spec in BACKENDS.values()
        ),
    )


def _install(spec: BackendSpec) -> str:
    return f"`{spec.install}`".replace("|", "\\|") if spec.install else "it is there"


def _notes() -> Iterator[str]:
    for spec in BACKENDS.values():
        if spec.notes:
            yield f"\n**{spec.name}**\n"
            yield from (f"- {note}" for note in spec.notes)


def _proved() -> Iterator[str]:
    heads = [f"{subject.name} {subject.version}".strip() for subject in SUBJECTS]
    rows = ([scenario.shows, *(_result(scenario, one) for one in SUBJECTS)] for scenario in SCENARIOS)
    yield from _table(["", *heads], rows)


def _result(scenario: Scenario, subject: Subject) -> str:
    if not scenario.of(subject):
        return "–"
    return "no" if scenario.name in subject.lacks else "weaker" if scenario.name in subject.weaker else "yes"


def _remarks() -> Iterator[str]:
    """What stands behind each ``weaker`` and each ``no``."""
    shows = {scenario.name: scenario.shows for scenario in SCENARIOS}
    for subject in SUBJECTS:
        remarks = {**subject.lacks, **subject.weaker}
        if remarks:
            yield f"\n**{subject.name}**\n"
            yield from (f"- {shows[name]}: {remarks[name]}" for name in shows if name in remarks)
    yield ""


def _table(head: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    for cells in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    import sys

    sys.stdout.write(page())
