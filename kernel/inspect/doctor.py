"""``doctor``: what keeps agents from working here, or will, each with a way out. Looks, and changes nothing.

A table of checks, each over what one look at the machine and the project found. What is in order has a row too, so that
one sees what was looked at. Programs are asked for their versions by keepers of this process, as a kernel asks them.
"""

import os
import re
import resource
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Final

import msgspec
import trio

from kernel.agents.backends import probe_backends
from kernel.agents.environment import find_bubblewrap, home_fault, worker_environment
from kernel.agents.trust import TrustStore
from kernel.inspect.agents import PartialCatalog
from kernel.inspect.collector import collector_rows
from kernel.inspect.programs import open_launcher, program_rows
from kernel.inspect.standby import standby_rows
from kernel.inspect.validate import validate
from kernel.procs.command import VersionProbes
from kernel.procs.limits import limits_fault
from kernel.source.safe_paths import parents_fault
from kernel.store.checkup import Checkup, check_database
from kernel.store.database import saved_notice
from protocol.api.kernel import BackendRow
from protocol.discovery import DATABASE, RUN
from protocol.inspection import CheckedFile, DoctorReport, DoctorRow
from protocol.trust import TRUST

GIT_NEEDED: Final = (2, 38)
BUBBLEWRAP_NEEDED: Final = (0, 8)
DISK_BYTES: Final = 1024**3
DISK_FILES: Final = 10_000
OPEN_FILES: Final = 1024
CLOCK_SECONDS: Final = 60.0
"""A clock that is so far behind the log was put back."""
LOCK_SECONDS: Final = 600.0
"""A lock of git's that is so old is one that a killed git left."""
_NUMBERS: Final = re.compile(r"\d+(?:\.\d+)+")
_NO_NAMESPACES: Final = {
    "kernel/unprivileged_userns_clone": "0",
    "user/max_user_namespaces": "0",
    "kernel/apparmor_restrict_unprivileged_userns": "1",
}
"""Settings of Linux, below /proc/sys, and the value with which no program may confine another."""
_STEERING: Final = ("LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME")
"""Variables that change what the kernel loads."""


class ProgramOnPath(msgspec.Struct, frozen=True):
    """A program on PATH, as it says itself; ``path`` None: it is not there."""

    path: str | None
    version: str = ""
    fault: str | None = None

    @property
    def number(self) -> tuple[int, ...]:
        """Its version as numbers; none where it said none."""
        found = _NUMBERS.search(self.version)
        return tuple(map(int, found[0].split("."))) if found else ()


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of one look. ``state`` is the project's directory of state; ``runs``: a kernel of it is up."""

    root: Path
    state: Path
    environ: Mapping[str, str]
    runs: bool
    now: float
    """Seconds since 1970."""
    files: tuple[CheckedFile, ...]
    used: frozenset[str]
    """Backends that agents of the project ask for."""
    confined: tuple[str, ...]
    """Agents that are to be run in a sandbox."""
    backends: tuple[BackendRow, ...]
    git: ProgramOnPath
    bubblewrap: ProgramOnPath
    database: Checkup | None
    """None: there is none yet, or a kernel has it open."""
    programs: tuple[DoctorRow, ...] = ()
    """Those that files of agents name."""
    collector: tuple[DoctorRow, ...] = ()
    """Nothing where the project names none."""
    standby: tuple[DoctorRow, ...] = ()
    """As that."""


Check = Callable[[Findings], Iterator[DoctorRow]]


def fine(check: str, detail: str) -> DoctorRow:
    """The row of what is in order."""
    return DoctorRow(check=check, ok=True, detail=detail)


def fault(check: str, detail: str, fix: str) -> DoctorRow:
    """The row of what is not."""
    return DoctorRow(check=check, ok=False, detail=detail, fix=fix)


def python(found: Findings) -> Iterator[DoctorRow]:
    """Our interpreter, and variables that would have it load something else."""
    yield fine("python", f"{sys.version.partition(' ')[0]} at {sys.executable}")
    for name in _STEERING:
        if found.environ.get(name):
            yield fault("python", f"{name} is set to {found.environ[name][:100]}", f"unset {name}")


def commands(found: Findings) -> Iterator[DoctorRow]:
    """The commands of this installation are those that a shell finds."""
    ours = os.path.dirname(sys.executable)
    for word in ("agent-worker", "awk"):
        seen = shutil.which(word, path=found.environ.get("PATH", ""))
        if seen is not None and os.path.realpath(os.path.dirname(seen)) == os.path.realpath(ours):
            yield fine("commands", f"{word} is {seen}")
        elif os.path.exists(os.path.join(ours, word)):
            told = "is not on PATH" if seen is None else f"is {seen}, another program"
            yield fault("commands", f"{word} {told}", f"put {ours} first in PATH")


def git(found: Findings) -> Iterator[DoctorRow]:
    """git, and the repository of the project."""
    program = found.git
    needed = ".".join(map(str, GIT_NEEDED))
    if program.path is None:
        yield fault("git", "git is not on PATH: no working trees, no merges", f"install git {needed} or newer")
        return
    if program.fault is not None:
        yield fault("git", f"{program.path} does not run: {program.fault}", "install git anew")
    elif program.number < GIT_NEEDED:
        yield fault("git", f"{program.path} is {program.version}", f"install git {needed} or newer")
    else:
        yield fine("git", f"{program.version} at {program.path}")
    folder = next((place for place in (found.root, *found.root.parents) if (place / ".git").exists()), None)
    if folder is None:
        return
    owner = os.lstat(folder).st_uid
    if owner not in (os.geteuid(), 0):
        yield fault("git", f"{folder} belongs to user {owner}, and git refuses it", f"chown -R {os.geteuid()} {folder}")
    lock = folder / ".git" / "index.lock"
    if lock.exists() and found.now - lock.lstat().st_mtime > LOCK_SECONDS:
        yield fault("git", f"{lock} is old: a git that was killed left it", f"once no git is at work: rm {lock}")


def sandbox(found: Findings) -> Iterator[DoctorRow]:
    """bubblewrap works here, where agents are to be confined."""
    who = ", ".join(found.confined[:3])
    program = found.bubblewrap
    needed = ".".join(map(str, BUBBLEWRAP_NEEDED))
    if not found.confined:
        yield fine("sandbox", "no agent asks for one" if program.path is None else f"{program.path}; no agent asks")
    elif program.path is None:
        yield fault("sandbox", f"bwrap is not on PATH, and {who} asks for it", f"install bubblewrap {needed} or newer")
    elif program.fault is not None or program.number < BUBBLEWRAP_NEEDED:
        said = program.fault or program.version
        yield fault("sandbox", f"{program.path}: {said}", f"install bubblewrap {needed} or newer")
    else:
        yield fine("sandbox", f"{program.version} at {program.path}")
    open_home = home_fault(found.root, found.environ) if found.confined else None
    if open_home is not None:
        yield fault("sandbox", open_home, "move the project into a folder of its own")
    for name, closed in _NO_NAMESPACES.items():
        try:
            value = Path("/proc/sys", name).read_text("ascii").strip()
        except OSError:
            continue  # a setting that this Linux does not have
        if found.confined and value == closed and os.geteuid() != 0:
            yield fault("sandbox", f"/proc/sys/{name} is {value}", f"as root: sysctl -w {name.replace('/', '.')}=...")


def files(found: Findings) -> Iterator[DoctorRow]:
    """The files of the project: mistakes, and what this machine lacks for what they say (keys, logins, servers)."""
    for file in found.files:
        for mistake in file.errors:
            at = f"{mistake.path}:{mistake.line}: {mistake.where} {mistake.message}".replace("  ", " ")
            yield fault("files", at, mistake.hint or "awk validate shows the place")
        for warning in file.warnings:
            at = f"{warning.path}:{warning.line}: {warning.message}"
            yield fault("files", at, warning.hint or "awk validate shows the place")
    if found.files and all(file.ok and not file.warnings for file in found.files):
        yield fine("files", f"{len(found.files)} files of the project are right")
    if not found.files:
        yield fine("files", "the project has no files of ours yet: awk init writes some")


def backends(found: Findings) -> Iterator[DoctorRow]:
    """The programs that agents are run with."""
    for row in found.backends:
        if row.name in found.used and not row.available:
            yield fault("backends", f"{row.name}: {row.missing}", "install it, or give its agents another backend")
        elif row.available and row.path is not None:
            tested = f", tested with {row.tested}" if row.tested not in (None, row.version) else ""
            yield fine("backends", f"{row.name} {row.version} at {row.path}{tested}")
    yield from found.programs
    if not any(row.path for row in found.backends):
        yield fine("backends", "no CLI of another vendor is installed: sdk, mock and exec need none")


def state(found: Findings) -> Iterator[DoctorRow]:
    """The directory of state is ours, private, and can be written."""
    place = found.state
    while not os.path.lexists(place):
        place = place.parent
    info = os.lstat(place)
    exists = place == found.state
    if not stat.S_ISDIR(info.st_mode):
        yield fault("state", f"{place} is not a directory", "move it away, or set AGENT_WORKER_HOME")
    elif exists and info.st_uid != os.geteuid():
        yield fault("state", f"{place} belongs to user {info.st_uid}", "set AGENT_WORKER_HOME to a directory of yours")
    elif exists and info.st_mode & 0o077:
        yield fault("state", f"{place} is open to others (mode {info.st_mode & 0o777:04o})", f"chmod 700 {place}")
    elif not os.access(place, os.W_OK | os.X_OK):
        yield fault("state", f"{place} cannot be written", f"chmod u+rwx {place}, or set AGENT_WORKER_HOME")
    else:
        yield fine("state", str(found.state))
    if (unsafe := parents_fault(str(found.state))) is not None:
        told, _, fix = unsafe.partition("; ")
        yield fault("state", told, fix)
    if found.state.resolve().is_relative_to(found.root.resolve()):
        fix = "set AGENT_WORKER_HOME to a place outside"
        yield fault("state", f"{found.state} lies in the project, where agents can write", fix)
    trusted = found.state / TRUST
    if trusted.exists():
        kept = trusted.lstat()
        if kept.st_mode & 0o077 or kept.st_uid != os.geteuid() or not stat.S_ISREG(kept.st_mode):
            yield fault("state", f"{trusted} is not private, so nothing in it is trusted", f"chmod 600 {trusted}")


def database(found: Findings) -> Iterator[DoctorRow]:
    """The log can be opened by this program, and is whole."""
    path = found.state / DATABASE
    checked = found.database
    if checked is None:
        yield fine("database", "the kernel has it open" if found.runs else "there is none yet")
    elif checked.fault is not None:
        yield fault("database", f"{path}: {checked.fault}", "restore it from a backup, or move it away to start anew")
    elif checked.schema > checked.newest:
        told = f"{path} has schema {checked.schema}, newer than this program's {checked.newest}"
        yield fault("database", told, "upgrade agent-worker")
    else:
        yield fine("database", f"schema {checked.schema} of {checked.newest}")
    notice = saved_notice(str(path))
    if notice is not None:
        yield fault("database", notice, "look at it, then move it to where it is used, or delete it")


def clock(found: Findings) -> Iterator[DoctorRow]:
    """The clock is not behind what the log says."""
    behind = 0.0 if found.database is None else found.database.latest_ms / 1000 - found.now
    if behind > CLOCK_SECONDS:
        yield fault("clock", f"it is {behind:.0f} s behind the newest event of the log", "set the clock, e.g. by NTP")
    else:
        yield fine("clock", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(found.now)))


def disk(found: Findings) -> Iterator[DoctorRow]:
    """There is room where the state, the project and temporary files are."""
    told: set[int] = set()
    for name, wanted in (("state", found.state), ("project", found.root), ("TMPDIR", Path(gettempdir()))):
        place = wanted
        while not place.exists():
            place = place.parent
        device, room = place.stat().st_dev, os.statvfs(place)
        free_bytes = room.f_bavail * room.f_frsize
        if not os.access(place, os.W_OK):
            yield fault("disk", f"{place} ({name}) cannot be written", f"make it writable to user {os.geteuid()}")
        elif device in told:
            continue
        elif free_bytes < DISK_BYTES:
            yield fault(
                "disk", f"{free_bytes // 1024**2} MiB are left at {place} ({name})", "make room: awk worktree prune"
            )
        elif room.f_files and room.f_favail < DISK_FILES:
            yield fault(
                "disk", f"{room.f_favail} files can still be made at {place} ({name})", "remove small files there"
            )
        else:
            yield fine("disk", f"{free_bytes / 1024**3:.1f} GiB are left at {place} ({name})")
        told.add(device)


def limits(_found: Findings) -> Iterator[DoctorRow]:
    """The limits of this user let a kernel have its connections and workers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < OPEN_FILES:
        fix = (
            f"ulimit -n {OPEN_FILES}"
            if hard == resource.RLIM_INFINITY or hard >= OPEN_FILES
            else "raise nofile in limits.conf"
        )
        yield fault("limits", f"a process may open {soft} files", fix)
    elif (too_low := limits_fault()) is not None:
        yield fault("limits", too_low, "raise nproc in limits.conf")
    else:
        yield fine("limits", f"a process may open {soft} files")


def environment(found: Findings) -> Iterator[DoctorRow]:
    """Variables that steer clients and trust say what they should."""
    environ = found.environ
    if environ.get("AGENT_WORKER_TRUST") == "1":
        yield fine("environment", "AGENT_WORKER_TRUST=1 grants all demands of files; awk trust grants them one by one")
    if environ.get("AGENT_WORKER_URL") and not environ.get("AGENT_WORKER_TOKEN"):
        yield fault(
            "environment",
            "AGENT_WORKER_URL is set and AGENT_WORKER_TOKEN is not",
            "on this machine neither is needed: unset both",
        )
    home = environ.get("HOME", "")
    if not home or not os.path.isdir(home):
        yield fault("environment", f"HOME is {home or 'not set'}, which is no directory", "set HOME to yours")
    else:
        yield fine("environment", f"HOME is {home}")


def leftovers(found: Findings) -> Iterator[DoctorRow]:
    """Nothing is left of a kernel that was killed."""
    place = found.state / RUN
    left = sorted(os.listdir(place)) if place.is_dir() and not found.runs else []
    if left:
        told = f"{len(left)} attempts of a kernel that died are not cleared away"
        yield fault("leftovers", told, "awk start: the next kernel ends what still runs of them")
    else:
        yield fine("leftovers", "nothing of a killed kernel")


def traces(found: Findings) -> Iterator[DoctorRow]:
    """Spans would reach their collector."""
    yield from found.collector or (fine("traces", "the project names no collector of spans"),)


def standby(found: Findings) -> Iterator[DoctorRow]:
    """The log can be copied to another place."""
    yield from found.standby or (fine("standby", "the project asks for no copy of its log elsewhere"),)


CHECKS: Final[tuple[Check, ...]] = (
    python, commands, environment, git, sandbox, files, backends, state, database, clock, disk, limits, leftovers,
    traces, standby,
)  # fmt: skip


def examine(found: Findings) -> DoctorReport:
    """All rows of all checks."""
    return DoctorReport(rows=tuple(row for check in CHECKS for row in check(found)))


def doctor(root: Path, state_dir: Path, environ: Mapping[str, str], *, now: float, runs: bool) -> DoctorReport:
    """Look at the machine and at the project at ``root``. Blocks for as long as programs take to say their versions."""
    env = worker_environment(environ, own_bin=frozenset({os.path.dirname(sys.executable)}))
    git_program, bubblewrap, probed = trio.run(_programs, env, environ)
    catalog = PartialCatalog(root)
    loaded = [one.definition for one in catalog.survey().loaded]
    kept = TrustStore(str(state_dir), str(root))
    otel, copied = catalog.project().otel, catalog.project().standby
    path = state_dir / DATABASE
    return examine(
        Findings(
            root=root,
            state=state_dir,
            environ=environ,
            runs=runs,
            now=now,
            files=validate(root, root, (), environ, kept).files,
            used=frozenset(one.backend for one in loaded),
            programs=tuple(program_rows(loaded, root, env["PATH"])),
            confined=tuple(sorted(one.name for one in loaded if one.sandbox == "on")),
            backends=probed,
            git=git_program,
            bubblewrap=bubblewrap,
            database=None if runs or not path.exists() else check_database(str(path)),
            collector=() if otel is None else tuple(collector_rows(otel, environ, kept)),
            standby=() if copied is None else tuple(standby_rows(copied, state_dir, environ, kept, now)),
        )
    )


async def _programs(
    env: dict[str, str], environ: Mapping[str, str]
) -> tuple[ProgramOnPath, ProgramOnPath, tuple[BackendRow, ...]]:
    with TemporaryDirectory(prefix="agent-worker-") as folder:
        async with open_launcher(Path(folder), env) as launcher:
            probes = VersionProbes(launcher, Path(folder))

            async def asked(path: str | None) -> ProgramOnPath:
                if path is None:
                    return ProgramOnPath(None)
                said = await probes.ask(path, "--version", env)
                return ProgramOnPath(path, said.text.partition("\n")[0][:80], said.fault)

            git_program = await asked(shutil.which("git", path=env["PATH"]))
            bubblewrap = await asked(find_bubblewrap(environ))
            return git_program, bubblewrap, await probe_backends(env, probes.ask)
