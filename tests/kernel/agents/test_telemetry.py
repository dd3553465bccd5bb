"""The ``otel`` key of the project file: its mistakes, its demand, and where spans may go."""

import pytest

from kernel.agents.sections import header_fields, may_reach, otel_units, traces_url
from protocol.project import OtelSettings
from tests.kernel.agents.test_nodes import parsed
from tests.kernel.refusals import faults

SOUND = "otel: {endpoint: 'https://otel.example', headers: {authorization: $AUTH}}\n"


@pytest.mark.promise("P79")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("otel.example", "other.example"),
        ("$AUTH", "$OTHER"),
        ("authorization", "x-key"),
        ("}}", "}, content: true}"),
        ("}}", "}, allow_private: true}"),
    ],
)
def test_every_choice_is_a_demand_of_its_own(old: str, new: str) -> None:
    sound, changed = (otel_units(parsed(text)) for text in (SOUND, SOUND.replace(old, new)))
    assert sound[0].digest != changed[0].digest
    assert sound[0].demands == (
        "spans of all work are told to https://otel.example/v1/traces, with the header fields authorization: $AUTH",
    )


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("https://otel.example", "ftp://x", "otel.endpoint"),
        ("https://otel.example", "https://user:pw@x", "otel.endpoint"),
        ("$AUTH", "secret", "otel.headers.authorization"),
        ("authorization", "host", "otel.headers.host"),
        ("authorization", '"a b"', "otel.headers.a b"),
    ],
)
def test_mistakes_are_told_at_their_place(old: str, new: str, where: str) -> None:
    assert [error.where for error in faults(parsed, SOUND.replace(old, new))] == [where]


def test_spans_go_to_the_path_of_the_protocol_and_to_no_private_place_by_a_name() -> None:
    base = {"https://h": "https://h/v1/traces", "http://h:1/a/": "http://h:1/a/v1/traces"}
    base |= {"https://h/v1/traces": "https://h/v1/traces", "https://h/x?k=1": "https://h/x/v1/traces?k=1"}
    for given, url in base.items():
        assert traces_url(OtelSettings(endpoint=given)) == url
    for host in ("127.0.0.1", "[::1]", "10.0.0.7", "localhost"):
        assert may_reach(OtelSettings(endpoint=f"http://{host}:4318"), "127.0.0.1")
    named = OtelSettings(endpoint="http://otel.example")
    assert not may_reach(named, "127.0.0.1")
    assert may_reach(named, "93.184.215.14")
    assert may_reach(OtelSettings(endpoint="http://otel.example", allow_private=True), "10.0.0.7")
    assert header_fields(OtelSettings(endpoint="http://h", headers={"a": "$X"}), {"X": " v\n"}) == {"a": "v"}
