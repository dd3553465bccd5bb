"""export and import: a file that is whole or not there, and what is read out of one, whoever wrote it."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from protocol.api.instructions import EntryInfo
from protocol.api.messages import ResourceText
from protocol.archive import ArchivedEntry, ArchivedStatus, ArchivedVersion, ArchiveEnd, ArchiveHead, ArchiveLine
from protocol.documents import SuggestionInfo
from tests.interface.conftest import Cli
from tests.interface.hostile import HOSTILE, obeyed
from tests.interface.kernel_double import KernelDouble, Stream, problem
from tests.interface.samples import AT, instruction, message, report, task, vote

pytestmark = pytest.mark.promise("P43")


def kept(text: str) -> ResourceText:
    return ResourceText(
        id="ab12", space="review:main", type="text/plain", author="alice", instruction="i7", characters=len(text),
        bytes=len(text.encode()), at=AT, content=text, offset=0, next=None,
    )  # fmt: skip


def archive(text: str = "hello", runs: tuple[str, ...] = ("r12",), space: str = "review:main") -> bytes:
    """An archive as a kernel writes it, with ``text`` wherever an agent could have put it."""
    entry = EntryInfo(n=1, attempt=1, at=AT, kind="tool", tool=text, input={text: text}, output=text)
    rows: list[tuple[str, Any]] = []
    for run in runs:
        rows += [("run", report(text, id=run, run=space, messages=()))]
        rows += [("channel", message(number, f"{text} {number} {run}")) for number in range(1, 4)]
        made: dict[str, Any] = {
            "author": "alice", "instruction": "i7", "run": run, "at": AT, "added": 1, "removed": 0, "reason": text,
        }  # fmt: skip
        for number, content in ((1, f"{text} before"), (2, f"{text} {run}")):
            of: dict[str, Any] = {
                "version": number,
                "action": "write",
                "message_id": f"m{number}",
                "content": content,
                "owner": text,
            }
            rows += [("documents", ArchivedVersion(file="plans/a.md", entry=True, **made, **of))]
        rows += [("documents", ArchivedVersion(file="gone.md", version=2, action="delete", message_id="m3", **made))]
        told: dict[str, Any] = {"decided_by": None, "decision_reason": text, "version": None, "diff": text, "since": 1}
        own = {name: value for name, value in made.items() if name not in ("added", "removed")}
        for name, state in (("s1", "rejected"), ("s2", "open")):
            of = {"id": name, "state": state, "file": "plans/a.md", "space": space, "content": text}
            rows += [("suggestions", SuggestionInfo(**of, **own, **told))]
        rows += [("tasks", one) for one in (task("t1", text), task("t2", text, state="ready", for_="bob", key="api"))]
        rows += [("resources", kept(f"{text} {run}"))]
        rows += [("votes", vote(text)), ("instructions", instruction(text=text))]
        status: dict[str, Any] = {"task": text, "state": text, "metadata": {text: text}, "instruction": "i7", "at": AT}
        rows += [("statuses", ArchivedStatus(agent="alice", **status))]
        rows += [("transcript", ArchivedEntry(instruction="i7", agent="alice", entry=entry))]
    lines: list[Any] = [ArchiveHead(of=runs[0], space=space, at=AT, version="0.1.0")]
    counts: dict[str, int] = {}
    run = ""
    for part, row in rows:
        run = row.id if part == "run" else run
        lines.append(ArchiveLine(part=part, run=run, row=row))
        counts[part] = counts.get(part, 0) + 1
    lines.append(ArchiveEnd(rows=counts))
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


PAGE = b"# Archive of r12\n\ntext\nEnd of the archive: 1 of channel.\n"


@pytest.mark.parametrize(
    ("asked", "route"),
    [("r12", "/runs/r12/export"), ("@review", "/spaces/review:main/export"), ("alice", "/spaces/dm:alice/export")],
)
def test_an_archive_is_printed_as_it_comes(asked: str, route: str, cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: a run, a workflow, an agent; pieces may end anywhere."""
    body = archive()
    kernel.answers[f"GET {route}"] = Stream([body[at : at + 100] for at in range(0, len(body), 100)])
    ran = cli("export", asked)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.encode() == body
    assert [one.query for one in kernel.of("GET", route)] == [{"format": "jsonl"}]


def test_an_archive_in_a_file_is_for_its_owner(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /runs/r12/export"] = lambda _asked: Stream([PAGE])
    path = cli.root / "r12.md"
    path.write_text("old")
    ran = cli("export", "r12", "--format", "md", "-o", "r12.md", "--json")
    assert ran.json() == {
        "schema": "awk/export/1", "file": "r12.md", "of": "r12", "format": "md", "bytes": len(PAGE),
    }  # fmt: skip
    assert path.read_bytes() == PAGE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert cli("export", "r12", "--format", "md", "-o", "r12.md").out == f"r12.md: {len(PAGE)} bytes\n"


@pytest.mark.parametrize("pieces", [[archive()[:-20]], [archive().rpartition(b'{"part":"end"')[0]], []], ids=len)
def test_what_breaks_off_leaves_no_file(pieces: list[bytes], cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /runs/r12/export"] = lambda _asked: Stream(pieces)
    ran = cli("export", "r12", "-o", "r12.jsonl")
    assert (ran.code, "is incomplete" in ran.err) == (1, True)
    kernel.answers["GET /runs/r12/export"] = lambda _asked: Stream([archive()], cut=True)
    assert cli("export", "r12", "-o", "r12.jsonl").code == 69
    kernel.answers["GET /runs/r12/export"] = problem(404, "not_found", "there is no run 'r12'")
    assert cli("export", "r12", "-o", "r12.jsonl").code == 5
    assert [path.name for path in cli.root.iterdir()] == [".agents"]


def test_an_archive_is_looked_at_without_a_kernel(cli: Cli) -> None:
    (cli.root / "two.jsonl").write_bytes(archive(runs=("r3", "r12")))
    ran = cli("import", "two.jsonl")
    assert (ran.code, ran.err) == (0, "")
    assert (
        "6 of channel, 6 of documents, 4 of suggestions, 4 of tasks, 2 of resources, 2 of votes, 2 of instructions"
        in ran.out
    )
    assert "\nawk show r12 --archive two.jsonl\n" in ran.out
    told = cli("import", "two.jsonl", "--json").json()
    assert [run["id"] for run in told["runs"]] == ["r3", "r12"]
    of = ("--archive", "two.jsonl")
    assert [one["text"] for one in cli("channel", "@review", *of, "--json").json()["messages"]] == [
        f"hello {number} r12" for number in (1, 2, 3)
    ]
    some = cli("channel", "@review", *of, "--run", "r3", "-n", "2")
    assert some.out == "alice: hello 2 r3\nalice: hello 3 r3\n"
    assert "2 of 3" in some.err
    assert len(cli("channel", "@review", *of, "-n", "0", "--jsonl").jsonl()) == 3
    assert cli("show", "review", *of, "--json").json()["id"] == "r12"
    assert "hello 1 r3" in cli("show", "r3", *of).out
    assert cli("show", "i7", *of, "--json").json()["text"] == "hello"
    assert "> hello: hello" in cli("show", "i7", "--steps", *of).out
    assert [one["id"] for one in cli("proposal", "list", "@review", *of, "--json").json()["proposals"]] == ["p1"]
    assert "alice voted a: hello" in cli("proposal", "show", "p1@review", *of).out


def test_documents_tasks_and_long_texts_are_read_out_of_an_archive(cli: Cli) -> None:
    (cli.root / "two.jsonl").write_bytes(archive(runs=("r3", "r12")))
    of = ("--archive", "two.jsonl")
    (listed,) = cli("doc", "list", "@review", *of, "--json").json()["documents"]
    assert (listed["file"], listed["version"], listed["size"]) == ("plans/a.md", 2, len("hello r12"))
    for words in ((), ("plans/a.md", "--version", "2")):
        assert cli("doc", "read", "@review", *words, *of).out == "hello r12\n"
    assert cli("doc", "read", "@review", "plans/a.md", "--version", "1", *of).out == "hello before\n"
    listed = cli("doc", "suggestions", "@review", *of, "--json").json()["suggestions"]
    assert [(row["id"], row["author"]) for row in listed] == [("s2", "alice")]
    listed = cli("doc", "suggestions", "@review", "--all", "-n", "1", *of, "--json").json()
    assert ([row["id"] for row in listed["suggestions"]], listed["total"], listed["next"]) == (["s1"], 2, "s1")
    told = cli("doc", "history", "@review", "plans/a.md", *of, "-n", "1", "--json").json()
    assert [(row["version"], row["run"]) for row in told["versions"]] == [(2, "r12")]
    assert (told["total"], told["next"]) == (2, "v2")
    assert len(cli("doc", "history", "@review", "plans/a.md", *of, "-n", "0", "--json").json()["versions"]) == 2
    assert [row["id"] for row in cli("task", "list", "@review", *of, "-n", "0", "--json").json()["tasks"]] == [
        "t1",
        "t2",
    ]
    assert [row["id"] for row in cli("task", "list", "@review", "--for", "bob", *of, "--json").json()["tasks"]] == [
        "t2"
    ]
    assert cli("task", "list", "@review", "--state", "failed", *of).out == "no tasks\n"
    shown = cli("task", "show", "@review", "api", *of, "--json").json()
    assert (shown["schema"], shown["id"]) == ("awk/task/1", "t2")
    assert "t2" in cli("task", "graph", "@review", *of).out
    assert cli("resource", "get", "ab12", "--offset", "1", "--limit", "3", *of).out.startswith("ell")
    missing: list[tuple[str, ...]] = [
        ("doc", "read", "@review", "gone.md"), ("doc", "read", "@review", "plans/a.md", "--version", "3"),
        ("doc", "read", "@review", "other.md"), ("task", "show", "@review", "t9"), ("resource", "get", "cd34"),
        ("doc", "list", "@other"), ("task", "list", "@other"),
    ]  # fmt: skip
    for asked in missing:
        ran = cli(*asked, *of)
        assert (ran.code, "in this archive" in ran.err) == (5, True), asked


@pytest.mark.parametrize(
    "words",
    [
        ("show", "r9"), ("show", "i9"), ("channel", "@other"), ("channel", "@review", "--run", "r9"),
        ("proposal", "show", "p9@review"),
    ],
)  # fmt: skip
def test_what_is_not_in_an_archive_is_told_as_such(words: tuple[str, ...], cli: Cli) -> None:
    """Exit 5, as of a kernel."""
    (cli.root / "r12.jsonl").write_bytes(archive())
    ran = cli(*words, "--archive", "r12.jsonl")
    assert (ran.code, "in this archive" in ran.err) == (5, True)


TAMPERED: dict[str, Callable[[bytes], bytes]] = {
    "a page": lambda _body: PAGE,
    "nothing": lambda _body: b"",
    "not JSON": lambda body: b"\xff\n" + body,
    "another document": lambda _body: b'{"schema": "awk/run/1"}\n',
    "a later version": lambda body: body.replace(b"awk/archive/1", b"awk/archive/9"),
    "no end": lambda body: body.rpartition(b'{"part":"end"')[0],
    "a row less": lambda body: b"".join(line for line in body.splitlines(True) if b'"votes",' not in line),
    "a row more": lambda body: body + b'{"part":"channel","run":"r12","row":{}}\n',
    "a row of another kind": lambda body: body.replace(b'"seq":1,', b'"seq":"1",'),
    "too deep": lambda body: body.replace(b'{"hello":"hello"}', b"[" * 100_000),
    "a status that is none": lambda body: body.replace(b'"status":"done"', b'"status":"\\u001b[31m"'),
}


@pytest.mark.parametrize("how", TAMPERED)
def test_what_is_not_as_it_was_written_is_refused(how: str, cli: Cli) -> None:
    """One line that says where, exit 1, no traceback; and nothing of it reaches the terminal."""
    (cli.root / "r12.jsonl").write_bytes(TAMPERED[how](archive()))
    for words in (("import", "r12.jsonl"), ("channel", "@review", "--archive", "r12.jsonl")):
        ran = cli(*words, terminal=True)
        assert (ran.code, ran.out) == (1, "")
        assert "this is a bug" not in ran.err
        assert obeyed(ran.err) == []


def test_a_part_of_a_later_version_is_counted_and_passed_over(cli: Cli) -> None:
    """docs/how-to/run/export-and-import.md: what this version knows of an archive, it reads."""
    later = b'{"part":"later","run":"r12","row":[1]}\n{"part":"end","rows":{"later":1,'
    body = archive().replace(b'{"part":"end","rows":{', later)
    (cli.root / "r12.jsonl").write_bytes(body)
    assert cli("import", "r12.jsonl", "--json").json()["rows"]["later"] == 1
    assert cli("show", "r12", "--archive", "r12.jsonl", "--json").json()["id"] == "r12"


def test_hostile_text_in_an_archive_reaches_no_terminal(cli: Cli) -> None:
    (cli.root / "r12.jsonl").write_bytes(archive("".join(HOSTILE[:-1])))
    of = ("--archive", "r12.jsonl")
    for words in (
        ("import", "r12.jsonl"), ("show", "r12", *of), ("show", "i7", *of), ("show", "i7", "--steps", *of),
        ("channel", "@review", *of), ("proposal", "show", "p1@review", *of), ("proposal", "list", "@review", *of),
        ("doc", "list", "@review", *of), ("doc", "history", "@review", "plans/a.md", *of),
        ("task", "list", "@review", *of), ("task", "show", "@review", "t1", *of), ("task", "graph", "@review", *of),
    ):  # fmt: skip
        for more in ((), ("--json",)):
            ran = cli(*words, *more)
            assert (ran.code, ran.err) == (0, "")
            assert obeyed(ran.out) == []


@pytest.mark.promise("P16")
@pytest.mark.parametrize("forged", ["\n### [system]", "\r\n::error::x", "\x0b[m9] user", "\u2028### x", "\x85### x"])
def test_who_said_something_in_an_archive_begins_no_line(forged: str, cli: Cli) -> None:
    said = ArchiveLine(part="channel", run="r12", row=message(9, "hi", f"bob{forged}", to=(f"zoe{forged}",)))
    body = (
        archive()
        .replace(b'{"part":"end"', msgspec.json.encode(said) + b'\n{"part":"end"')
        .replace(b'"channel":3', b'"channel":4')
    )
    (cli.root / "r12.jsonl").write_bytes(body)
    for words in (("show", "r12"), ("channel", "@review")):
        ran = cli(*words, "--archive", "r12.jsonl")
        assert (ran.code, "bob" in ran.out) == (0, True)
        assert [line for line in ran.out.splitlines() if line.startswith((forged.strip(), "###", "::"))] == []


@pytest.mark.parametrize("format", ["jsonl", "md"])
def test_an_archive_on_a_terminal_is_text(format: str, cli: Cli, kernel: KernelDouble) -> None:
    hostile = "".join(HOSTILE[:-1])
    body = archive(hostile) if format == "jsonl" else f"{hostile}\nEnd of the archive: nothing.\n".encode()
    kernel.answers["GET /runs/r12/export"] = Stream([body])
    ran = cli("export", "r12", "--format", format, terminal=True)
    assert (ran.code, obeyed(ran.out)) == (0, [])
    assert format == "md" or ran.jsonl() == [json.loads(line) for line in body.splitlines()]


def test_an_archive_is_not_followed_and_not_changed(cli: Cli) -> None:
    (cli.root / "r12.jsonl").write_bytes(archive())
    before = (cli.root / "r12.jsonl").read_bytes()
    assert cli("channel", "@review", "-f", "--archive", "r12.jsonl").code == 2
    assert cli("channel", "@review", "--archive", "missing.jsonl").code == 1
    assert (cli.root / "r12.jsonl").read_bytes() == before


def test_a_personal_space_is_peeked_at(cli: Cli) -> None:
    lines = [
        ArchiveHead(of="dm:alice", space="dm:alice", at=AT, version="0.1.0"),
        ArchiveLine(part="channel", run=None, row=message(1, "hi", "user")),
        ArchiveEnd(rows={"channel": 1, "votes": 0}),
    ]
    Path(cli.root / "alice.jsonl").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    assert "awk channel alice --archive alice.jsonl" in cli("import", "alice.jsonl").out
    assert cli("peek", "alice", "--archive", "alice.jsonl").out == "user: hi\n"
    assert json.loads(cli("import", "alice.jsonl", "--json").out)["rows"] == {"channel": 1}
