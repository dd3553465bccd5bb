"""docs/backends.md, made of the table of backends and of what the contract suite insists on: ``scripts/generate``."""

from collections.abc import Iterable, Iterator
from typing import Final

from protocol.backends import BACKENDS, BackendSpec
from tests.contracts.check_backend import SCENARIOS, Scenario
from tests.worker.backends import measured
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
    "steps": "steps", "resume": "resume", "permission_prompt": "asks", "budget": "budget",
    "system_prompt": "system prompt", "daemon_check": "notices",
}  # fmt: skip
_ABLE: Final = """
## What they can do

*steps*: each reply is booked as it comes, so that limits act between two of them. *asks*: a person can be asked
before a tool runs (`approval:`); who cannot ask refuses instead. *notices*: it tells by itself where it could not
connect to Daemon MCP. An attempt whose token never came there has failed in any case (except with `acp`).
"""
_KEYS: Final = """
## What they show their provider

The key in its variable (`ANTHROPIC_API_KEY`, `OPENAI_API_KEY`, `CURSOR_API_KEY`, ...: `awk config AGENT` names it) in
the environment of the kernel, which is that of the shell it was started from: `awk validate` warns where it is not set,
and `awk restart --kernel` from a shell that has it hands it on. Programs are given that key and nothing else: a login
that `claude`, `codex`, `opencode` or `cursor` keeps in your home is not used or opened, and neither is
`CLAUDE_CODE_OAUTH_TOKEN`, unless the agent's file says so.

Requests of codex and opencode, those of claude to an endpoint that the agent or the project names, and those of the
ACP programs gemini, opencode and claude-agent-acp pass their worker on the way (on loopback, unchanged): what each
answer cost is booked, also of an attempt that is cancelled, and no request is made that a budget has nothing left for.
"""
_LOGINS: Final = """
## Your own login

```yaml
backend: claude          # or codex, opencode
model: sonnet
login: true              # instead of a key
project_rules: true      # what CLAUDE.md and AGENTS.md say, see docs/tools.md
prompt:
  system: You review changes.
```

`login: true` has the program work with the login that you keep at home. That needs trust of its own (`awk trust`): the
work is done on your account, and the program can read the login. Without it none of these files is opened.

| backend | its login | or | what comes home |
| --- | --- | --- | --- |
{}

- **A copy, for one attempt.** The program gets that file (of claude's no logins of MCP servers; of opencode's the entry
  of the model's provider alone, and none of type `wellknown`), in its own private home, and nothing else of yours: no
  settings or sessions, and hooks or servers only as below. The copy is removed when nothing of the attempt runs any
  more.
- **What it renews comes home.** Renewed tokens (the old ones are void then) are put into your file as soon as they are
  seen, at once or not at all, if the tokens there are still those that were lent: the fields in the table and nothing
  else of the copy, all of them or none. They are made safe in `logins/` of the state directory first: `kill -9` of
  program, worker or kernel loses none; the next kernel brings them home. Where you logged in anew meanwhile your file
  is left alone, and the other tokens are kept in `logins/` (`login.kept` in the log); where you logged out they are
  dropped.
- **One attempt at a time**, of all projects of yours: two programs with one refresh token would void each other's. Who
  has to wait holds no worker, and says in the log who has the login. Your own use of the CLI beside it is not held up;
  if both renew at the same moment, one of them has to log in again. A token in `CLAUDE_CODE_OAUTH_TOKEN` is renewed by
  nobody, so any number of agents work with it at once.
- **To its vendor alone.** A `base_url` in a file of the project together with `login: true` is refused. Where the
  kernel was started with `ANTHROPIC_BASE_URL` or `OPENAI_BASE_URL`, requests go there: that is your own word.
- **In a sandbox** the copy is in the one folder that this program's sandbox shows: other agents do not see it, but the
  shell that this agent's model uses does. What such an agent writes there can become your tokens, so that you are
  logged out, or in as somebody else; nothing else of your file. Do not give a login to an agent whose work you would
  not do on your account.
- Requests of codex and opencode with a login are not metered on the way unless one of these variables is set: what a
  cancelled reply cost is not booked then, and a budget acts between two replies. Costs are told by list prices, also
  where an account pays a flat rate.
- macOS: claude keeps its login in the keychain there, which is not opened; use `CLAUDE_CODE_OAUTH_TOKEN`.
"""
_OWN: Final = """
## What else you have given it

```yaml
backend: claude
cli:
  skills: [deploy]          # yours, each by its folder's name
  hooks: true               # all of yours
  mcp_servers: [github]     # yours, each by its name
```

Of what you keep at home for a program an agent has what its file names, and nothing else: no settings, plugins,
commands or words of yours. Each thing is a demand of its own (`awk trust`), and until you agree none of these files is
opened.

| backend | skills | hooks | MCP servers |
| --- | --- | --- | --- |
{}

- **Skills are copied** into the program's private home before each attempt (20 of them, each of 16 MiB and 1,000 files
  at most, no links), and told like those of the project: the program reads the copy. What it does to that reaches
  nothing of yours; what the file no longer names is removed before the next attempt.
- **Hooks run as you wrote them**, outside of any sandbox (with `sandbox: on` they are refused: it hides your home, and
  what a hook is to prevent would be done). They are read before each attempt; where they cannot be read the attempt
  fails.
- **MCP servers** go with the attempt, as those in the agent's own `mcp_servers` do: `approval` and `read_only` hold for
  them, their keys (`env`, `headers`) are masked in the transcript, and one that does not start fails the attempt. They
  start where the agent works. What cannot be handed on is told: a server of type `sse`, a variable in its command,
  codex's `cwd`, opencode's `{{file:...}}`. Logins of servers (OAuth) are not let in.
- Nothing goes home again. What a hook or a server of yours writes by itself is its own doing.
"""
_ACP: Final = """
## Programs that speak ACP

```yaml
backend: acp
command: [gemini, --acp]     # or [opencode, acp], [goose, acp], [qwen, --acp], ...
model: gemini-2.5-pro        # the program's own word; its default without
env: [GEMINI_API_KEY]        # its key, and what else it has to see
approval: ask
```

The program is one of the project or on the `PATH` of workers, and needs trust like every command. It gets the working
directory, the agent's MCP servers and Daemon MCP (over HTTP where it says it can, so that the token is in no file; else
over our bridge), and a private home in the state directory. Variables that are not named under `env` do not reach it.

- **Approval holds or the agent is refused.** A program asks in one of its session modes, and decides by itself in
  others. The worker chooses the asking mode when it opens the session and ends a program that leaves that mode. Known
  are `claude-agent-acp` and `gemini` (mode `default`) and `opencode` (asks by its settings). Any other program has to
  offer a mode `ask`; without one it works with `approval: auto` alone, best with `sandbox: on`. `approval: all` needs
  a known program.
- **A request for permission is an approval** like any other: `auto` grants it, `deny` refuses, else it waits in `awk
  pending`, with the whole call. Permission is given once, never permanently. Tools of Daemon MCP are granted where the
  program names the tool in a field of its own (`_meta.claudeCode.toolName`) or is configured not to ask about them;
  a title proves nothing, so a person is asked.
- **Settings of the project need trust.** A program may load hooks, plugins and MCP servers from the working directory:
  `.claude` and `.mcp.json` (claude-agent-acp), `.gemini` (gemini), `.opencode` and `opencode.json` (opencode), all of
  these and `.codex`, `.cursor`, `.goose`, `.qwen` (any other). `awk trust` lists each file with its digest. An attempt
  does not start where its working directory holds another content, a link, or settings in a folder above the project.
  claude-agent-acp and opencode are also told to ignore them.
- **Budgets.** `budget: {tokens: ...}` needs a metered program: gemini (`GOOGLE_GEMINI_BASE_URL`), claude-agent-acp
  (`ANTHROPIC_BASE_URL`), or opencode with `model: provider/name` (the address that `OPENCODE_CONFIG` gives, or the
  vendor's own for `anthropic` and `openai`). With any other program, with `login: true` and in USD a budget is a
  mistake in the file (`awk validate`). `wall_time` always holds.
- **Cancellation** sends `session/cancel`; the program has 2 s to answer, and what it says it used is booked.
- **gemini** gets private settings: no telemetry, no `.env` of the project. With `approval: all` it asks about every
  call.
- **opencode** gets the rules of its approval in `OPENCODE_CONFIG_CONTENT`; providers and models come with a file that
  `OPENCODE_CONFIG` names (`env: [OPENCODE_CONFIG]`), or with a key in the environment.
- A program may connect to Daemon MCP only when it needs a tool, so work without any connection is believed.
- `login: true` leaves the program your home as it is, since nobody knows which file of it is the login.
- Effort, thinking, temperature and `provider` are nothing that the protocol can tell: a mistake in the file.
"""
_PROVED: Final = """
## What the contract suite found

One suite is run against all of them (`tests/contracts/check_backend.py`), with a scripted provider: each time against
recordings of these versions, and with `scripts/test-backends`, which installs them, against the programs themselves.
That run writes the results down, and this table is made of those. `acp` is a small agent of the tests; `gemini`,
`opencode-acp` and `claude-agent-acp` are programs behind that backend.
What is *weaker* does less, and safely. A *no* is insisted on, too: where its check begins to pass, the suite fails.
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
        _KEYS,
        _LOGINS.format("\n".join(_logins())),
        _OWN.format("\n".join(_own())),
        _ACP,
        _PROVED,
        *_proved(),
        *_remarks(),
    ]
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
            yield from (f"- {shows[name]}: {remarks[name]}" for name in shows if name in remarks)
    yield ""


def _table(head: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    for cells in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    import sys

    sys.stdout.write(page())
