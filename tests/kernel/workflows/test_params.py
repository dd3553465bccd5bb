"""Parameters: the words after ``--``."""

import pytest

from kernel.workflows.variables import Value, parse_params, show_value
from protocol.errors import Refused
from protocol.workflow import Param

PARAMS = (
    Param(name="base", short="b", default="main"),
    Param(name="count", type="int", short="n"),
    Param(name="ratio", type="number"),
    Param(name="deep", type="bool", short="d"),
)
NEEDED = (Param(name="pr", required=True), Param(name="repo", required=True))


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("", {"base": "main"}),
        ("--base dev --count 3", {"base": "dev", "count": 3}),
        ("--base=dev=x -n=3", {"base": "dev=x", "count": 3}),
        ("-b dev -n -5 -d", {"base": "dev", "count": -5, "deep": True}),
        ("--deep --base --count", {"deep": True, "base": "--count"}),
        ("--deep=false --ratio 1e-1", {"base": "main", "deep": False, "ratio": 0.1}),
        ("--base=", {"base": ""}),
    ],
)
def test_words_become_typed_values(words: str, values: dict[str, Value]) -> None:
    """contracts 1: params."""
    assert parse_params(PARAMS, words.split()) == values


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--bsae dev", "unknown parameter --bsae (did you mean --base?); 'dev' belongs to no parameter"),
        ("dev", "'dev' belongs to no parameter"),
        ("--base", "--base needs a value"),
        ("--count three", "--count needs a whole number, has 'three'"),
        ("--count 010", "--count needs a whole number, has '010'"),
        ("--deep=yes", "--deep needs true or false, has 'yes'"),
        ("--base a -b c", "--base is given twice"),
    ],
)
def test_wrong_words_are_a_usage_error_with_all_that_is_wrong(words: str, message: str) -> None:
    """contracts 7: exit 2."""
    with pytest.raises(Refused) as caught:
        parse_params(PARAMS, words.split())
    assert (caught.value.code, caught.value.text) == ("bad_request", message)
    shapes = "[-b|--base <string>] [-n|--count <int>] [--ratio <number>] [-d|--deep]"
    assert caught.value.hint == f"parameters after --: {shapes}"


def test_all_that_is_missing_is_told_at_once() -> None:
    with pytest.raises(Refused, match="missing: --pr, --repo"):
        parse_params(NEEDED, ())


def test_a_workflow_without_parameters_takes_none() -> None:
    with pytest.raises(Refused) as caught:
        parse_params((), ("--x",))
    assert caught.value.hint == "this workflow takes no parameters"


def test_values_are_shown_as_they_would_be_typed() -> None:
    assert [show_value(value) for value in (True, False, 3, 0.5, "x")] == ["true", "false", "3", "0.5", "x"]
