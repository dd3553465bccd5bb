"""Completion scripts for bash (from version 3.2 of macOS), zsh and fish.

bash splits words at ``:`` and ``=``, and before ``@``, all of which occur in targets. Therefore the script reads the
word from the line and returns only the part of a candidate after the last split. For zsh, each command is an
``_arguments`` call. For fish, each word, option and argument is a ``complete`` command.
"""

from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Final

from interface.cli.completion.spec import CommandSpec, Values

_FUNCTIONS: Final = r"""
_agent_worker_offer() {
    local candidate
    for candidate in "$@"; do
        case "$candidate" in "$word"*) COMPREPLY+=("${candidate#"$known"}") ;; esac
    done
}

_agent_worker_files() {
    local IFS=$'\n'
    compopt -o filenames 2>/dev/null
    _agent_worker_offer $(compgen -f -- "$word")
}

_agent_worker_from() {
    local kind=${1#*:}
    case "$1" in
        words:*) _agent_worker_offer $kind ;;
        live:*) _agent_worker_offer $("$program" _complete "$kind" 2>/dev/null </dev/null) ;;
        both:*) _agent_worker_offer $("$program" _complete "$kind" 2>/dev/null </dev/null); _agent_worker_files ;;
        files:) _agent_worker_files ;;
    esac
}

_agent_worker() {
    local line=${COMP_LINE:0:$COMP_POINT} word known breaks program key given many values index
    local -a before options arguments
    COMPREPLY=()
    word=${line##*[[:space:]]}
    read -ra before <<<"${line%"$word"}"
    program=${before[0]}
    breaks=${COMP_WORDBREAKS//[^@:=]/}
    known=
    [ -z "$breaks" ] || known=${word%"${word##*["$breaks"]}"}
    known=${known%@}
    if [ "${#before[@]}" -lt 2 ]; then
        _agent_worker_offer $_agent_worker_words
        return
    fi
    key=${before[1]}
    given=0
    index=2
    if _agent_worker_takes "$key ${before[2]}"; then
        key="$key ${before[2]}"
        index=3
    elif ! _agent_worker_takes "$key"; then
        return
    fi
    while [ "$index" -lt "${#before[@]}" ]; do
        case "${before[$index]}" in
            --) return ;;
            -*) _agent_worker_value "$key ${before[$index]}" && index=$((index + 1)) ;;
            *) given=$((given + 1)) ;;
        esac
        index=$((index + 1))
    done
    if [ "$index" -gt "${#before[@]}" ]; then
        _agent_worker_from "$values"
        return
    fi
    case "$word" in -*) _agent_worker_offer "${options[@]}"; return ;; esac
    [ "$given" -lt "${#arguments[@]}" ] || [ -z "$many" ] || given=$((${#arguments[@]} - 1))
    [ "$given" -ge "${#arguments[@]}" ] || _agent_worker_from "${arguments[$given]}"
}
"""


def bash_script(commands: Sequence[CommandSpec], programs: Sequence[str]) -> str:
    """Return the script for ``source <(agent-worker completion bash)``."""
    words = [command.path[0] for command in commands if len(command.path) == 1]
    takes: list[str] = []
    values: list[str] = []
    for command in commands:
        flags = " ".join(flag for option in command.options for flag in option.flags)
        sources = " ".join(quote(_source(one)) for one in command.arguments)
        many = "1" if command.many else ""
        path = " ".join(command.path)
        takes.append(f"        {quote(path)}) options=({flags}) arguments=({sources}) many={many} ;;")
        for option in command.options:
            if option.values is not None:
                keys = "|".join(quote(f"{path} {flag}") for flag in option.flags)
                values.append(f"        {keys}) values={quote(_source(option.values))} ;;")
    return "\n".join(
        [
            "# bash completion; in ~/.bashrc: source <(agent-worker completion bash)",
            f"_agent_worker_words={quote(' '.join(words))}",
            "",
            "_agent_worker_takes() {",
            '    case "$1" in',
            *takes,
            "        *) return 1 ;;",
            "    esac",
            "}",
            "",
            "_agent_worker_value() {",
            '    case "$1" in',
            *values,
            "        *) return 1 ;;",
            "    esac",
            "}",
            _FUNCTIONS.rstrip(),
            "",
            f"complete -o default -F _agent_worker {' '.join(programs)}",
            "",
        ]
    )


def _source(values: Values) -> str:
    if values.words:
        return f"words:{' '.join(values.words)}"
    if values.live:
        return f"{'both' if values.files else 'live'}:{values.live}"
    return "files:" if values.files else "none:"


_ZSH_HEAD: Final = r"""#compdef PROGRAMS
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
_ZSH_TAIL: Final = r"""
if [ "$funcstack[1]" = _agent_worker ]; then
    _agent_worker "$@"
else
    compdef _agent_worker PROGRAMS
fi
"""


def zsh_script(commands: Sequence[CommandSpec], programs: Sequence[str]) -> str:
    """Return the script for ``source <(agent-worker completion zsh)``."""
    named = " ".join(programs)
    first = [command for command in commands if len(command.path) == 1]
    return "\n".join(
        [
            _ZSH_HEAD.replace("PROGRAMS", named),
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
            _ZSH_TAIL.replace("PROGRAMS", named),
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
    margin = " " * indent
    specs: list[str] = []
    for option in command.options:
        told = option.help.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
        value = "" if option.values is None else f":value:{_zsh_action(option.values)}"
        specs += [quote(f"{flag}[{told}]{value}") for flag in option.flags]
    for number, values in enumerate(command.arguments, 1):
        place = "*" if command.many and number == len(command.arguments) else str(number)
        specs.append(quote(f"{place}:argument:{_zsh_action(values)}"))
    return [f"{margin}shift {words} words; (( CURRENT -= {words} ))", f"{margin}_arguments {' '.join(specs)}"]


def _zsh_action(values: Values) -> str:
    if values.words:
        return f"({' '.join(values.words)})"
    if values.live:
        return f" _agent_worker_{'both' if values.files else 'live'} {values.live}"
    return "_files" if values.files else " "


_FISH_HEAD: Final = r"""# fish completion; in ~/.config/fish/config.fish: agent-worker completion fish | source

function __agent_worker_live
    set -l words (commandline -opc)
    command $words[1] _complete $argv[1] 2>/dev/null </dev/null
end

# Whether the command line starts with these words.
function __agent_worker_at
    set -l words (commandline -opc)
    set -l last (math 1 + (count $argv))
    test (count $words) -ge $last; and test "$words[2..$last]" = "$argv"
end

# Whether argument FIRST to LAST of the command with this number of words is next.
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


def fish_script(commands: Sequence[CommandSpec], programs: Sequence[str]) -> str:
    """Return the script for ``agent-worker completion fish | source``."""
    lines = [line for program in programs for command in commands for line in _fish_command(command, program)]
    return "\n".join([_FISH_HEAD, *lines, ""])


def _fish_command(command: CommandSpec, program: str) -> Iterator[str]:
    head = f"complete -c {program}"
    *above, word = command.path
    at = f"__agent_worker_at {' '.join(command.path)}"
    first = f"__agent_worker_at {' '.join(above)}; and __agent_worker_turn {len(above)} 0 0" if above else ""
    first = first or "__agent_worker_turn 0 0 0"
    yield f"{head} -n {_fish_quote(first)} -f -a {_fish_quote(word)} -d {_fish_quote(command.help)}"
    for option in command.options:
        flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
        value = "" if option.values is None else f" -r {_fish_source(option.values)}"
        yield f"{head} -n {_fish_quote(at)} {flags} -d {_fish_quote(option.help)}{value}"
    for number, values in enumerate(command.arguments):
        if command.verbs:  # each of them is listed as a command above
            continue
        last = _MANY if command.many and number == len(command.arguments) - 1 else number
        turn = f"{at}; and __agent_worker_turn {len(command.path)} {number} {last}"
        yield f"{head} -n {_fish_quote(turn)} {_fish_source(values)}"


def _fish_source(values: Values) -> str:
    if values.words:
        return f"-f -a {_fish_quote(' '.join(values.words))}"
    if values.live:
        return f"-{'F' if values.files else 'f'} -a {_fish_quote(f'(__agent_worker_live {values.live})')}"
    return "-F" if values.files else "-f"


def _fish_quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
