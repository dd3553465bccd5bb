"""The script for zsh: one ``_arguments`` call for each command."""

from collections.abc import Sequence
from shlex import quote
from typing import Final

from interface.cli.completion.spec import CommandSpec, Values

_HEAD: Final = r"""#compdef PROGRAMS
# zsh completion; in ~/.zshrc, after compinit: source <(agent-worker completion zsh)

_agent_worker_live() {
    local -a found
    found=(${(f)"$($_agent_worker_program _complete $1 2>/dev/null </dev/null)"})
    compadd -a found
}

_agent_worker_both() {
    _agent_worker_live $1
    _files
}
"""
_TAIL: Final = r"""
if [ "$funcstack[1]" = _agent_worker ]; then
    _agent_worker "$@"
else
    compdef _agent_worker PROGRAMS
fi
"""


def script(commands: Sequence[CommandSpec], programs: Sequence[str]) -> str:
    """The text that ``source <(agent-worker completion zsh)`` reads."""
    named = " ".join(programs)
    first = [command for command in commands if len(command.path) == 1]
    return "\n".join(
        [
            _HEAD.replace("PROGRAMS", named),
            "_agent_worker() {",
            "    local _agent_worker_program=$words[1]",
            "    local -a choices",
            "    if (( CURRENT == 2 )); then",
            *_describe(first, "command", 8),
            "        return",
            "    fi",
            '    case "$words[2]" in',
            *(line for command in first for line in _case(command, commands)),
            "        *) if [[ $service == awk ]]; then _awk; else _default; fi ;;",
            "    esac",
            "}",
            _TAIL.replace("PROGRAMS", named),
        ]
    )


def _case(command: CommandSpec, commands: Sequence[CommandSpec]) -> list[str]:
    below = [one for one in commands if len(one.path) == 2 and one.path[0] == command.path[0]]
    if not below:
        return [f"        {command.path[0]})", *_arguments(command, 1, 12), "            ;;"]
    return [
        f"        {command.path[0]})",
        "            if (( CURRENT == 3 )); then",
        *_describe(below, "verb", 16),
        "                return",
        "            fi",
        '            case "$words[3]" in',
        *(
            line
            for one in below
            for line in (f"                {one.path[1]})", *_arguments(one, 2, 20), "                    ;;")
        ),
        "            esac",
        "            ;;",
    ]


def _describe(commands: Sequence[CommandSpec], what: str, indent: int) -> list[str]:
    margin = " " * indent
    choices = [quote(f"{command.path[-1]}:{command.help}") for command in commands]
    return [f"{margin}choices=({' '.join(choices)})", f"{margin}_describe -t {what}s {what} choices"]


def _arguments(command: CommandSpec, words: int, indent: int) -> list[str]:
    """The command's words shifted away, so that arguments count from 1."""
    margin = " " * indent
    specs: list[str] = []
    for option in command.options:
        told = option.help.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
        value = "" if option.values is None else f":value:{_action(option.values)}"
        specs += [quote(f"{flag}[{told}]{value}") for flag in option.flags]
    for number, values in enumerate(command.arguments, 1):
        place = "*" if command.many and number == len(command.arguments) else str(number)
        specs.append(quote(f"{place}:argument:{_action(values)}"))
    return [f"{margin}shift {words} words; (( CURRENT -= {words} ))", f"{margin}_arguments {' '.join(specs)}"]


def _action(values: Values) -> str:
    if values.words:
        return f"({' '.join(values.words)})"
    if values.live:
        return f" _agent_worker_{'both' if values.files else 'live'} {values.live}"
    return "_files" if values.files else " "
