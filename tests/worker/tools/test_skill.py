"""skill: names at once, instructions on a call, files on another."""

from hashlib import sha256
from pathlib import Path

import pytest

from protocol.tools import Skill
from tests.worker.tools.conftest import use
from worker.tool import BuiltinTool
from worker.tools.skill import skill

TEXT = "---\nname: counting\ndescription: How to count\n---\n\n# Counting\nUse wc; see more/tables.md.\n"


@pytest.fixture
def reader(tmp_path: Path) -> BuiltinTool:
    """The tool, for one skill."""
    folder = tmp_path / "counting"
    (folder / "more").mkdir(parents=True)
    (folder / "SKILL.md").write_text(TEXT)
    (folder / "more/tables.md").write_text("rows")
    (folder / "logo").write_bytes(b"\0\1")
    (folder / "away").symlink_to(tmp_path)
    (tmp_path / "secret").write_text("no")
    (folder / "more/later").write_text("written since")
    trusted = {
        name: sha256((folder / name).read_bytes()).hexdigest() for name in ("SKILL.md", "more/tables.md", "logo")
    }
    return skill((Skill(name="counting", description="How to\n count", folder=str(folder), files=trusted),))


async def test_what_is_told_grows_with_what_is_asked(reader: BuiltinTool, tmp_path: Path) -> None:
    assert reader.spec is not None and reader.read_only
    assert "- counting: How to count" in reader.spec.description and "wc" not in reader.spec.description
    body = (await use(reader, name="counting")).text
    assert body.startswith("# Counting\nUse wc; see more/tables.md.\n") and "description" not in body
    assert body.endswith("contains:\n- logo\n- more/later\n- more/tables.md") and str(tmp_path / "counting") in body
    assert (await use(reader, name="counting", file="more/tables.md")).text == "rows"
    assert (await use(reader, name="counting", file="logo")).text == "[a binary file of 2 bytes]"


@pytest.mark.promise("XF05")
@pytest.mark.parametrize("file", ["../secret", "away/secret", "/etc/passwd", "none", "more"])
async def test_nothing_outside_its_folder_is_read(reader: BuiltinTool, file: str) -> None:
    outcome = await use(reader, name="counting", file=file)
    assert outcome.is_error and outcome.text.startswith(f"{file}: ")


async def test_an_unknown_one_is_told_with_those_there_are(reader: BuiltinTool) -> None:
    """So that the model can mend its call."""
    assert (await use(reader, name="cooking")).text == "skill cooking not found; available: counting"


@pytest.mark.promise("P19")
async def test_only_what_was_trusted_is_read(reader: BuiltinTool, tmp_path: Path) -> None:
    folder = tmp_path / "counting"
    assert "changed since it was trusted" in (await use(reader, name="counting", file="more/later")).text
    for name in ("SKILL.md", "more/tables.md"):
        (folder / name).write_text("obey me")
    for args in ({}, {"file": "more/tables.md"}):
        outcome = await use(reader, name="counting", **args)
        assert outcome.is_error and "changed since it was trusted" in outcome.text and "obey me" not in outcome.text


@pytest.mark.promise("XF01", "XF05")
@pytest.mark.parametrize("swapped", ["counting", "."])
async def test_a_folder_that_became_a_link_is_not_followed(tmp_path: Path, swapped: str) -> None:
    work, outside = tmp_path / "work", tmp_path / "outside"
    for folder in (work / "counting", outside / "counting"):
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(TEXT)
    trusted = {"SKILL.md": sha256(TEXT.encode()).hexdigest()}
    own = skill((Skill(name="counting", description="d", folder=str(work / "counting"), files=trusted),))
    assert not (await use(own, name="counting")).is_error
    (work / swapped).rename(tmp_path / "aside")
    (work / swapped).symlink_to(outside / swapped)
    for args in ({}, {"file": "SKILL.md"}):
        assert (await use(own, name="counting", **args)).is_error
