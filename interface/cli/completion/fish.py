"""The script for fish: one ``complete`` for each word, option and argument."""

from collections.abc import Iterator, Sequence
from typing import Final

from interface.cli.completion.spec import CommandSpec, Values

_HEAD: Final = r"""# fish completion; in ~/.config/fish/config.fish: agent-worker completion fish | source

function __agent_worker_live
    set -l words (commandline -opc)
    command $words[1] _complete $argv[1] 2>/dev/null </dev/null
end

# Whether the words so far begin with these.
function __agent_worker_at
    set -l words (commandline -opc)
    set -l last (math 1 + (count $argv))
    test (count $words) -ge $last; and test "$words[2..$last]" = "$argv"
end

# Whether it is the turn of argument FIRST to LAST of the command of so many words.
function __agent_worker_turn
    set -l seen 0
    set -l given 0
    for word in (commandline -opc)
        set seen (math $seen + 1)
        test $seen -le (math $argv[1] + 1); or string match -q -- '-*' $word; or set given (math $given + 1)
    end
    test $seen -gt $argv[1]; and test $given -ge $argv[2]; and test $given -le $argv[3]
end
"""
_MANY: Final = 1000


def script(commands: Sequence[CommandSpec], programs: Sequence[str]) -> str:
    """The text that ``agent-worker completion fish | source`` reads."""
    lines = [line for program in programs for command in commands for line in _command(command, program)]
    return "\n".join([_HEAD, *lines, ""])


def _command(command: CommandSpec, program: str) -> Iterator[str]:
    head = f"complete -c {program}"
    *above, word = command.path
    at = f"__agent_worker_at {' '.join(command.path)}"
    first = f"__agent_worker_at {' '.join(above)}; and __agent_worker_turn {len(above)} 0 0" if above else ""
    first = first or "__agent_worker_turn 0 0 0"
    yield f"{head} -n {_quote(first)} -f -a {_quote(word)} -d {_quote(command.help)}"
    for option in command.options:
        flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
        value = "" if option.values is None else f" -r {_source(option.values)}"
        yield f"{head} -n {_quote(at)} {flags} -d {_quote(option.help)}{value}"
    for number, values in enumerate(command.arguments):
        if command.verbs:  # each of them is a command of its own above
            continue
        last = _MANY if command.many and number == len(command.arguments) - 1 else number
        turn = f"{at}; and __agent_worker_turn {len(command.path)} {number} {last}"
        yield f"{head} -n {_quote(turn)} {_source(values)}"


def _source(values: Values) -> str:
    if values.words:
        return f"-f -a {_quote(' '.join(values.words))}"
    if values.live:
        return f"-{'F' if values.files else 'f'} -a {_quote(f'(__agent_worker_live {values.live})')}"
    return "-F" if values.files else "-f"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
