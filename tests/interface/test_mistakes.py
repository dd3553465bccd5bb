"""Mistakes as a person sees them: files that are wrong, beside the text of the terminal, to be read as such.

To take over a text that was changed on purpose: run ``agent-worker validate`` there, and read it first.
"""

from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from interface.cli.output import Screen, error_lines
from interface.offline import mistake, places_of
from protocol.api.document import FileError
from tests.interface.conftest import Cli

MISTAKES: Final = Path(__file__).parent / "mistakes"
NAMES: Final = sorted(path.stem for path in (MISTAKES / "terminal").iterdir())


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The answer of validate for all of them: name of the file -> its entry."""
    cli = Cli(root=MISTAKES, home=tmp_path_factory.mktemp("home"))
    ran = cli("validate", "--json")
    assert (ran.code, ran.err) == (78, "")
    return {Path(file["path"]).stem: file for file in ran.json()["files"]}


def test_there_are_ten_and_none_is_forgotten(checked: dict[str, Any]) -> None:
    assert len(NAMES) >= 10
    assert {name for name, file in checked.items() if not file["ok"]} == set(NAMES)
    assert set(checked) - set(NAMES) == {"helper"}


@pytest.mark.parametrize("name", NAMES)
def test_the_terminal_shows_what_where_and_what_to_do(name: str, checked: dict[str, Any]) -> None:
    """contracts 7: error, place, line and caret, hint; no traceback."""
    places = places_of(msgspec.convert(checked[name]["errors"], list[FileError]))
    lines = [line for place in places for line in error_lines(mistake(place), Screen())]
    assert "\n".join([*lines, ""]) == (MISTAKES / "terminal" / f"{name}.txt").read_text("utf-8")


def test_for_people_the_mistakes_go_to_stderr_and_a_line_a_file_to_stdout(cli: Cli) -> None:
    for name in ("leading-zero", "unknown-key"):
        (cli.root / ".agents" / f"{name}.yaml").write_bytes((MISTAKES / ".agents" / f"{name}.yaml").read_bytes())
    ran = cli("validate")
    texts = [(MISTAKES / "terminal" / f"{name}.txt").read_text("utf-8") for name in ("leading-zero", "unknown-key")]
    assert ran.err == "".join(texts)
    assert ran.out == "wrong  .agents/leading-zero.yaml: 3 errors\nwrong  .agents/unknown-key.yaml: 1 error\n"
