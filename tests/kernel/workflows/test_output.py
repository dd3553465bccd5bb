"""The final answer of a run, and the schema that it has to fit."""

from typing import Any

import pytest

from kernel.workflows.schema_check import NotJson, mismatch, read_output

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["verdict"],
    "properties": {"verdict": {"enum": ["ok", "bad"]}, "next": {"$ref": "#"}},
}


@pytest.mark.parametrize(
    ("text", "value"), [('{"a": 1}', {"a": 1}), (" [] ", []), ("```json\n[1]\n```\n", [1]), ("````\n2\n````", 2)]
)
def test_an_answer_is_json_by_itself_or_in_one_fence(text: str, value: Any) -> None:
    assert read_output(text) == value


@pytest.mark.parametrize("text", ["", "Sure! {}", "{} {}", "NaN", "[" * 100_000, "```\n1\n```\n```\n2\n```"])
def test_what_is_not_one_json_value_is_no_answer(text: str) -> None:
    with pytest.raises(NotJson):
        read_output(text)


@pytest.mark.parametrize(
    ("schema", "text", "why"),
    [
        (SCHEMA, '{"verdict": "ok"}', None),
        (SCHEMA, '{"verdict": "ok", "next": {"verdict": "bad"}}', None),
        (SCHEMA, '{"verdict": "so"}', "$.verdict: 'so' is not one of ['ok', 'bad']"),
        (SCHEMA, '{"verdict": "ok", "next": {}}', "$.next: 'verdict' is a required property"),
        (SCHEMA, "fine", "not JSON: Expecting value: line 1 column 1 (char 0)"),
        ({"$ref": "#/$defs/x"}, "1", "output_schema has a broken reference: /$defs/x"),
        ({"$ref": "#"}, "1", "output_schema refers to itself endlessly"),
        ({"$ref": "https://json-schema.org/x"}, "1", "output_schema has a broken reference: https://json-schema"),
    ],
)
def test_why_an_answer_does_not_fit_is_told_with_its_place(schema: dict[str, Any], text: str, why: str | None) -> None:
    found = mismatch(schema, text)
    assert found == why or (found or "").startswith(why or "?")
