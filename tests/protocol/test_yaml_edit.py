"""Single values of a YAML file are changed; every other byte of it stays."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from protocol import yaml_edit
from protocol.yaml_edit import NotYaml, Raw, Uneditable, read, with_value, without_value, without_values
from protocol.yaml_writer import document

FILE = """\
# What alice is
model: "anthropic/a"   # the cheap one
prompt:
  # said first
  system: |
    Be kind.

    Always.

# who she is
soul: { role: reviewer,  expertise: [a,  'b'] } # flow
timeouts:
    idle:   5m
    total: 1h # long
env:
mock:
- when: x
  do: [ {text: hi} ]
# the end
"""


@pytest.mark.parametrize(
    ("path", "value", "before", "after"),
    [
        ("model", "openai/b", '"anthropic/a"', "openai/b"),
        ("model", "a: b", '"anthropic/a"', '"a: b"'),
        ("timeouts.idle", "10m", "idle:   5m", "idle:   10m"),
        ("timeouts.tool", Raw("30"), "total: 1h # long", "total: 1h # long\n    tool: 30"),
        ("soul.role", "a, b", "role: reviewer", 'role: "a, b"'),
        ("soul.style", "x", "[a,  'b'] }", "[a,  'b'], style: x }"),
        ("soul.expertise", Raw("[c]"), "[a,  'b']", "[c]"),
        ("prompt.system", "short", "|\n    Be kind.\n\n    Always.\n", "short\n"),
        ("prompt.system", "two\nlines", "|\n    Be kind.\n\n    Always.\n", "|-\n    two\n    lines\n"),
        ("env", Raw("[HOME]"), "env:\n", "env: [HOME]\n"),
        ("max_steps", Raw("7"), "do: [ {text: hi} ]\n", "do: [ {text: hi} ]\nmax_steps: 7\n"),
        ("retry.attempts", Raw("2"), "do: [ {text: hi} ]\n", "do: [ {text: hi} ]\nretry:\n  attempts: 2\n"),
        ("env.a", "b", "env:\n", "env:\n  a: b\n"),
        ("model", "a\nb", '"anthropic/a"   # the cheap one', "|-   # the cheap one\n  a\n  b"),
    ],
)
def test_one_value_changes_and_nothing_else(path: str, value: str | Raw, before: str, after: str) -> None:
    assert with_value(FILE, path.split("."), value) == FILE.replace(before, after)
    windows = FILE.replace("\n", "\r\n")
    assert with_value(windows, path.split("."), value) == windows.replace(
        before.replace("\n", "\r\n"), after.replace("\n", "\r\n")
    )


@pytest.mark.parametrize(
    ("path", "gone"),
    [
        ("model", 'model: "anthropic/a"   # the cheap one\n'),
        ("timeouts.idle", "    idle:   5m\n"),
        ("soul.role", "role: reviewer,  "),
        ("soul.expertise", ",  expertise: [a,  'b']"),
        ("env", "env:\n"),
        ("prompt.system", "prompt:\n  # said first\n  system: |\n    Be kind.\n\n    Always.\n"),
    ],
)
def test_a_key_goes_and_nothing_else(path: str, gone: str) -> None:
    assert without_value(FILE, path.split(".")) == FILE.replace(gone, "")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@given(gone=st.sets(st.sampled_from(["model", "prompt", "soul", "timeouts", "env", "mock", "never there"])))
def test_many_keys_go_as_one_after_the_other(newline: str, gone: set[str]) -> None:
    source = FILE.replace("\n", newline)
    after = source
    for key in gone - {"never there"}:
        after = without_value(after, [key])
    assert without_values(source, gone) == after
    flow = "{a: 1, b: 2, c: 3}\n"
    assert read(without_values(flow, {"a", "c"})) == {"b": "2"}
    with pytest.raises(Uneditable):
        without_values("a: &x 1\nb: *x\n", {"a"})
    assert without_values("a: 1\na: 2\nb: 3\n", {"a"}) == "b: 3\n"


def test_a_thousand_keys_go_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    readings: list[str] = []
    read = yaml_edit.composed

    def composed(text: str) -> yaml.Node | None:
        readings.append(text)
        return read(text)

    monkeypatch.setattr(yaml_edit, "composed", composed)
    source = "".join(f"k{number}: v\n" for number in range(1001))
    assert without_values(source, {f"k{number}" for number in range(1000)}) == "k1000: v\n"
    assert len(readings) == 2


def test_a_file_of_comments_gets_its_first_key() -> None:
    assert with_value("# mine", ["a"], "b") == "# mine\na: b\n"
    assert with_value("", ["a", "b"], Raw("1")) == "a:\n  b: 1\n"
    assert without_value("a: b\n", ["a"]) == ""


def test_what_cannot_be_edited_is_refused_and_not_guessed() -> None:
    for text, path in [("a: &x {b: 1}\nc: *x\n", "c.b"), ("a: b\n", "a.b"), ("a: 1\na: 2\n", "a"), ("- a\n", "a")]:
        with pytest.raises(Uneditable):
            with_value(text, path.split("."), "n")
    with pytest.raises(Uneditable):
        without_value("a: &x 1\nb: *x\n", ["a"])
    with pytest.raises(KeyError):
        without_value("a: 1\n", ["b"])


@pytest.mark.promise("CF01", "CF03", "CF04")
@pytest.mark.parametrize("text", ["[" * 5000, "a: &a [*a]", "&a [x]: *b", "a: 'x", "a: b\n---\nc: d", "a: \ud800"])
def test_what_is_no_yaml_is_said(text: str) -> None:
    with pytest.raises((NotYaml, Uneditable)):
        with_value(text, ["k"], "v")


@pytest.mark.promise("CF01")
def test_an_alias_bomb_ends_early() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(NotYaml):
        read("\n".join(lines))


@pytest.mark.promise("CF02")
def test_nothing_is_constructed() -> None:
    assert read("!!python/object/apply:os.system ['touch x']") == ["touch x"]
    assert not Path("x").exists()


KEYS = st.sampled_from(["a", "b", "c", "no", "x y"])
DATA = st.recursive(
    st.text("ab :#\n'\"-", max_size=8), lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)


@given(
    st.dictionaries(KEYS, DATA, max_size=4),
    st.lists(KEYS, min_size=1, max_size=3),
    st.text("ab :#\n'\"-,]", max_size=9),
)
def test_any_change_of_any_mapping_is_what_was_meant(data: dict[str, object], path: list[str], value: str) -> None:
    text = document(data)  # type: ignore[arg-type]
    try:
        after = with_value(text, path, value)
    except Uneditable:
        assert _leads_through_a_text(data, path)
        return
    found = read(after)
    for key in path:
        assert isinstance(found, dict)
        found = found[key]
    assert found == value
    without_value(after, path)


def _leads_through_a_text(data: object, path: list[str]) -> bool:
    for key in path[:-1]:
        if not isinstance(data, dict) or key not in data:
            return False
        data = data[key]
        if isinstance(data, str):
            return True
    return False
