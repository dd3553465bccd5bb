"""The documents say nothing that is not there."""

import ast
import json
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Final

import msgspec
import pytest
import yaml
from jsonschema import Draft202012Validator

from interface.cli.command_parser import parser_for
from interface.cli.command_table import ALIASES, BY_WORD, without_alias
from interface.cli.commands.help import VARIABLES, commands_page
from interface.cli.exits import MEANINGS, Exit
from interface.cli.parsing import split_params
from kernel.api.mcp.tools import TOOLS
from kernel.inspect.reference import reference_page
from kernel.inspect.schema import ROOTS, events_schema_text, schema_text
from kernel.inspect.validate import validate
from kernel.operations.table import verbs_text
from protocol.tools import BUILT_IN, CONTEXT_FAMILIES
from tests.architecture import decisions_page, manual_page, promises_page, reference_pages
from tests.architecture.sources import ROOT, product
from tests.contracts import frames_schema
from tests.contracts.backends_page import page
from tests.pages import blocks, commands
from worker.tools.commands import BashArguments
from worker.tools.files import FILES
from worker.tools.skill import SkillArguments

INLINE: Final = re.compile(r"`(?:awk|agent-worker) ([a-z-]+)[^`]*`")
CODE_WORD: Final = re.compile(r"`([a-z]+_[a-z_]+)(?=[`{( ])")
OTHER_WORDS: Final = frozenset({"memory_reserve", "soul_evolution", "space_only"})
"""Other words that begin as names of tools do."""
INTERNAL_VARIABLES: Final = re.compile(
    r"AGENT_WORKER(_CRASH_(AT|LOG)|_LAUNCHER|_PRIVATE\w*|_SERVICE|_UPGRADE_SECONDS)?"
)
"""Variables for tests of the product, and between its own processes."""
RUN_ELSEWHERE: Final = {
    "docs/contributing/worker-protocol.md": "tests/interface/test_worker_check.py",
    "docs/how-to/integrate/call-the-api.md": "tests/e2e/test_outside_clients.py",
    "docs/how-to/operate/add-machines.md": "tests/e2e/test_scaling_page.py",
}
"""Pages with blocks that tests/e2e/test_docs.py does not run, and the test that runs them."""
CHANGES: Final = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
KINDS: Final = frozenset({"sh", "console", "yaml", "json", "python", "js", "javascript", "text", "mermaid"})
PROGRAMS: Final = frozenset({"console", "python", "js", "javascript"})
JSON_DOCUMENT: Final = re.compile(r"\n(?=\{)")
LINK: Final = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
FENCED: Final = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
MARKER: Final = re.compile(r"\bpromise\(([^)]*)\)")
ID: Final = re.compile(r"\b(?:P\d{1,2}|[PISTCHLX]F\d\d)\b")
GENERATED: Final[dict[str, Callable[[], str]]] = {
    **{f"docs/reference/{name}.md": write for name, write in reference_pages.PAGES.items()},
    **{f"docs/reference/{kind}.md": partial(reference_page, kind) for kind in ROOTS},
    **{f"schema/{kind}.json": partial(schema_text, kind) for kind in ROOTS},
    "schema/events.json": events_schema_text,
    "schema/frames.json": frames_schema.schema_text,
    "docs/reference/backends.md": page,
    "docs/reference/commands.md": commands_page,
    "docs/man/awk.1": manual_page.page,
    "interface/verbs.json": verbs_text,
    "docs/contributing/promises.md": promises_page.page,
    "docs/contributing/decisions/index.md": decisions_page.page,
}
PROOFS: Final = promises_page.read_promises().proofs
PAGES: Final = ("README.md", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md")))


def _read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_every_tool_of_the_kernel_that_is_named_exists(name: str) -> None:
    named = {word for word in CODE_WORD.findall(_read(name)) if word.startswith(CONTEXT_FAMILIES)}
    assert named - set(TOOLS) - OTHER_WORDS == set()


@pytest.mark.parametrize("name", PAGES)
def test_every_command_of_a_page_exists_with_its_arguments(name: str) -> None:
    text = _read(name)
    scripts = [block.script for block in blocks(text) if block.kind in {"sh", "console"}]
    for words in (words for script in scripts for words in commands(script) if re.match(r"[a-z-]+$", words[0])):
        word, *rest = without_alias(words)
        command = BY_WORD[word]
        own, _ = split_params(rest, takes_params=command.takes_params)
        parser_for(command, "awk", command.load()[0]).parse_args(own)
    assert set(INLINE.findall(text)) - {*BY_WORD, *ALIASES} == set()


@pytest.mark.parametrize("name", PAGES)
def test_every_block_of_a_page_is_checked_or_says_why_not(name: str, tmp_path: Path) -> None:
    """Files of a project are validated, beside a plain agent for each member that the page does not define."""
    found = blocks(_read(name))
    assert len(re.findall(r"^ *```", _read(name), re.MULTILINE)) == 2 * len(found), "a block without a language"
    for block in found:
        assert block.kind in KINDS
        if block.kind in PROGRAMS and "not run" not in block.marks:
            assert Path(name).name in _read(RUN_ELSEWHERE[name])
        if block.kind == "json":
            assert [json.loads(line) for line in JSON_DOCUMENT.split(block.text)]
        if block.kind == "python":
            ast.parse(block.text)
        if block.kind != "yaml":
            continue
        assert block.path or "not run" in block.marks
        yaml.safe_load(block.text)
        for path, text in block.files:
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            if path == block.path or not file.exists():
                file.write_text(text, "utf-8")
        assert [(file.path, file.errors) for file in validate(tmp_path, tmp_path, ()).files if file.errors] == []


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_file_is_what_scripts_generate_writes(name: str) -> None:
    assert GENERATED[name]() == _read(name)


def test_the_arguments_of_built_in_tools_are_those_that_they_take() -> None:
    """Mock scripts and rules for approvals name them."""
    kinds: dict[str, type[msgspec.Struct]] = {
        "bash": BashArguments,
        **{tool.name: tool.asks for tool in FILES},
        "skill": SkillArguments,
    }
    assert kinds.keys() == BUILT_IN.keys()
    page = _read("docs/reference/tools.md")
    for name, kind in kinds.items():
        told = (f"`{field.encode_name}{'' if field.required else '?'}`" for field in msgspec.structs.fields(kind))
        assert f"| `{name}` | {', '.join(told)} |" in page


def test_the_schema_of_the_frames_accepts_what_the_structs_accept() -> None:
    schema = json.loads(_read("schema/frames.json"))
    fits = Draft202012Validator({"$ref": "#/$defs/WorkerFrame", "$defs": schema["$defs"]}).is_valid
    assert fits({"t": "entry", "k": 0, "kind": "reply", "text": "hi", "of_tomorrow": 1})
    assert fits({"t": "result", "status": "done"})
    assert not fits({"t": "entry", "k": -1, "kind": "reply"})
    assert not fits({"t": "go", "k": 0})


def test_every_script_in_the_readme_exists() -> None:
    named = set(re.findall(r"scripts/[a-z]+", _read("README.md")))
    assert {"scripts/demo", "scripts/test"} <= named
    assert [name for name in sorted(named) if not (ROOT / name).stat().st_mode & 0o100] == []


def test_every_long_trial_that_is_named_can_be_run() -> None:
    """docs/contributing/trials.md says how its figures are made again."""
    named = set(re.findall(r"`scripts/soak ([a-z]+)", _read("docs/contributing/trials.md")))
    assert named
    assert named - set(re.findall(r"^  ([a-z]+)\)", _read("scripts/soak"), re.MULTILINE)) == set()


def test_the_navigation_of_the_site_has_every_page_once() -> None:
    """Records of decisions are reached through their index."""
    listed = re.findall(r"^ +- (?:Home: )?(\S+\.md)$", _read("mkdocs.yml"), re.MULTILINE)
    pages = [path.relative_to(ROOT / "docs") for path in ROOT.glob("docs/**/*.md")]
    records = [path for path in pages if path.parent.name == "decisions" and path.name != "index.md"]
    assert sorted(listed) == sorted(str(path) for path in pages if path not in records)


@cache
def _anchors(path: Path) -> frozenset[str]:
    """Return the anchors of the headings of a page, as GitHub derives them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", path.read_text("utf-8")), re.MULTILINE)
    return frozenset(re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings)


@pytest.mark.parametrize("name", [*PAGES, "SECURITY.md", "CHANGELOG.md"])
def test_links_and_their_anchors_exist(name: str) -> None:
    page = ROOT / name
    links = [(page.parent / path if path else page, anchor) for path, anchor in LINK.findall(_read(name))]
    assert [path for path, _ in links if not path.exists()] == []
    assert [(path, anchor) for path, anchor in links if anchor and anchor not in _anchors(path.resolve())] == []


def test_the_changelog_has_one_short_line_for_each_change_below_its_version() -> None:
    """The format is Keep a Changelog."""
    _, *versions = re.split(r"^## ", _read("CHANGELOG.md"), flags=re.MULTILINE)
    for version in versions:
        heading, *sections = version.split("\n\n### ")
        assert re.fullmatch(r"\d+\.\d+\.\d+ \((unreleased|\d{4}-\d\d-\d\d)\)|0\.1\.0", heading)
        kinds, entries = zip(*(section.rstrip().split("\n\n", 1) for section in sections), strict=True)
        assert list(kinds) == [kind for kind in CHANGES if kind in kinds]
        assert [
            line
            for line in "\n".join(entries).split("\n")
            if len(line) > 160 or not re.fullmatch(r"- [`\[A-Z].*\S: .*\.", line)
        ] == []


def test_every_exit_code_has_a_meaning() -> None:
    assert set(MEANINGS) == set(Exit)


def test_every_variable_that_the_product_reads_is_in_the_reference() -> None:
    named = {name for source in product() for name in re.findall(r'"(AGENT_[A-Z_]*[A-Z])"', source.text)}
    internal = {name for name in named if INTERNAL_VARIABLES.fullmatch(name)}
    assert named - internal == {name for name in VARIABLES if name.startswith("AGENT_")}


@cache
def _marked(name: str) -> frozenset[str]:
    text = _read(name)
    marked = {one for ids in MARKER.findall(text) for one in re.findall(r"\w+", ids)}
    return frozenset(marked if Path(name).name.startswith("test_") else marked | set(ID.findall(text)))


@pytest.mark.parametrize(("row", "proofs"), PROOFS.items())
def test_a_row_names_few_tests_and_each_carries_its_id(row: str, proofs: tuple[str, ...]) -> None:
    """A promise without a test is a hope, and a test must know what it proves."""
    assert len(proofs) <= 3
    assert [path for path in proofs if row not in _marked(path)] == []


def test_a_row_without_tests_has_a_reason() -> None:
    assert [row.id for row in promises_page.read_promises().promises if not row.tests] == []
    faults = [fault for family in promises_page.read_promises().faults for fault in family.rows]
    assert [fault.id for fault in faults if bool(fault.tests) == (len(fault.reason.split()) > 3)] == []


LISTED: Final = {
    "P": " ".join(map(str, range(1, 94))),
    "PF": "01 02 03 04 05 07 09 11 12 13 14 15 16 17 18 19 20 21 22 24 25 26 27 28",
    "IF": "01 02 03 04 05 07 08 09 10 12 13 14 15 16 17",
    "SF": "01 02 03 04 05 07 08 09 10 11 12 13 14 15 17 18 19 20 21 22 23",
    "TF": "01 02 03 04 05 06 07 08 09 10 11 12 13 14 15 18 19 20 21",
    "CF": "01 02 03 04 05 06 07 08 09 10 11 12 13 14 15 16 18 20 21",
    "HF": "01 03 04 05 06 07 08 09 11 12 13 14 15 17 18 19 20 21 24 26 27 28",
    "LF": "01 04 05 07",
    "XF": "01 03 04 05 06 07 10 12 13 14 15 16 18 19 22 23",
}
"""Promises; faults of processes, frames, storage, schedules, configuration, HTTP, load, strangers. It may only grow."""


def test_no_row_is_lost_or_there_twice() -> None:
    data = promises_page.read_promises()
    rows = [*(row.id for row in data.promises), *(fault.id for family in data.faults for fault in family.rows)]
    assert rows == [f"{family}{number}" for family, all_ in LISTED.items() for number in all_.split()]


def test_decisions_are_numbered_and_have_a_status() -> None:
    records = decisions_page.decisions()
    assert [f"{one.topic:02}-{one.number:02}-" for one in records] == [one.file[:6] for one in records]
    for topic in range(1, len(decisions_page.TOPICS) + 1):
        numbers = [one.number for one in records if one.topic == topic]
        assert numbers == list(range(1, len(numbers) + 1))
        assert numbers
    assert [one.file for one in records if not decisions_page.STATUS.fullmatch(one.status)] == []


def test_the_architecture_is_read_at_one_go() -> None:
    """docs/contributing/architecture.md has one diagram, and says what there is before how it is fast."""
    text = _read("docs/contributing/architecture.md")
    assert text.count("```mermaid") == 1
    assert len(text.splitlines()) <= 120
