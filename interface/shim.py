"""Entry point of ``awk`` and ``agent-worker``: ours, or the system awk's?

Under the name ``awk`` we stand before a POSIX tool that scripts rely on, so what is not ours is exec'ed as the
next awk on PATH: same pid, stdin, environment and exit code. Until it knows that the words are ours it imports
os and sys only (contracts.md section 7).
"""

import os
import sys

NAME = "awk"
SEEN = "AGENT_WORKER_AWK_SEEN"
"""``<pid>:<path>:...``: scripts this very process was already handed to, so that wrappers cannot bounce us for ever."""

WORDS = frozenset(
    {
        "start", "stop", "status", "run", "send", "ask", "serve", "peek", "channel", "queue", "dead", "show",
        "restart", "reset", "pause", "resume", "continue", "cancel", "retry", "promote", "inbox", "clear",
        "new", "ls", "list", "ps", "top", "logs", "events", "providers", "backends", "init", "version",
        "validate", "config", "schema", "completion", "_complete", "agent", "trust",
        "tool", "skills", "feedback", "pending", "approve", "deny", "diff", "proposal", "runs", "stats",
    }
)  # fmt: skip
"""Our command words, literally: reading the table they are equal to would cost every pass-through its imports."""

AWK_WORDS = frozenset({"length", "getline", "rand", "srand", "systime"})
"""What awk itself understands as a whole program."""

NOT_FOUND = 127
INTERRUPTED = 130


def main() -> int:
    """Run our command line, or become the system awk. Returns an exit code."""
    own, words = sys.argv[0], sys.argv[1:]
    shim = os.path.basename(own) == NAME
    if shim and not is_ours(words):
        return become_awk(own, words)
    try:
        from interface.cli.main import main as ours  # noqa: PLC0415  (only now do we know that the words are ours)

        return ours(words, (lambda: system_awks(own)) if shim else None)
    except KeyboardInterrupt:  # a Ctrl-C while our modules are being read
        return INTERRUPTED


def is_ours(words: list[str]) -> bool:
    """Whether ``words`` are for us: none, help, a command of ours, or a bare word that can only be a typo of one."""
    return not words or words[0] in {"-h", "--help"} or words[0] in WORDS or is_bare(words[0])


def is_bare(word: str) -> bool:
    """Whether ``word`` looks like a command and does nothing as an awk program.

    To awk it is an unset variable, or a difference of some: false, prints nothing. So a typo may be told.
    """
    parts = word.split("-")
    return all(p.isascii() and p.islower() and p.isidentifier() and p[0] != "_" for p in parts) and not (
        AWK_WORDS & set(parts)
    )


def become_awk(own: str, words: list[str]) -> int:
    """Exec the next awk on PATH that is not ours. Returns (with 127) only where there is none."""
    _undo_interpreter()
    seen = _seen_by_this_process()
    for candidate in system_awks(own):
        path = os.path.realpath(candidate)
        if path in seen:
            continue
        if _head(candidate).startswith(b"#!"):
            os.environ[SEEN] = os.pathsep.join([str(os.getpid()), *seen, path])
        try:
            os.execv(candidate, [NAME, *words])
        except OSError:
            continue
    sys.stderr.write(
        f"awk: no system awk on PATH to hand this to, and {words[0]!r} is no command of agent-worker\n"
        "  hint: install awk (mawk, gawk or busybox), or see awk --help\n"
    )
    return NOT_FOUND


def system_awks(own: str) -> list[str]:
    """Every awk on PATH that is no shim of ours: first those behind ``own``, the file we run from, then the rest."""
    found: list[str] = []
    place = 0
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        candidate = os.path.join(directory or os.curdir, NAME)
        if not os.path.isfile(candidate) or not os.access(candidate, os.X_OK):
            continue
        if os.path.exists(own) and os.path.samefile(candidate, own):
            place = place or len(found)
        elif b"interface.shim" not in _head(candidate):
            found.append(candidate)
    return found[place:] + found[:place]


def _seen_by_this_process() -> list[str]:
    pid, *paths = os.environ.pop(SEEN, "").split(os.pathsep)
    return paths if pid == str(os.getpid()) else []


def _head(path: str) -> bytes:
    """The first bytes of ``path``: a console script of ours names this module in them."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 1024)
    finally:
        os.close(descriptor)


def _undo_interpreter() -> None:
    """Take back what Python did to this process at start and exec would pass on.

    Ignored signals stay ignored across exec: ``awk ... | head`` would report a write error instead of dying quietly.
    And in the C locale Python sets LC_CTYPE (PEP 538), which would change what awk calls a character.
    """
    signals = sys.modules["_signal"]  # the interpreter has loaded it; the module signal around it would cost 4 ms
    for name in ("SIGPIPE", "SIGXFSZ"):
        if hasattr(signals, name):
            signals.signal(getattr(signals, name), signals.SIG_DFL)
    coerced = sys.flags.utf8_mode and "PYTHONUTF8" not in os.environ
    if coerced and os.environ.get("LC_CTYPE") in {"C.UTF-8", "C.utf8", "UTF-8"}:
        del os.environ["LC_CTYPE"]
