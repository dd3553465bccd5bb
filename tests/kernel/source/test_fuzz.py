"""Whatever is in a file: success or BadDefinition, and quickly."""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernel.agents.definition import AGENT_SHAPES, NameSource, check_agent, convert_agent
from kernel.source.convert import Converter
from kernel.source.diagnostics import BadDefinition
from kernel.source.files import tree_of
from protocol.agent import AgentDefinition
from protocol.api.document import FileError
from protocol.project import ProjectDefinition

EXAMPLES = settings.get_profile("untimed").max_examples
_KEYS = [info.encode_name for info in msgspec.structs.fields(AgentDefinition)]
_WORDS = st.sampled_from(
    [
        "no",
        "~",
        "12:30",
        "010",
        "1e3",
        "sdk",
        "mock",
        "mock/x",
        "anthropic/claude-sonnet-5-5",
        "10m",
        "-1",
        "SIGKILL",
        "(",
    ]
)
_PIECES = st.sampled_from(
    [
        *("a", ": ", "\n", "  ", "- ", "[", "]", "{", "}", ",", "&x ", "*x", "!t ", "|", ">", "'", '"', "#", "? "),
        *("---\n", "\t", "<<", "\\", "%", "é", "\0"),
    ]
)
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    _WORDS,
    st.text(max_size=8),
)
_INNER_KEYS = st.sampled_from(
    ["do", "when", "tool", "args", "text", "exit", "error", "system", "times", "name", "base_url"]
)
_VALUES: st.SearchStrategy[Any] = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_INNER_KEYS, inner, max_size=4)),
    max_leaves=12,
)


def load(data: bytes) -> None:
    """What the catalog does with a file's bytes; what it refuses it must have located."""
    errors: tuple[FileError, ...] = ()
    try:
        node, problems = tree_of(data, "alice.yaml")
        definition = convert_agent(node, NameSource("alice", "asked for"), Converter(problems, AGENT_SHAPES), problems)
        if definition is not None:
            check_agent(definition, node, ProjectDefinition(), problems)
        errors = problems.errors
        assert errors or definition is not None
    except BadDefinition as bad:
        errors = bad.errors
    assert all(error.line >= 1 and error.column >= 1 and error.message for error in errors)


@pytest.mark.promise("CF01", "CF02", "CF03", "CF04", "CF05", "CF06")
@settings(max_examples=2 * EXAMPLES)
@given(st.binary(max_size=200))
def test_any_bytes_load_or_are_refused(data: bytes) -> None:
    load(data)


@pytest.mark.promise("CF01", "CF02", "CF03", "CF04", "CF05", "CF06")
@pytest.mark.slow
@settings(max_examples=2 * EXAMPLES)
@given(st.lists(_PIECES, max_size=40).map("".join))
def test_anything_that_looks_like_yaml_loads_or_is_refused(text: str) -> None:
    load(text.encode())


@pytest.mark.promise("CF06", "CF07")
@pytest.mark.slow
@settings(max_examples=2 * EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from([*_KEYS, "promt", "memory"]), _VALUES, max_size=6))
def test_any_values_under_known_keys_load_or_are_refused(document: dict[str, Any]) -> None:
    load(msgspec.json.encode(document))
