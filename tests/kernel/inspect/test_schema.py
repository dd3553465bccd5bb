"""JSON Schemas for editors, and the reference pages: made from the Structs, and in step with the loader."""

from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml

from interface.cli.commands.project_setup import EXAMPLES
from kernel.inspect.reference import reference_page
from kernel.inspect.schema import ROOTS, fields_of, json_schema, texts_of
from kernel.inspect.validate import validate
from protocol.inspection import Kind
from tests.kernel.inspect.files import ALICE, PROJECT, REVIEW, write

SOUND: dict[Kind, tuple[str, str]] = {
    "agent": (".agents/alice.yaml", ALICE),
    "workflow": (".workflows/review.yaml", REVIEW),
    "project": ("moniro.yaml", PROJECT),
}
MOCK_AGENT = """
    backend: mock
    mock:
      - sleep: 200ms
      - exit: SIGKILL
      - exit: { signal: KILL, times: 1 }
      - exit: 3
      - text: done
"""
WRONG: list[tuple[Kind, str]] = [
    ("agent", "prompt: {system: hi}"),
    ("agent", "{model: sonnet, promt: x}"),
    ("agent", "{model: sonnet, prompt: {append: x}}"),
    ("agent", "{model: sonnet, timeouts: {idle: soon}}"),
    ("agent", "{model: sonnet, max_steps: 0}"),
    ("agent", "backend: mock"),
    ("workflow", "kickoff: hi"),
    ("workflow", "agents: {}"),
    ("workflow", "agents: {Bob: {ref: bob}}"),
    ("workflow", "agents: {bob: {ref: bob, soul: {}}}"),
    ("project", "limits: {workers: many}"),
]


def _is_valid(kind: Kind, text: str) -> bool:
    document: Any = yaml.safe_load(text)
    return bool(jsonschema.Draft7Validator(json_schema(kind)).is_valid(document))


@pytest.mark.parametrize("kind", ROOTS)
def test_a_schema_is_one(kind: Kind) -> None:
    schema = json_schema(kind)
    jsonschema.Draft7Validator.check_schema(schema)
    references = {part["$ref"].rpartition("/")[2] for part in _parts(schema) if "$ref" in part}
    assert references == set(schema["$defs"])


def _parts(value: Any) -> list[dict[str, Any]]:
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    own = [value] if isinstance(value, dict) else []
    return own + [part for child in below for part in _parts(child)]


@pytest.mark.parametrize(("kind", "text"), [*((k, t) for k, (_, t) in SOUND.items()), ("agent", MOCK_AGENT)])
def test_what_the_loader_takes_the_schema_takes(kind: Kind, text: str, tmp_path: Path) -> None:
    write(tmp_path, dict(SOUND.values()) | {SOUND[kind][0]: text})
    assert [error for file in validate(tmp_path, tmp_path, [SOUND[kind][0]]).files for error in file.errors] == []
    assert _is_valid(kind, text)


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda path: path.name)
def test_examples_fit_their_schema(path: Path) -> None:
    kind: Kind = "agent" if path.parent.name == ".agents" else "project" if path.name == "moniro.yaml" else "workflow"
    assert _is_valid(kind, path.read_text("utf-8"))


@pytest.mark.parametrize(("kind", "text"), WRONG)
def test_what_an_editor_can_see_is_wrong_is_underlined(kind: Kind, text: str, tmp_path: Path) -> None:
    write(tmp_path, {SOUND[kind][0]: text})
    assert not _is_valid(kind, text)
    assert any(not file.ok for file in validate(tmp_path, tmp_path, [SOUND[kind][0]]).files)


@pytest.mark.parametrize("kind", ROOTS)
def test_every_key_of_every_file_says_what_it_means(kind: Kind) -> None:
    root = ROOTS[kind]
    structs = _structs(root.struct)
    assert [
        f"{struct.__name__}.{one.key}"
        for struct in structs
        for one in fields_of(struct, root.rules)
        if one.name not in texts_of(struct)
    ] == []


def _structs(kind: type[msgspec.Struct]) -> list[type[msgspec.Struct]]:
    found: list[type[msgspec.Struct]] = [kind]
    for struct in found:
        for info in msgspec.structs.fields(struct):
            found += [one for one in _named(info.type) if one not in found]
    return found


def _named(kind: Any) -> list[type[msgspec.Struct]]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return [kind]
    return [one for part in getattr(kind, "__args__", ()) for one in _named(part)]


@pytest.mark.parametrize("kind", ROOTS)
def test_the_page_has_a_row_for_every_key(kind: Kind) -> None:
    """docs/reference: key, shape, default, meaning; links lead to a section of the page."""
    page = reference_page(kind)
    for one in fields_of(ROOTS[kind].struct, ROOTS[kind].rules):
        assert f"| `{one.key}` | " in page
    anchors = {line[3:].lower() for line in page.splitlines() if line.startswith("## ")}
    links = {part.partition(")")[0] for part in page.split("](#")[1:]}
    assert links <= anchors
