"""The script for bash, from the 3.2 of macOS on.

bash cuts words at ``:`` and ``=``, and before ``@``, of which targets are made: so the word is read off the line
itself, and of a candidate only what follows the last cut is given back.
"""

from collections.abc import Sequence
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


def script(commands: Sequence[CommandSpec], programs: Sequence[str]) -> str:
    """The text that ``source <(agent-worker completion bash)`` reads."""
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
