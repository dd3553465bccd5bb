"""``awk run --report``: targets are checked before the run starts, and reports are written for every outcome.

Files are replaced atomically. The files of a GitHub runner are appended to. Other changes to them during the run are
reverted, because each line sets a variable of all later steps.
"""

import os
import secrets
import signal
import stat
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from interface.cli.exits import Interrupted
from interface.cli.output import OutputLost, one_line
from interface.cli.reports.formats import annotations_of, log_of, outputs_of, suite_of
from interface.cli.reports.markdown import page_of
from interface.cli.reports.record import Rows, RunRecord, RunRefusal
from interface.cli.requests import NEEDS, fetch_list
from interface.client import Client, quoted
from interface.failure import Failure, Unreachable
from osfiles.atomic_write import replacing
from protocol.api.approvals import Need
from protocol.api.runs import DiffReport, RunReport
from protocol.discovery import VERSION

if TYPE_CHECKING:
    from interface.cli.context import Context

GITHUB: Final = "github"
FORMATS: Final[Mapping[str, Callable[[RunRecord], str]]] = {"junit": suite_of, "md": page_of, "sarif": log_of}
"""Functions that return the content of a report file, by format."""
OUTPUT: Final = "GITHUB_OUTPUT"
SUMMARY: Final = "GITHUB_STEP_SUMMARY"
RUNNER_FILES: Final = (OUTPUT, SUMMARY, "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE")
_RUNNER_FILE_BYTES: Final = 1024 * 1024
"""Maximum size that GitHub reads of a file."""
_ROOTS: Final = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR", "BUILD_SOURCESDIRECTORY")
"""Variables with the repository of a job."""
_LINE_BYTES: Final = 64 * 1024 * 1024


class Target(NamedTuple):
    """Report with an absolute ``path``, or "" for the GitHub runner."""

    format: str
    path: str = ""


def targets_of(given: Sequence[str], directory: str) -> tuple[Target, ...]:
    """Parse the requested reports. Raises Failure (usage) for unknown ones."""
    hint = f"write {GITHUB}, or {', '.join(f'{name}:FILE' for name in FORMATS)}; separate several with commas"
    found: list[Target] = []
    for word in (word.strip() for words in given for word in words.split(",")):
        name, colon, path = word.partition(":")
        if name == GITHUB and not colon:
            found.append(Target(GITHUB))
        elif name in FORMATS and path:
            found.append(Target(name, os.path.abspath(os.path.join(directory, path))))
        else:
            raise Failure("usage", f"--report {one_line(word[:100]) or 'of nothing'}: unknown report", hint)
    for place, one in enumerate(found):
        if one in found[:place] or (one.path and one.path in {other.path for other in found[:place]}):
            raise Failure(
                "usage", f"two reports have the same output file {one_line(one.path or GITHUB)}", "name another file"
            )
    return tuple(found)


def check_writable(path: str) -> None:
    """Check by a temporary file that ``path`` can be written. Raises Failure (usage)."""
    try:
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise Failure("usage", f"--report: {one_line(path)} is not a regular file", "name another")
        beside = f"{path}.{os.getpid()}.part"
        os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.unlink(beside)
    except OSError as error:
        text = f"--report: {one_line(path)} cannot be written: {error.strerror or error}"
        raise Failure("usage", text, "name a file in an existing directory that you can write to") from error


def write_whole(path: str, content: bytes) -> None:
    """Write ``content`` to ``path`` atomically, with the permissions of the umask."""
    with replacing(path, 0o666, sync=False) as file:
        file.write(content)


class RunnerFiles:
    """Files that pass data of a step to GitHub's runner, with their content before the run. Raises Failure (usage)."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._paths = {name: environ[name] for name in RUNNER_FILES if environ.get(name)}
        self._before: dict[str, bytes] = {}
        for name, path in self._paths.items():
            try:
                self._before[name] = self._read(path)
            except OSError as error:
                text = f"--report {GITHUB}: {name}={one_line(path)} cannot be written: {error.strerror or error}"
                raise Failure("usage", text, f"leave out {GITHUB} outside GitHub Actions") from error

    def names(self, name: str) -> bool:
        """Return whether the environment names the runner file ``name`` (a variable such as ``GITHUB_OUTPUT``)."""
        return name in self._paths

    def take_back(self) -> list[str]:
        """Restore the previous content. Returns the names of the changed files. Raises OSError."""
        changed: list[str] = []
        for name, path in self._paths.items():
            try:
                same = self._read(path, make=False) == self._before[name]
            except OSError:
                same = False
            if not same:
                changed.append(name)
                write_whole(path, self._before[name])
        return changed

    def append(self, name: str, text: str) -> None:
        """Append ``text`` to a runner file up to the size that the runner reads. Raises OSError."""
        before, added = self._before[name], text.encode("utf-8", "backslashreplace")
        newline = b"" if not before or before.endswith(b"\n") else b"\n"
        if len(before) + len(newline) + len(added) > _RUNNER_FILE_BYTES:
            raise OSError(f"{name} would have more than {_RUNNER_FILE_BYTES:,} bytes")
        descriptor = os.open(self._paths[name], os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "ab") as file:
            file.write(newline + added)

    @staticmethod
    def _read(path: str, *, make: bool = True) -> bytes:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_CREAT if make else 0)
        with open(os.open(path, flags, 0o600), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError("not a regular file")
            return file.read(_RUNNER_FILE_BYTES + 1)


class Reports:
    """Reports of one run, whose targets the constructor checks. Raises Failure (usage)."""

    def __init__(self, context: "Context", given: Sequence[str]) -> None:
        self._context = context
        self._targets = targets_of(given, context.cwd)
        for target in self._targets:
            if target.path:
                check_writable(target.path)
        self._runner = RunnerFiles(context.environ) if Target(GITHUB) in self._targets else None
        self._began_at = context.clock.wall()

    def write(self, name: str, exit_code: int, report: bytes | None, error: BaseException | None) -> None:
        """Write all reports. Raises Failure after the last one if any failed."""
        record = self._record(name, exit_code, report, error)
        with undisturbed():
            faults = [fault for target in self._targets for fault in self._written(target, record)]
        if faults:
            raise Failure("failed", "; ".join(faults), "the result of the run is not affected")

    def _written(self, target: Target, record: RunRecord) -> Iterator[str]:
        try:
            if target.format == GITHUB:
                self._tell_runner(record)
            else:
                write_whole(target.path, FORMATS[target.format](record).encode("utf-8", "backslashreplace"))
        except (OSError, OutputLost) as error:
            why = getattr(error, "strerror", None) or str(error)
            yield f"the report {target.format} cannot be written: {one_line(why)}"

    def _tell_runner(self, record: RunRecord) -> None:
        assert self._runner is not None
        for name in self._runner.take_back():
            self._context.out.note(f"warning: another program wrote to {name} during the run; its text was removed")
        for name, text in (
            (OUTPUT, outputs_of(record, f"ghadelimiter_{secrets.token_hex(16)}")),
            (SUMMARY, page_of(record)),
        ):
            if self._runner.names(name):
                self._runner.append(name, text)
            else:
                self._context.out.note(f"note: {name} is not set, so this is not a GitHub Actions step")
        self._context.out.command(annotations_of(record))

    def _record(self, name: str, exit_code: int, body: bytes | None, error: BaseException | None) -> RunRecord:
        report = None if body is None else msgspec.json.decode(body, type=RunReport)
        known: dict[str, Any] = {}
        if report is not None:
            try:
                known = read_log(self._context.find_kernel(), report)
            except (Failure, Unreachable, Interrupted, OSError, ValueError, KeyError, msgspec.MsgspecError) as unread:
                known = {"unread": str(unread) or type(unread).__name__, "said": report.messages}
        root = ""
        with suppress(Failure):  # no project was found, so the run was refused
            root = self._context.project.root
        return RunRecord(
            name=report.run if report else name,
            exit_code=exit_code,
            at=datetime.fromtimestamp(self._began_at, UTC).isoformat(timespec="seconds"),
            version=VERSION,
            report=report,
            refusal=None if report else refusal_of(error, exit_code),
            roots=(root, *(tree.path for tree in known.get("trees", ()))),
            prefix=prefix_of(root, self._context.environ),
            **known,
        )


def read_log(client: Client, report: Any) -> dict[str, Any]:
    """Return the log of a run as fields of RunRecord, without secrets.

    Raises Failure, Unreachable, ValueError.
    """
    rows, rest = Rows(), b""
    for piece in client.pieces(f"/runs/{report.id}/export", {"format": "jsonl"}):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            rows.take(line)
        if len(rest) > _LINE_BYTES:
            raise ValueError("the log has a line that is too long")
    known = rows.fields()
    branches = set(report.branches.values())
    if branches:
        body = client.get(f"/spaces/{quoted(report.run)}/diff", {"run": str(report.id)})
        trees = msgspec.json.decode(body, type=DiffReport).worktrees
        known["trees"] = tuple(tree for tree in trees if tree.branch in branches)
    items = fetch_list(client, "/needs", NEEDS, 0, {})["items"]
    needs = (msgspec.convert(item, Need) for item in items)
    return {**known, "needs": tuple(need for need in needs if need.run == report.id)}


def refusal_of(error: BaseException | None, exit_code: int) -> RunRefusal:
    """Return the reason that there is no report."""
    if isinstance(error, Failure):
        return RunRefusal(code=error.code, text=error.text, hint=error.hint or "", mistakes=error.places)
    if error is None or isinstance(error, Interrupted):
        return RunRefusal(code="interrupted", text=f"it ended before there was a report of it: exit code {exit_code}")
    return RunRefusal(code="unknown", text=str(error) or type(error).__name__)


def prefix_of(root: str, environ: Mapping[str, str]) -> str:
    """Return the directory of the project within the repository, with a slash; "" for the root."""
    above = next((os.path.realpath(environ[name]) for name in _ROOTS if environ.get(name)), "")
    return f"{root[len(above) + 1 :]}/" if above and root.startswith(f"{above}/") else ""


@contextmanager
def undisturbed() -> Generator[None]:
    """Ignore signals within the block, because an interruption would lose reports."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
