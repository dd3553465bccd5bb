#!/bin/sh
# The command agent-worker: starts our Python, isolated from the working directory and PYTHONPATH, where folders may have
# the names of our packages. The command awk sources this file too, after it has set _awk_own and _awk_found.

_awk_program=${_awk_own:+awk}
_awk_own=${_awk_own:-$0}
case $_awk_own in */*) ;; *) _awk_own=./$_awk_own ;; esac

# find_python: sets _awk_python and its options: the Python of the virtual environment that contains this file (links are
# followed), else the version that has our package, possibly in the user's site-packages.
find_python() {
    _awk_bin=$_awk_own
    while [ -h "$_awk_bin" ]; do
        _awk_link=$(readlink "$_awk_bin")
        case $_awk_link in /*) _awk_bin=$_awk_link ;; *) _awk_bin=${_awk_bin%/*}/$_awk_link ;; esac
    done
    _awk_bin=${_awk_bin%/*}
    _awk_options='-I'
    _awk_python=$_awk_bin/python
    [ ! -f "$_awk_bin/../pyvenv.cfg" ] || return 0
    _awk_options='-E -P'
    for _awk_package in "$_awk_bin"/../lib/python3.*/*-packages/agent_worker_supervisor-*.dist-info; do
        _awk_python=${_awk_package%/*-packages/*}
        _awk_python=${_awk_python##*/}
        if [ -x "$_awk_bin/$_awk_python" ]; then
            _awk_python=$_awk_bin/$_awk_python
        else
            _awk_python=$(command -v "$_awk_python") || continue
        fi
        return 0
    done
}

trap 'exit 130' INT
find_python
if [ ! -x "$_awk_python" ]; then
    echo "error: the Python that agent-worker was installed with is gone: $_awk_python" >&2
    echo "  hint: install agent-worker again; awk programs go to the system's awk as before" >&2
    exit 127
fi
# If env supports it, Ctrl-C is blocked until Python has installed its handler.
if env --block-signal=INT true 2>/dev/null; then
    exec env --block-signal=INT "$_awk_python" $_awk_options -m interface "${_awk_program:-agent-worker}" "${_awk_found-}" "$@"
fi
exec "$_awk_python" $_awk_options -m interface "${_awk_program:-agent-worker}" "${_awk_found-}" "$@"
