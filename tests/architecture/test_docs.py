"""The documents say nothing that is not there."""

import re
from pathlib import Path
from typing import Final

import msgspec
import pytest

from interface.cli.command_table import BY_WORD
from interface.cli.help import commands_page
from kernel.api.mcp.tools import TOOLS
from kernel.inspect.reference import reference_page
from kernel.inspect.schema import ROOTS, schema_text
from protocol.inspection import Kind
from protocol.tools import BUILT_IN, CONTEXT_FAMILIES
from tests.architecture.sources import ROOT
from tests.contracts.backends_page import page
from worker.tools.bash import BashArguments
from worker.tools.files import FILES
from worker.tools.skill import SkillArguments

BLOCK: Final = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND: Final = re.compile(r"^(?:awk|agent-worker) ([a-z]+)", re.MULTILINE)
INLINE: Final = re.compile(r"`(?:awk|agent-worker) ([a-z]+)[^`]*`")
CODE_WORD: Final = re.compile(r"`([a-z]+_[a-z_]+)(?=[`{( ])")
OTHER_WORDS: Final = frozenset({"memory_reserve"})
"""What else begins as their names do."""
LINK: Final = re.compile(r"\]\((?!https?:)([^)#]+)")
TEST_PATH: Final = re.compile(r"tests/[\w/]+\.py")
FAULT: Final = re.compile(r"\b[PIST]F\d\d\b")
DOCUMENTS: Final = ("README.md", "docs/architecture.md", "docs/promises.md")
PAGES: Final = ("README.md", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md")))


def _read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_every_tool_of_the_kernel_that_is_named_exists(name: str) -> None:
    """Who writes an agent's prompt, a script or a worker has to be able to call it."""
    named = {word for word in CODE_WORD.findall(_read(name)) if word.startswith(CONTEXT_FAMILIES)}
    assert named - set(TOOLS) - OTHER_WORDS == set()


def test_every_command_in_the_readme_exists() -> None:
    """The tour can be typed as it stands."""
    text = _read("README.md")
    named = {word for block in BLOCK.findall(text) for word in COMMAND.findall(block)} | set(INLINE.findall(text))
    assert named, "the pattern no longer finds the README's commands"
    assert named - set(BY_WORD) == set()


def test_the_page_of_commands_is_what_the_table_says() -> None:
    """Made by scripts/generate."""
    assert commands_page() == _read("docs/reference/commands.md")


def test_the_page_of_backends_is_what_the_contract_suite_insists_on() -> None:
    """Made by scripts/generate; yes, no, weaker, with versions."""
    assert page() == _read("docs/backends.md")


def test_the_arguments_of_built_in_tools_are_those_that_they_take() -> None:
    """docs/tools.md: who writes a mock script or a rule for approvals has to name them."""
    kinds: dict[str, type[msgspec.Struct]] = {
        "bash": BashArguments,
        **{tool.name: tool.asks for tool in FILES},
        "skill": SkillArguments,
    }
    assert kinds.keys() == BUILT_IN.keys()
    page = _read("docs/tools.md")
    for name, kind in kinds.items():
        told = (f"`{field.encode_name}{'' if field.required else '?'}`" for field in msgspec.structs.fields(kind))
        assert f"| `{name}` | {', '.join(told)} |" in page


@pytest.mark.parametrize("kind", ROOTS)
def test_the_reference_and_the_schemas_are_what_the_structs_say(kind: Kind) -> None:
    """Made by scripts/generate: docs/reference and schema."""
    assert reference_page(kind) == _read(f"docs/reference/{kind}.md")
    assert schema_text(kind) == _read(f"schema/{kind}.json")


def test_every_script_in_the_readme_exists() -> None:
    """The two commands that set everything up, and those for developers, can be run."""
    named = set(re.findall(r"scripts/[a-z]+", _read("README.md")))
    assert {"scripts/demo", "scripts/test"} <= named
    assert [name for name in sorted(named) if not (ROOT / name).stat().st_mode & 0o100] == []


def test_every_long_trial_that_is_named_can_be_run() -> None:
    """docs/promises.md says how its figures are made again."""
    named = set(re.findall(r"`scripts/soak ([a-z]+)", _read("docs/promises.md")))
    assert named
    assert named - set(re.findall(r"^  ([a-z]+)\)", _read("scripts/soak"), re.MULTILINE)) == set()


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    """A relative link names a file of the repository."""
    folder = Path(name).parent
    assert [link for link in LINK.findall(_read(name)) if not (ROOT / folder / link).exists()] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_tests_that_a_document_names_exist(name: str) -> None:
    """A proof that is named is there."""
    assert [path for path in TEST_PATH.findall(_read(name)) if not (ROOT / path).exists()] == []


def _promises() -> list[tuple[str, list[str]]]:
    """Each promise and the tests that its row names."""
    rows = [line for line in _read("docs/promises.md").splitlines() if re.match(r"\| P\d+ ", line)]
    return [(row.split("|")[1].strip(), TEST_PATH.findall(row)) for row in rows]


@pytest.mark.parametrize(("promise", "proofs"), _promises())
def test_a_promise_and_its_proof_name_each_other(promise: str, proofs: list[str]) -> None:
    """A promise without a test is a hope, and a test must know what it proves."""
    assert proofs
    assert [path for path in proofs if not re.search(rf"\b{promise}\b", _read(path))] == []


LISTED: Final = {
    "PF": "01 02 03 04 05 07 09 11 12 13 14 15 16 17 18 19 20 21 22 24 25 26",
    "IF": "01 02 03 04 05 07 08 09 10 12 13 14 15 16 17",
    "SF": "01 02 03 04 05 07 08 09 10 11 12 13 14 15 17 18 19 20 21 22",
    "TF": "01 02 03 04 05 06 07 08 09 10 11 12 13 14 15 18 19 20 21",
}
"""Faults of processes, frames, storage and schedules. It may only grow."""
FAULTS: Final = [f"{family}{number}" for family, numbers in LISTED.items() for number in numbers.split()]


def _faults() -> list[tuple[str, str]]:
    """Each fault with a row, and what the row names: tests, or the reason why there are none."""
    cells = [line.split("|") for line in _read("docs/promises.md").splitlines() if re.match(r"\| [PIST]F\d\d ", line)]
    return [(row[1].strip(), row[3].strip()) for row in cells]


def test_every_fault_has_a_row() -> None:
    """None is left out, none is there twice, and no test names one that the page does not."""
    assert [fault for fault, _ in _faults()] == FAULTS
    named = {fault for path in ROOT.glob("tests/**/*.py") for fault in FAULT.findall(path.read_text("utf-8"))}
    assert named - set(FAULTS) == set()


@pytest.mark.parametrize(("fault", "proof"), _faults())
def test_a_fault_has_a_test_that_names_it_or_a_reason(fault: str, proof: str) -> None:
    """What is not tested is said, with the reason."""
    proofs = TEST_PATH.findall(proof)
    assert proofs or len(proof.removeprefix("reason: ").split()) > 3
    assert bool(proofs) != proof.startswith("reason: ")
    assert [path for path in proofs if not re.search(rf"\b{fault}\b", _read(path))] == []


def test_the_architecture_fits_one_page_with_one_diagram() -> None:
    """docs/architecture.md is one page, one diagram."""
    text = _read("docs/architecture.md")
    assert text.count("```mermaid") == 1
    assert len(text.splitlines()) <= 80
