"""docs/reference/backends.md, from the table of backends and results of the contract suite: ``scripts/generate``."""

import textwrap
from collections.abc import Iterable, Iterator
from typing import Final

from protocol.backends import BACKENDS, BackendSpec
from tests.contracts.check_backend import SCENARIOS, Scenario
from tests.worker.backends import measured
from tests.worker.backends.subject import Subject
from tests.worker.backends.test_contract import SUBJECTS

_OPENING: Final = """\
# Backends

The `backend:` of an agent runs its work. How to choose and configure one: [Choose a model or a
CLI](../how-to/run/choose-a-backend.md). `awk backends` shows which are installed, and in which
version.

*This page is written by `scripts/generate`.*
"""
_ABILITIES: Final = {
    "steps": "steps", "resume": "resume", "permission_prompt": "asks", "budget": "budget",
    "system_prompt": "system prompt", "daemon_check": "notices",
}  # fmt: skip
_ABLE: Final = """
## What they can do

- *steps*: each reply is booked as it comes, so that limits act between two replies.
- *asks*: a person can be asked before a tool runs (`approval:`). A backend that cannot ask refuses
  instead.
- *notices*: the program reports that it could not connect to Daemon MCP. An attempt whose token was
  never used there has failed in any case, except with `acp`.
"""
_LOGINS: Final = """
## Logins

With `login: true` an agent uses the login of the CLI on this machine: see [Use the login of a
CLI](../how-to/run/use-a-login.md).

| backend | login file | or the variable | fields that are written back |
| --- | --- | --- | --- |
{}
"""
_OWN: Final = """
## Skills, hooks and MCP servers of yours

With `cli:` an agent uses things that you keep for its program.

| backend | skills | hooks | MCP servers |
| --- | --- | --- | --- |
{}
"""
_PROVED: Final = """
## What the contract suite found

One suite (`tests/contracts/check_backend.py`) runs against all backends with a scripted provider:
each time against recordings of these versions, and with `scripts/test-backends` against the
installed programs. That run writes the results for this table. `acp` is a small agent of the tests;
`gemini`, `opencode-acp` and `claude-agent-acp` are programs behind that backend. *Weaker* does
less, safely. A *no* is checked, too: the suite fails when it passes.
"""


def _logins() -> Iterator[str]:
    for one in BACKENDS.values():
        if one.login is not None:
            login, token = one.login, one.login.token_variable
            where = f"`~/{login.folder}/{login.file}` (`${login.folder_variable}`)"
            above = "PROVIDER." if login.by_provider else ""
            fields = ", ".join(f"`{above}{'.'.join(field.path)}`" for field in login.renews)
            yield f"| `{one.name}` | {where} | {f'`${token}`' if token else ''} | {fields} |"


def _own() -> Iterator[str]:
    for one in BACKENDS.values():
        if one.own is not None:
            above = f"`~/{one.own.folder}` (`${one.own.folder_variable}`)"
            hooks = f"`{one.own.hooks}`" if one.own.hooks else f"no: {one.own.no_hooks}"
            servers = f"`{one.own.servers_key}` of `{one.own.servers[-1]}`"
            yield f"| `{one.name}`, in {above} | `{one.own.skills[-1]}/NAME` | {hooks} | {servers} |"


def page() -> str:
    parts = [
        _OPENING,
        _ABLE,
        *_able(),
        *_notes(),
        _LOGINS.format("\n".join(_logins())),
        _OWN.format("\n".join(_own())),
        _PROVED,
        *_proved(),
        *_remarks(),
    ]
    return "\n".join(parts).replace("\n\n\n", "\n\n")


def _able() -> Iterator[str]:
    yield from _table(
        ["backend", "program", *_ABILITIES.values(), "installation"],
        (
            [f"`{spec.name}`", spec.title, *(getattr(spec, key) for key in _ABILITIES), _install(spec)]
            for spec in BACKENDS.values()
        ),
    )


def _install(spec: BackendSpec) -> str:
    return f"`{spec.install}`".replace("|", "\\|") if spec.install else "included"


def _notes() -> Iterator[str]:
    for spec in BACKENDS.values():
        if spec.notes:
            yield f"\n**{spec.name}**\n"
            yield from (_item(note) for note in spec.notes)


def _proved() -> Iterator[str]:
    heads = [measured.titled(subject) for subject in SUBJECTS]
    rows = ([scenario.shows, *(_result(scenario, one) for one in SUBJECTS)] for scenario in SCENARIOS)
    yield from _table(["", *heads], rows)


def _result(scenario: Scenario, subject: Subject) -> str:
    if not scenario.of(subject):
        return "–"
    return measured.results()[measured.titled(subject)][scenario.name]


def _remarks() -> Iterator[str]:
    shows = {scenario.name: scenario.shows for scenario in SCENARIOS}
    for subject in SUBJECTS:
        remarks = {**subject.lacks, **subject.weaker}
        if remarks:
            yield f"\n**{subject.name}**\n"
            yield from (_item(f"{shows[name]}: {remarks[name]}") for name in shows if name in remarks)
    yield ""


def _item(text: str) -> str:
    return textwrap.fill(f"- {text}", 100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _table(head: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    for cells in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    import sys

    sys.stdout.write(page())
