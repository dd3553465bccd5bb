"""Properties of every command, because all of them come from one table."""

import argparse
import shlex
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interface.cli.command_parser import parser_for
from interface.cli.command_table import ALIASES, BY_WORD, COMMANDS, GROUPS, Command
from interface.cli.commands.help import commands_page
from interface.cli.exits import Exit, of_failure
from interface.cli.parsing import plain_arguments
from interface.failure import Failure
from protocol.errors import REFUSALS
from tests.interface.conftest import Cli
from tests.interface.kernel_double import KernelDouble

STARTERS = {"start", "run", "send", "ask", "serve"}
STREAMS = {"attach", "logs", "events"}
WITHOUT_DOCUMENT = {"start", "stop", "init", "schema", "completion", "help", "mcp-serve", "call"}
FILES_ONLY = {
    "help", "agent", "validate", "config", "schema", "completion", "trust", "tool", "skills", "import", "memory",
    "worker", "doctor", "projects", "service", "backup", "restore", "standby", "df", "adopt",
}  # fmt: skip
"""Commands that are about files: they work without a kernel."""
ARGUMENTS = {
    "run": ["nowhere"], "send": ["alice", "hi"], "ask": ["alice", "hi"], "serve": ["alice", "hi"], "attach": ["alice"],
    "channel": ["@review"], "queue": ["alice"], "diff": ["@review"], "inbox": ["alice"], "reset": ["alice"],
    "unblock": ["alice"],
    "restart": ["alice"], "pause": ["alice"], "resume": ["@review"], "continue": ["@review"], "approve": ["a3"],
    "deny": ["a3"], "cancel": ["i7"], "retry": ["i7"], "promote": ["i7"], "clear": ["alice", "--yes"],
    "prune": ["--yes"], "show": ["i7"], "export": ["r1", "-o", "r1.jsonl"], "import": ["alice.jsonl"], "merge": ["r1"],
    "agent": ["list"], "tool": ["list"], "skills": ["list"], "feedback": ["list"],
    "worktree": ["list"], "resource": ["get", "4f1c0a9be2d37c5518aa"], "proposal": ["show", "release@review"],
    "task": ["show", "@review", "t3"], "doc": ["read", "@review", "notes.md"], "memory": ["eval"],
    "answer": ["i7", "yes"], "reassign": ["i7", "dave"], "worker": ["check", "true"], "grant": ["list"],
    "space": ["list"], "rule": ["list", "@review"], "token": ["list"], "webhook": ["list"], "node": ["list"],
    "call": ["channel_read", "{}"], "wait": ["i7", "--for", "done"], "watch": ["r12"], "service": ["print"],
    "backup": ["state.zip"], "restore": ["state.zip"], "standby": ["check", "far"], "schema": ["agent"],
    "completion": ["bash"],
}  # fmt: skip
every = pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.word)


def _flags(command: Command) -> set[str]:
    parser = parser_for(command, "awk", command.load()[0])
    return {flag for action in parser._actions for flag in action.option_strings}


@every
def test_a_command_explains_itself(command: Command, cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command has help, and it exits 0."""
    assert cli(command.word, "--help").code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: awk {command.word}")
    assert "--project" in text


@every
def test_what_reads_has_json_and_what_streams_has_jsonl(command: Command) -> None:
    flags = _flags(command)
    assert "--jsonl" in flags if command.word in STREAMS else "--json" in flags or command.word in WITHOUT_DOCUMENT


@every
def test_an_unknown_flag_is_a_usage_error(command: Command, cli: Cli) -> None:
    """contracts 7: exit 2, and no flag is guessed from its beginning; with --json in a document too."""
    ran = cli(command.word, *ARGUMENTS.get(command.word, []), "--projec", ".", "--json")
    assert (ran.code, ran.err.startswith("error: unrecognized arguments: --projec")) == (2, True)
    document = ran.json()
    assert (document["schema"], document["code"], document["exit_code"]) == ("awk/error/1", "usage", 2)


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action.choices, dict):  # the commands below it, by their words
            for below in action.choices.values():
                yield from _parsers(below)


def _mistakes(parser: argparse.ArgumentParser) -> Iterator[list[str]]:
    for action in parser._actions:
        if action.option_strings:
            flag = action.option_strings[-1]
            yield [f"{flag}=x"] if action.nargs == 0 else [flag]
            if action.choices is not None or action.type is not None:
                yield [flag, "\0"]
    for group in parser._mutually_exclusive_groups:
        flags = [one.option_strings[-1] for one in group._group_actions if one.nargs == 0 or one.option_strings]
        yield [word for flag in flags[:2] for word in (flag, *([] if group._group_actions[0].nargs == 0 else ["x"]))]
    yield ["\0"] * 9
    yield []


@every
def test_no_error_speaks_in_the_words_of_argparse(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    for parser in _parsers(parser_for(command, "awk", command.load()[0])):
        for words in _mistakes(parser):
            try:
                parser.parse_args(words)
            except Failure as failure:
                said.append(failure.text)
            except SystemExit:
                capsys.readouterr()
    assert said
    theirs = (
        "argument ", "invalid ", "expected ", "not allowed", "the following", "choose from", "one of the arguments",
    )  # fmt: skip
    assert [text for text in said if text.removeprefix("error: ").startswith(theirs) or "invalid choice" in text] == []


MISTAKES: Final = {
    "approve": "APPROVAL is missing", "approve a1 a2 --always *": "exactly one", "approve a1 --all-agents": "--always",
    "approve xyz": "such as a3", "approve a1 i3": "such as a3", "deny": "APPROVAL is missing", "deny r1 a2": "only one",
    "deny rubbish": "such as a3", "pending 3": "such as a3", "pending a1 --rules": "excludes APPROVAL",
    "run review --approve sometimes": "Choose: auto", "export r12 --json": "-o FILE",
    "export alice@review": "@review:main", "doc write @review a": "TEXT is missing",
    "doc diff @review a --from x": "not a valid version", "grant give all --to bob@review": "Choose: channel.read",
    "grant give votes": "--to is missing", "grant give votes --to @review": "does not name an agent",
    "merge alice@review": "use @review or @review:tag", "send": "TARGET is missing",
    "ask hello": "put TARGET first, ", "serve hello": "put TARGET first, ",
    "send alice ''": "is empty", "send alice -": "is empty", "send alice -x": "-- before text",
    "send alice look at X": "quote messages of several words", "send alice hi --batch -": "cannot be combined",
    "send --batch - --wait": "cannot be combined", "send --batch nowhere": "cannot be read",
    "send --batch .": "cannot be read", "send alice hi --timeout 3s": "requires --wait",
    "send 'a b' x": "is not a target", "channel Alice!": "is not a target", "channel @Review!": "is not a target",
    "queue @review": "does not name an agent", "reset @review": "alice@review", "inbox @review": "alice@review",
    "node": "hint: list nodes", "node add g1": "hint: use --via", "node add g1 --via ssh --join": "leave out one",
    "node add g1 --via ftp": "Choose: ssh", "node --project-id ../x": "invalid project id",
    "node --project-id x --join awk1.x": "hint: list nodes", "proposal list review": "use @review",
    "proposal list @review --all": "cannot be combined", "proposal show @review": "not a proposal",
    "proposal show Release@review": "is not a proposal", "proposal vote release@review": "CHOICE is missing",
    "proposal cancel": "PROPOSAL is missing", "proposal veto release": "Choose: list", "diff bob": "bob@WORKFLOW",
    "peek alice -n x": "use 0 (all), 1, 2, ...", "peek alice -n 1.5": "number of rows",
    "peek alice -n 9999999999": "number of rows", "peek alice -n ²": "number of rows",
    "runs --status nosuch": "Choose: running", "run review --max-cost=0": "above 0", "run review --max-cost=-1": "USD",
    "run review --max-cost=nan": "USD", "run review --max-tokens=0": "above", "run review --max-tokens=1e3": "above",
    "run review --detach --rm": "--detach, which does not wait for the end", "run w --check x": "requires --compare",
    "run review --dry-run --report md:r.md": "--dry-run, which does not wait for the end",
    "run review --detach --report md:r.md": "--detach, which", "run review --dry-run --rm": "--dry-run, which",
    "prune": "--yes", "prune --json": "--yes", "prune --yes cellar": "one of: trees", "clear alice": "--yes",
    "clear alice --json": "--yes", "clear alice@review": "clear the channel: @review:main",
    "cancel i8 ''": "'' is not the id of an instruction", "retry i8 ' '": "is not the id", "cancel i8 7": "not the id",
    "promote i8 a7": "not the id", "retry i8 i": "not the id", "cancel i8 i7/x": "not the id",
    "promote i8 ../i7": "not the id", "cancel --yes": "ID is missing", "retry --fresh": "ID is missing",
    "cancel i7 --queued --yes": "cannot be combined", "cancel @a @b --yes": "cannot be combined",
    "retry i7 --dry-run --fresh": "cannot be combined", "retry --all i7 --fresh": "cannot be combined",
    "cancel @a --agent b@c --yes": "conflicting targets", "cancel --agent @a --yes": "does not name an agent",
    "stop @review --now": "only apply to the kernel", "stop -A alice": "cannot be combined",
    "start -- x": "require a workflow", "upgrade --status --to /venv": "cannot be combined",
    "watch alice": "neither a run nor", "watch alice@review": "neither a run nor", "channel @review -f --json": "use -",
    "logs --previous -f": "leave out -f", "space members @review~design": "--add NAME", "schema": "KIND is missing",
    "ps -o name,colour": "ps has no column 'colour'", "ps --json -q": "cannot be combined",
    "stats --by week": "not a grouping", "stats --by day,day": "not a grouping", "stats --since soon": "is not a time",
    "token create --scope all": "hint: use read, operate, approve", "show review --prompt": "an instruction (i7)",
    "agent": "VERB is missing", "agent nothing": "Choose: list", "agent todo alice done x": "needs a number",
    "trust revoke": "ids or --all", "ps --project nowhere": "--project nowhere: no such directory",
    "wait": "these arguments are missing: TARGET, --for", "wait alice": "--for is missing", "wait i7": "--help",
    "wait alice --for lunch": "--for cannot be 'lunch'. Choose: idle, done, needs",
    "wait alice --for idle --timeout": "--timeout needs a value", "wait alice --for done": "--for idle",
    "wait alice --for idle --timeout soon": "'soon' is not a valid duration", "wait @@ --for idle": "not a target",
    "wait --json=x": "--json takes no value, not 'x'", "memory growth x": "RUNS needs a number, not 'x'",
}  # fmt: skip
"""Command lines that make no sense, and a part of what is said of each."""


@pytest.mark.parametrize("words", MISTAKES)
def test_what_makes_no_sense_is_refused_before_a_kernel_is_asked(words: str, cli: Cli, kernel: KernelDouble) -> None:
    """Exit 2 and what to do: a script that meant something else loses nothing."""
    ran = cli(*shlex.split(words))
    assert (ran.code, MISTAKES[words] in ran.err + ran.out, kernel.asked) == (Exit.USAGE, True, []), ran


@pytest.mark.parametrize(
    "command",
    [c for c in COMMANDS if c.word not in STARTERS | FILES_ONLY | {"init", "version", "stop", "backends", "call"}],
    ids=lambda c: c.word,
)
def test_what_only_looks_starts_nothing(command: Command, cli: Cli) -> None:
    """contracts 7: only start, run, send, ask, serve and new start a kernel."""
    ran = cli(command.word, *ARGUMENTS.get(command.word, []))
    assert ran.code == (Exit.NOT_RUNNING if command.word == "status" else Exit.NO_KERNEL)
    assert list(cli.home.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [c for c in COMMANDS if c.word not in STREAMS | WITHOUT_DOCUMENT | FILES_ONLY | {"version"}],
    ids=lambda c: c.word,
)
def test_json_is_printed_whatever_the_exit_code(command: Command, cli: Cli, kernel: KernelDouble) -> None:
    ran = cli(command.word, *ARGUMENTS.get(command.word, []), "--json")
    document = ran.json()
    assert (document["schema"], document["exit_code"], document["code"]) == ("awk/error/1", ran.code, "not_found")
    assert ran.code == 5


@pytest.mark.parametrize(
    "word", sorted(FILES_ONLY - {"worker", "doctor", "projects", "backup", "restore", "standby", "df"})
)
def test_what_is_about_files_needs_no_kernel_and_starts_none(word: str, cli: Cli) -> None:
    (cli.root / "alice.jsonl").write_text(
        '{"of":"dm:alice","space":"dm:alice","at":"","version":""}\n{"part":"end","rows":{}}\n'
    )
    (cli.root / "memory-eval.json").write_text('{"conversations": []}')
    assert cli(word, *ARGUMENTS.get(word, [])).code == Exit.OK
    assert not list(cli.home.rglob("daemon.*"))


def test_every_refusal_has_the_exit_code_of_the_protocol() -> None:
    assert {code: of_failure(code) for code in REFUSALS} == {code: m.exit_code for code, m in REFUSALS.items()}
    assert {meaning.exit_code for meaning in REFUSALS.values()} <= set(Exit)


def test_a_refusal_we_do_not_know_is_judged_by_its_status() -> None:
    assert [of_failure("new_code", status) for status in (401, 404, 409, 503)] == [4, 5, 1, 69]


def test_two_commands_of_one_name_cannot_be() -> None:
    words = [*(command.word for command in COMMANDS), *ALIASES, *GROUPS]
    assert len(words) == len(set(words))


def test_the_page_of_commands_names_them_all() -> None:
    """docs/reference/commands.md is made from the table."""
    page = commands_page()
    for command in COMMANDS:
        assert f"\n### {command.word}\n" in page
    assert "| `--tag` |" in page
    assert "--instance" not in page
    assert not [word for word in ALIASES if f"# {word}\n" in page]


def test_a_word_that_is_no_command_is_told(cli: Cli) -> None:
    ran = cli("chanel")
    assert (ran.code, ran.out) == (2, "")
    assert "did you mean awk channel?" in ran.err


@pytest.mark.parametrize("word", ALIASES)
def test_an_alias_is_the_command_that_replaces_it(word: str, cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /agents"] = {"schema": "awk/agent-list/1", "agents": []}
    kernel.answers["GET /approvals"] = {"schema": "awk/approvals/1", "approvals": [], "next": None, "total": 0}
    for more in ([], ["--json"], ["--no-such"]):
        old, new = cli(word, *more), cli(*ALIASES[word], *more)
        assert (old.code, old.out, old.err) == (new.code, new.out, new.err)


def test_aliases_without_a_kernel_fail_as_before(cli: Cli) -> None:
    for words in (["ls"], ["list", "--json"], ["peek", "alice"], ["pending"]):
        assert cli(*words).code == Exit.NO_KERNEL
    assert list(cli.home.iterdir()) == []


def test_the_overview_is_short_and_help_of_a_group_explains_its_commands(
    cli: Cli, capsys: pytest.CaptureFixture[str]
) -> None:
    overview = cli("--help").out
    assert len(overview.splitlines()) <= 40
    words = set(overview.split())
    assert [command.word for command in COMMANDS if command.word not in words] == []
    for group, commands in GROUPS.items():
        shown = cli("help", *group.lower().split()).out.splitlines()
        assert shown == [f"{group}:", *(f"  {one.word:<11}{one.help}" for one in commands)]
    assert cli("help", "set-up").out == cli("help", "Set", "up").out
    assert cli("help", "new").code == 0
    assert "--ephemeral" in capsys.readouterr().out


_WORDS = st.sampled_from(
    ("--json", "--wait", "--all", "--yes", "--trust", "--jso", "-v", "-h", "--", "-", "--timeout", "5s", "--timeout=5s",
     "--tag", "--no-such", "-x1", "alice", "@review", "", "--project", "-m")
)  # fmt: skip


@every
@settings(max_examples=15)
@given(words=st.lists(_WORDS, max_size=4))
def test_words_that_are_read_without_argparse_mean_what_they_mean_to_argparse(
    command: Command, words: list[str]
) -> None:
    configure = command.load()[0]
    plain = plain_arguments(configure, words)
    if plain is not None:
        assert vars(plain) == vars(parser_for(command, "awk", configure).parse_args(words))


@pytest.mark.parametrize("words", [["ps", "--json"], ["status"], ["status", "alice", "--json"], ["send", "a", "b"]])
def test_plain_words_need_no_argparse(words: list[str]) -> None:
    assert plain_arguments(BY_WORD[words[0]].load()[0], words[1:]) is not None
