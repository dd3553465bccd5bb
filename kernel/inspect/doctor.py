"""``doctor``: problems that prevent agents from working now or later, each with a fix. Changes nothing.

A table of checks over the findings about the machine and the project. Successful checks have a row too, so that the
user sees what was checked. Keepers of this process query versions of programs, as in a kernel.
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
from kernel.procs.process_limits import limits_fault
from kernel.source.safe_paths import parents_fault
from kernel.store.checkup import Checkup, check_database
from kernel.store.database import saved_notice
from protocol.api.kernel import BackendRow
from protocol.backends import BACKENDS
from protocol.discovery import DATABASE, RUN
from protocol.inspection import CheckedFile, DoctorReport, DoctorRow, fault, fine
from protocol.trust import TRUST

GIT_NEEDED: Final = (2, 38)
BUBBLEWRAP_NEEDED: Final = (0, 8)
DISK_BYTES: Final = 1024**3
DISK_FILES: Final = 10_000
OPEN_FILES: Final = 1024
CLOCK_SECONDS: Final = 60.0
"""Difference from the log at which the clock counts as set back."""
LOCK_SECONDS: Final = 600.0
"""Age at which a git lock counts as left behind by a killed git."""
_NUMBERS: Final = re.compile(r"\d+(?:\.\d+)+")
_NO_NAMESPACES: Final = {
    "kernel/unprivileged_userns_clone": "0",
    "user/max_user_namespaces": "0",
    "kernel/apparmor_restrict_unprivileged_userns": "1",
}
"""Linux settings below /proc/sys, with the value that forbids sandboxes for ordinary users."""
_STEERING: Final = ("LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME")
"""Variables that change what the kernel loads."""


class ProgramOnPath(msgspec.Struct, frozen=True):
    """A program on PATH with its version; ``path`` None if it is missing."""

    path: str | None
    version: str = ""
    fault: str | None = None

    @property
    def number(self) -> tuple[int, ...]:
        """Return the version as numbers, empty if unknown."""
        found = _NUMBERS.search(self.version)
        return tuple(map(int, found[0].split("."))) if found else ()


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """Findings about machine and project. ``runs``: whether the project's kernel is running."""

    root: Path
    state: Path
    environ: Mapping[str, str]
    runs: bool
    now: float
    """Seconds since 1970."""
    files: tuple[CheckedFile, ...]
    used: frozenset[str]
    """Backends that agents of the project use."""
    confined: tuple[str, ...]
    """Agents with a sandbox."""
    backends: tuple[BackendRow, ...]
    git: ProgramOnPath
    bubblewrap: ProgramOnPath
    database: Checkup | None
    """None if there is no database yet, or a kernel has it open."""
    programs: tuple[DoctorRow, ...] = ()
    """Programs named in agent files."""
    collector: tuple[DoctorRow, ...] = ()
    """Empty if the project has no collector."""
    standby: tuple[DoctorRow, ...] = ()
    """Empty if the project has no standby."""


Check = Callable[[Findings], Iterator[DoctorRow]]


def python(found: Findings) -> Iterator[DoctorRow]:
    """Check our interpreter, and variables that change what it loads."""
    yield fine("python", f"{sys.version.partition(' ')[0]} at {sys.executable}")
    for name in _STEERING:
        if found.environ.get(name):
            yield fault("python", f"{name} is set to {found.environ[name][:100]}", f"unset {name}")


def commands(found: Findings) -> Iterator[DoctorRow]:
    """Check that a shell finds the commands of this installation."""
    ours = os.path.dirname(sys.executable)
    for word in ("agent-worker", "awk"):
        seen = shutil.which(word, path=found.environ.get("PATH", ""))
        if seen is not None and os.path.realpath(os.path.dirname(seen)) == os.path.realpath(ours):
            yield fine("commands", f"{word} is {seen}")
        elif os.path.exists(os.path.join(ours, word)):
            told = "is not on the PATH" if seen is None else f"is {seen}, a different program"
            yield fault("commands", f"{word} {told}", f"put {ours} first in the PATH")


def git(found: Findings) -> Iterator[DoctorRow]:
    """Check git, and the repository of the project."""
    program = found.git
    needed = ".".join(map(str, GIT_NEEDED))
    if program.path is None:
        yield fault("git", "git is not on the PATH: no working trees, no merges", f"install git {needed} or newer")
        return
    if program.fault is not None:
        yield fault("git", f"{program.path} does not run: {program.fault}", "reinstall git")
    elif program.number < GIT_NEEDED:
        yield fault("git", f"{program.path} is {program.version}", f"install git {needed} or newer")
    else:
        yield fine("git", f"{program.version} at {program.path}")
    folder = next((place for place in (found.root, *found.root.parents) if (place / ".git").exists()), None)
    if folder is None:
        return
    owner = os.lstat(folder).st_uid
    if owner not in (os.geteuid(), 0):
        yield fault("git", f"{folder} belongs to user {owner}, so git refuses it", f"chown -R {os.geteuid()} {folder}")
    lock = folder / ".git" / "index.lock"
    if lock.exists() and found.now - lock.lstat().st_mtime > LOCK_SECONDS:
        yield fault("git", f"{lock} is old: a killed git process left it", f"if no git process is running: rm {lock}")


def sandbox(found: Findings) -> Iterator[DoctorRow]:
    """Check that bubblewrap works if agents need a sandbox."""
    who = ", ".join(found.confined[:3])
    program = found.bubblewrap
    needed = ".".join(map(str, BUBBLEWRAP_NEEDED))
    if not found.confined:
        yield fine("sandbox", "no agent needs one" if program.path is None else f"{program.path}; no agent needs it")
    elif program.path is None:
        yield fault("sandbox", f"bwrap is not on the PATH, but {who} needs it", f"install bubblewrap {needed} or newer")
    elif program.fault is not None or program.number < BUBBLEWRAP_NEEDED:
        said = program.fault or program.version
        yield fault("sandbox", f"{program.path}: {said}", f"install bubblewrap {needed} or newer")
    else:
        yield fine("sandbox", f"{program.version} at {program.path}")
    open_home = home_fault(found.root, found.environ) if found.confined else None
    if open_home is not None:
        yield fault("sandbox", open_home, "move the project into a separate folder")
    for name, closed in _NO_NAMESPACES.items():
        try:
            value = Path("/proc/sys", name).read_text("ascii").strip()
        except OSError:
            continue  # this Linux does not have the setting
        if found.confined and value == closed and os.geteuid() != 0:
            yield fault("sandbox", f"/proc/sys/{name} is {value}", f"as root: sysctl -w {name.replace('/', '.')}=...")


def files(found: Findings) -> Iterator[DoctorRow]:
    """Check the files of the project: errors, and missing requirements (keys, logins, servers)."""
    for file in found.files:
        for mistake in file.errors:
            at = f"{mistake.path}:{mistake.line}: {mistake.where} {mistake.message}".replace("  ", " ")
            yield fault("files", at, mistake.hint or "run awk validate to see the location")
        for warning in file.warnings:
            at = f"{warning.path}:{warning.line}: {warning.message}"
            yield fault("files", at, warning.hint or "run awk validate to see the location")
    if found.files and all(file.ok and not file.warnings for file in found.files):
        yield fine("files", f"{len(found.files)} files of the project are valid")
    if not found.files:
        yield fine("files", "the project has no agent files yet: awk init creates some")


def backends(found: Findings) -> Iterator[DoctorRow]:
    """Check the programs of backends."""
    for row in found.backends:
        if row.name in found.used and not row.available:
            yield fault("backends", f"{row.name}: {row.missing}", "install it, or choose another backend")
        elif row.available and row.path is not None:
            tested = f", tested with {row.tested}" if row.tested not in (None, row.version) else ""
            key = ", gets its provider's key" if "cursor" in BACKENDS[row.name].dialects else ""
            yield fine("backends", f"{row.name} {row.version} at {row.path}{tested}{key}")
    yield from found.programs
    if not any(row.path for row in found.backends):
        yield fine("backends", "no CLI of another vendor is installed (sdk, mock and exec need none)")


def state(found: Findings) -> Iterator[DoctorRow]:
    """Check that the state directory is private, owned by the user, and writable."""
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
        fix = "set AGENT_WORKER_HOME to a directory outside of the project"
        yield fault("state", f"{found.state} is in the project, where agents can write", fix)
    trusted = found.state / TRUST
    if trusted.exists():
        kept = trusted.lstat()
        if kept.st_mode & 0o077 or kept.st_uid != os.geteuid() or not stat.S_ISREG(kept.st_mode):
            yield fault("state", f"{trusted} is not private, so its grants are ignored", f"chmod 600 {trusted}")


def database(found: Findings) -> Iterator[DoctorRow]:
    """Check that this version can open the log, and that it is intact."""
    path = found.state / DATABASE
    checked = found.database
    if checked is None:
        yield fine("database", "in use by the kernel" if found.runs else "not created yet")
    elif checked.fault is not None:
        yield fault(
            "database", f"{path}: {checked.fault}", "restore it from a backup, or move it away for an empty log"
        )
    elif checked.schema > checked.newest:
        told = f"{path} has schema {checked.schema}, newer than {checked.newest}, which this version supports"
        yield fault("database", told, "upgrade agent-worker")
    else:
        yield fine("database", f"schema {checked.schema} of {checked.newest}")
    notice = saved_notice(str(path))
    if notice is not None:
        yield fault("database", notice, "inspect it, then move it back, or delete it")


def clock(found: Findings) -> Iterator[DoctorRow]:
    """Check that the clock is not behind the log."""
    behind = 0.0 if found.database is None else found.database.latest_ms / 1000 - found.now
    if behind > CLOCK_SECONDS:
        yield fault(
            "clock",
            f"the clock is {behind:.0f} s behind the newest event of the log",
            "set the clock, for example with NTP",
        )
    else:
        yield fine("clock", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(found.now)))


def disk(found: Findings) -> Iterator[DoctorRow]:
    """Check free space for the state, the project and temporary files."""
    told: set[int] = set()
    for name, wanted in (("state", found.state), ("project", found.root), ("TMPDIR", Path(gettempdir()))):
        place = wanted
        while not place.exists():
            place = place.parent
        device, room = place.stat().st_dev, os.statvfs(place)
        free_bytes = room.f_bavail * room.f_frsize
        if not os.access(place, os.W_OK):
            yield fault("disk", f"{place} ({name}) cannot be written", f"make it writable for user {os.geteuid()}")
        elif device in told:
            continue
        elif free_bytes < DISK_BYTES:
            yield fault("disk", f"{free_bytes // 1024**2} MiB free at {place} ({name})", "free space: awk prune trees")
        elif room.f_files and room.f_favail < DISK_FILES:
            yield fault("disk", f"{room.f_favail} files can be created at {place} ({name})", "remove small files")
        else:
            yield fine("disk", f"{free_bytes / 1024**3:.1f} GiB free at {place} ({name})")
        told.add(device)


def limits(_found: Findings) -> Iterator[DoctorRow]:
    """Check that the limits of this user suffice for a kernel's connections and workers."""
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
    """Check variables that affect clients and trust."""
    environ = found.environ
    if environ.get("AGENT_WORKER_TRUST") == "1":
        yield fine("environment", "AGENT_WORKER_TRUST=1 grants all demands of files; awk trust grants them one by one")
    if environ.get("AGENT_WORKER_URL") and not environ.get("AGENT_WORKER_TOKEN"):
        yield fault(
            "environment",
            "AGENT_WORKER_URL is set, but AGENT_WORKER_TOKEN is not",
            "unset both to use the kernel on this machine",
        )
    home = environ.get("HOME", "")
    if not home or not os.path.isdir(home):
        yield fault("environment", f"HOME is {home or 'not set'}, which is not a directory", "set it to your home")
    else:
        yield fine("environment", f"HOME is {home}")


def leftovers(found: Findings) -> Iterator[DoctorRow]:
    """Check for remains of a killed kernel."""
    place = found.state / RUN
    left = sorted(os.listdir(place)) if place.is_dir() and not found.runs else []
    if left:
        told = f"{len(left)} attempts of a killed kernel remain"
        yield fault("leftovers", told, "run awk start: the next kernel stops their processes")
    else:
        yield fine("leftovers", "no remains of a killed kernel")


def traces(found: Findings) -> Iterator[DoctorRow]:
    """Check that spans reach their collector."""
    yield from found.collector or (fine("traces", "the project file has no collector"),)


def standby(found: Findings) -> Iterator[DoctorRow]:
    """Check that the log can be copied to another location."""
    yield from found.standby or (fine("standby", "the project file has no standby"),)


CHECKS: Final[tuple[Check, ...]] = (
    python, commands, environment, git, sandbox, files, backends, state, database, clock, disk, limits, leftovers,
    traces, standby,
)  # fmt: skip


def examine(found: Findings) -> DoctorReport:
    """Return all rows of all checks."""
    return DoctorReport(rows=tuple(row for check in CHECKS for row in check(found)))


def doctor(root: Path, state_dir: Path, environ: Mapping[str, str], *, now: float, runs: bool) -> DoctorReport:
    """Inspect the machine and the project at ``root``. Blocks while programs report their versions."""
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
