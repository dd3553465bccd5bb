"""Documents in files: newest versions go out, what people write comes in, and nothing they wrote is overwritten."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.policy.documents import DocumentChange, file_fault
from kernel.services.mirror_files import DocumentFiles
from kernel.source import safe_paths
from kernel.store import documents
from kernel.store.rows import RowPage
from kernel.store.transitions.clear import clear
from kernel.store.transitions.documents import change
from kernel.store.transitions.runs import start_run, stop_workflow
from tests.kernel.services import document_paths
from tests.kernel.services.test_mirror import FOLDER, MirroredProject
from tests.kernel.store.running_store import started
from tests.shorthand import present

pytestmark = pytest.mark.promise("P37")

IN = f"{FOLDER}/documents"


async def wrote(on: MirroredProject, space: str, text: str, file: str = "notes.md", **how: Any) -> int:
    return (await on.store.writer.commit(change, space, file, DocumentChange("write", text, **how))).version


def versions(on: MirroredProject, space: str, file: str = "notes.md") -> list[tuple[str, str | None]]:
    rows = on.store.reader.now(documents.history, space, file, RowPage()).versions
    return [(row.author, row.reason) for row in reversed(rows)]


def text(on: MirroredProject, space: str, file: str = "notes.md") -> str:
    return on.store.reader.now(documents.read, space, file).content


def told(on: MirroredProject) -> list[str]:
    return [one for one in on.texts() if one.startswith("[DOC_CONFLICT]")]


async def look(on: MirroredProject) -> None:
    """As often as it takes until all is settled."""
    for _ in range(3):
        await on.mirror.write()


async def test_documents_are_files_and_edits_of_people_are_versions(on: MirroredProject) -> None:
    space = await on.workflow()
    await wrote(on, space, "one\ntwo\nthree\n")
    await wrote(on, space, "deep\n", "findings/auth.md")
    await look(on)
    notes = on.root / IN / "notes.md"
    assert notes.read_text() == "one\ntwo\nthree\n"
    assert (on.root / IN / "findings/auth.md").read_text() == "deep\n"
    notes.write_text("one\ntwo\n3\n")
    (on.root / IN / "mine.md").write_text("by hand\n")
    (on.root / IN / "findings/auth.md").unlink()
    await look(on)
    assert text(on, space) == "one\ntwo\n3\n"
    assert versions(on, space)[-1] == ("user", f"from {IN}/notes.md")
    assert versions(on, space, "mine.md") == [("user", f"from {IN}/mine.md")]
    assert on.store.reader.now(documents.files, space) == ("mine.md", "notes.md")
    await wrote(on, space, "1\ntwo\n3\n")
    await look(on)
    assert notes.read_text() == "1\ntwo\n3\n"


async def test_an_edit_is_merged_with_what_agents_wrote_meanwhile(on: MirroredProject) -> None:
    space = await on.workflow()
    await wrote(on, space, "one\ntwo\nthree\n")
    await look(on)
    notes = on.root / IN / "notes.md"
    notes.write_text("one\ntwo\n3\n")
    await wrote(on, space, "1\ntwo\nthree\n")
    await look(on)
    assert notes.read_text() == text(on, space) == "1\ntwo\n3\n"
    assert [author for author, _ in versions(on, space)] == ["user", "user", "user"]
    assert told(on) == []


async def test_an_edit_that_clashes_is_told_once_and_stays_until_it_is_resolved(on: MirroredProject) -> None:
    space = await on.workflow()
    rest = "two\nthree\n"
    await wrote(on, space, f"one\n{rest}")
    await look(on)
    notes = on.root / IN / "notes.md"
    notes.write_text(f"mine\n{rest}")
    await wrote(on, space, f"theirs\n{rest}")
    await look(on)
    on.restart()
    await look(on)
    assert (notes.read_text(), text(on, space), len(told(on))) == (f"mine\n{rest}", f"theirs\n{rest}", 1)
    await wrote(on, space, f"theirs\n{rest}more\n")
    await look(on)
    assert (notes.read_text(), len(told(on))) == (f"mine\n{rest}", 1)
    notes.write_text(f"mine and theirs\n{rest}")
    await look(on)
    assert notes.read_text() == text(on, space) == f"mine and theirs\n{rest}more\n"


async def test_what_cannot_be_a_document_is_told_and_left_alone(on: MirroredProject) -> None:
    space = await on.workflow()
    folder = on.root / IN
    folder.mkdir(parents=True)
    (folder / "image.png").write_bytes(b"\xff\xfe")
    for name in (".notes.md.swp", "notes.md~", "a.tmp"):
        (folder / name).write_text("passing")
    await look(on)
    assert [("image.png" in one, "not UTF-8" in one) for one in told(on)] == [(True, True)]
    assert on.store.reader.now(documents.files, space) == ()
    assert len(list(folder.iterdir())) == 4


@pytest.mark.promise("P15")
async def test_no_link_leads_out(on: MirroredProject, tmp_path: Path) -> None:
    space = await on.workflow()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret")
    folder = on.root / IN
    folder.mkdir(parents=True)
    (folder / "secret.md").symlink_to(outside / "secret.md")
    (folder / "below").symlink_to(outside)
    await wrote(on, space, "x", "below/new.md")
    await look(on)
    assert on.store.reader.now(documents.files, space) == ("below/new.md",)
    assert sorted(path.name for path in outside.iterdir()) == ["secret.md"]
    await wrote(on, space, "x", "secret.md")
    await look(on)
    assert (outside / "secret.md").read_text() == "secret"


def test_a_save_between_look_and_write_is_kept(tmp_path: Path) -> None:
    files = DocumentFiles(str(tmp_path), settle_seconds=0.0)
    assert files.put("w", "notes.md", "one", None)
    seen = present(files.look("w", 1.0))
    path = tmp_path / "w/documents/notes.md"
    path.write_text("saved by hand")
    assert not files.put("w", "notes.md", "two", seen["notes.md"].digest)
    assert not files.put("w", "notes.md", "two", None)
    assert (path.read_text(), os.listdir(path.parent)) == ("saved by hand", ["notes.md"])
    path.rename(path.with_name(".notes.md.old"))  # a kernel died there
    again = present(files.look("w", 2.0))
    assert (path.read_text(), list(again)) == ("saved by hand", ["notes.md"])


async def test_a_new_run_begins_without_the_files_of_the_one_before(on: MirroredProject) -> None:
    space = await on.workflow()
    for file in ("notes.md", "old.md"):
        await wrote(on, space, "of the first run\n", file)
    await look(on)
    (on.root / IN / "notes.md").write_text("changed while nobody looked\n")
    await on.store.writer.commit(stop_workflow, space, "done", 0)
    draft = started("alice", mode="start", mirror=FOLDER)
    second = (await on.store.writer.commit(start_run, draft)).space
    assert second != space
    await look(on)
    assert on.store.reader.now(documents.files, second) == ("notes.md",)
    assert text(on, second) == "changed while nobody looked\n"
    assert os.listdir(on.root / IN) == ["notes.md"]


@pytest.mark.promise("P15")
@given(st.text(alphabet=st.sampled_from("ab/.\\~ \0\n:é-_"), max_size=14))
def test_no_name_of_a_document_is_a_file_outside(name: str) -> None:
    with TemporaryDirectory() as root:
        folder = Path(root, "in")
        folder.mkdir()
        if file_fault(name) is None:
            assert DocumentFiles(str(folder)).put("w", name, "x", None)
            assert (folder / "w/documents" / name).read_text() == "x"
        else:
            with suppress(OSError, ValueError):
                DocumentFiles(str(folder)).put("w", name, "x", None)
        assert os.listdir(root) == ["in"]


@pytest.mark.promise("P15")
def test_generated_names_and_links_lead_nowhere() -> None:
    """Of documents and of what can be none; ``scripts/soak paths`` tries 50,000."""
    assert document_paths.try_names(300, 1) > 50


@pytest.mark.promise("P15")
def test_a_folder_that_is_swapped_for_a_link_all_the_time_leads_nowhere() -> None:
    assert document_paths.race(int(os.environ.get("AWK_TEST_RACES", "200"))), "it never got in: nothing was raced"


def _parts(text: str) -> str:
    return text


_PLANTED: Final[dict[str, tuple[str, object, Callable[[], object]]]] = {
    "links are followed": ("FOLDER", os.O_RDONLY | os.O_DIRECTORY, lambda: document_paths.try_names(300, 1)),
    "a swapped one is": ("FOLDER", os.O_RDONLY | os.O_DIRECTORY, lambda: document_paths.race(100_000)),
    "parents are allowed": ("plain_path", _parts, lambda: document_paths.try_names(2000, 1)),
}


@pytest.mark.parametrize("fault", _PLANTED)
def test_what_leads_out_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, wrong, trial = _PLANTED[fault]
    monkeypatch.setattr(safe_paths, name, wrong)
    with pytest.raises(AssertionError, match="outside"):
        trial()


async def test_a_hidden_folder_stops_nothing(on: MirroredProject) -> None:
    space = await on.workflow()
    await wrote(on, space, "one\n")
    await look(on)
    (on.root / IN / ".notes.md.old").mkdir()
    (on.root / IN / "notes.md").write_text("two\n")
    await look(on)
    assert text(on, space) == "two\n"


async def test_what_is_cleared_is_gone_from_the_files_too(on: MirroredProject) -> None:
    space = await on.workflow()
    await wrote(on, space, "secret words\n")
    await look(on)
    await on.store.writer.commit(stop_workflow, space, "done", 0)
    await on.store.writer.commit(clear, space)
    await on.mirror.redo()
    assert os.listdir(on.root / IN) == []
