#!/bin/sh
# The command awk. It passes commands of agent-worker to the script of that name beside this one, and replaces itself with
# the system's awk for everything else (same process, input, environment and exit code). Scripts call awk in loops and pass
# variables by name, so this path starts no other program, needs no Python, and sets only variables with a prefix of ours.

_awk_own=$0
case $_awk_own in */*) ;; *) _awk_own=./$0 ;; esac

# find_awk: sets _awk_found to the next awk on PATH that is not ours: one after this script, else one before it.
# An awk in the same folder as an agent-worker is ours.
find_awk() {
    _awk_found=''
    _awk_behind=''
    _awk_rest=$PATH:
    while [ "$_awk_rest" ]; do
        _awk_here=${_awk_rest%%:*}
        _awk_rest=${_awk_rest#*:}
        _awk_here=${_awk_here:-.}/awk
        if [ ! -x "$_awk_here" ] || [ -d "$_awk_here" ]; then
            continue
        elif [ "$_awk_here" -ef "$_awk_own" ]; then
            _awk_behind=yes
        elif [ -e "${_awk_here%/awk}/agent-worker" ]; then
            continue
        elif [ "$_awk_behind" ] || [ ! "$_awk_found" ]; then
            case :$_awk_seen: in *:"$_awk_here":*) continue ;; esac
            _awk_found=$_awk_here
            [ ! "$_awk_behind" ] || return 0
        fi
    done
}

# become_awk WORD...: replaces this process with that awk. An awk outside the system folders may be a script that calls this
# one again, so the environment lists those that this process was already passed to.
become_awk() {
    case ${AGENT_WORKER_AWK_SEEN-} in $$:*) _awk_seen=${AGENT_WORKER_AWK_SEEN#*:} ;; *) _awk_seen='' ;; esac
    unset AGENT_WORKER_AWK_SEEN
    find_awk
    case $_awk_found in
        '')
            echo "awk: no system awk on PATH to hand this to, and '$1' is no command of agent-worker" >&2
            echo "  hint: install awk (mawk, gawk or busybox), or see awk --help" >&2
            exit 127
            ;;
        /usr/bin/awk | /bin/awk) ;;
        *) export AGENT_WORKER_AWK_SEEN="$$:$_awk_seen:$_awk_found" ;;
    esac
    exec "$_awk_found" "$@"
}

# Most awk programs contain a character that no command of ours has; they need no further check.
case ${1-} in
    -h | --help | --version | --json | --jsonl | --project | --project=*) ;;
    -* | *[!abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-]*) become_awk "$@" ;;
esac

# is_ours WORD...: true without words, and for a command, an option that no awk has, or a misspelled command.
is_ours() {
    [ $# -gt 0 ] || return 0
    case $1 in
        -h | --help | --json | --jsonl | --project | --project=*) return 0 ;;
        --version) [ $# -eq 1 ]; return ;;
        # commands
        run | send | ask | serve | call | start | stop | status | restart | reset | pause | resume | continue | unblock | approve) return 0 ;;
        deny | answer | grant | rule | proposal | task | doc | cancel | retry | clear | prune | merge | promote | ps | top | attach | ls | list) return 0 ;;
        reassign | space | node | webhook | projects | service | upgrade | backup | restore | standby | df | open) return 0 ;;
        peek | channel | inbox | queue | resource | needs | pending | audit | feedback | stats | dead | doctor | runs | show | export | wait | watch) return 0 ;;
        import | diff | worktree | logs | events | new | agent | memory | tool | worker | skills | init | adopt | validate | config) return 0 ;;
        schema | completion | trust | token | mcp-serve | providers | backends | version) return 0 ;;
        help | _complete) return 0 ;;
        # end of commands
    esac
    is_slip "$@"
}

# is_slip WORD...: true for a word that is probably a misspelled command. To awk, a bare word is an unset variable (words with
# hyphens are a difference of such): a program that does nothing. False if awk knows the word or an operand assigns it.
# awk's own variables are in capitals. The letters are listed because the meaning of a-z depends on the locale.
is_slip() {
    case $1 in
        *[!abcdefghijklmnopqrstuvwxyz0123456789_-]*)
            case ${1#[ABCDEFGHIJKLMNOPQRSTUVWXYZ]} in '' | *[!abcdefghijklmnopqrstuvwxyz]*) return 1 ;; esac ;;
    esac
    case -$1- in
        *-[0123456789_-]*) return 1 ;;
        *-length-* | *-getline-* | *-rand-* | *-srand-* | *-systime-* | *-int-* | *-sqrt-* | *-exp-* | *-log-*) return 1 ;;
        *-sin-* | *-cos-* | *-atan2-* | *-toupper-* | *-tolower-* | *-system-* | *-fflush-*) return 1 ;;
    esac
    _awk_word=$1
    shift
    for _awk_operand; do
        case $_awk_operand in
            *=*) case -$_awk_word- in *-"${_awk_operand%%=*}"-*) return 1 ;; esac ;;
        esac
    done
}

if is_ours "$@"; then
    _awk_seen=''
    find_awk
    _awk_bin=$_awk_own
    while [ -h "$_awk_bin" ]; do
        _awk_link=$(readlink "$_awk_bin")
        case $_awk_link in /*) _awk_bin=$_awk_link ;; *) _awk_bin=${_awk_bin%/*}/$_awk_link ;; esac
    done
    # Scripts search this output for the name of the system's awk, so its version follows ours.
    case $#${1-}$_awk_found in
        1--version/usr/bin/awk | 1--version/bin/awk)
            (. "${_awk_bin%/*}/agent-worker") || exit
            "$_awk_found" --version </dev/null 2>/dev/null
            exit 0 ;;
    esac
    . "${_awk_bin%/*}/agent-worker"
fi
become_awk "$@"
