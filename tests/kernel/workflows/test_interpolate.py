"""Interpolation: each name once, values never looked into, never code for a shell."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.workflows.templates import expand, expand_shell, variables


@pytest.mark.promise("CF14")
def test_every_variable_is_replaced_once() -> None:
    assert expand("${{ a }}-${{b}}-${{ a }}", {"a": "${{ b }}", "b": "x"}) == "${{ b }}-x-${{ b }}"


def test_other_dollars_and_braces_stay() -> None:
    text = "$a ${a} {{ a }} $${a} }} {"
    assert expand(text, {}) == text
    assert variables(text) == ()


@given(st.text(alphabet="ab$ {}.\n'\"", max_size=40))
def test_any_text_has_variables_in_order_that_tell_where_they_are(text: str) -> None:
    position = 0
    for variable in variables(text):
        assert variable.start >= position
        assert text[variable.start : variable.end] == variable.written
        position = variable.end


def run(command: str, value: str) -> str:
    """What sh prints for ``command`` with ``value`` as ``x``."""
    text = expand_shell(command, {"x": value})
    done = subprocess.run(
        ["/bin/sh", "-c", text.command], env=text.environment, capture_output=True, check=True, timeout=10
    )
    return done.stdout.decode()


@pytest.mark.parametrize("command", ['printf %s "${{ x }}"', "printf %s '${{ x }}'", 'printf %s "it\'s ${{ x }}"'])
def test_a_value_in_a_command_is_one_word_of_data(command: str) -> None:
    hostile = "a'b\"c $(touch x) `id` ; echo \\ *\n${x} %s"
    assert run(command, hostile).removeprefix("it's ") == hostile


def test_a_value_without_quotes_splits_as_a_shell_variable_does() -> None:
    assert run("printf '<%s>' ${{ x }}", "a b;id $(id)") == "<a><b;id><$(id)>"


@settings(max_examples=15, deadline=None)
@given(st.text(alphabet="'\"\\$ ab", max_size=6), st.text(alphabet="'\"\\$ ab", max_size=6))
def test_no_quoting_of_the_author_turns_a_value_into_code(before: str, after: str) -> None:
    """Whatever the guess about quotes, the marker is never executed."""
    text = expand_shell(f"printf %s {before}${{{{ x }}}}{after}", {"x": "$(echo EXECUTED | tr A-Z a-z)"})
    argv = ["/bin/sh", "-c", text.command]
    done = subprocess.run(argv, env=text.environment, capture_output=True, check=False, timeout=10)
    assert b"executed" not in done.stdout
