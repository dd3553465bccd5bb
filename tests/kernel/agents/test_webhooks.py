"""Webhooks of the project file: mistakes are told with their place, and each is a demand of its own."""

import pytest

from kernel.agents.sections import hook_units
from tests.kernel.agents.test_nodes import parsed
from tests.kernel.refusals import faults

SOUND = """
hooks:
  build: {to: '@review', secret: $A}
webhooks:
  - {url: 'https://ci.example/x', events: [instruction.ended, message], secret: $B}
  - {url: 'http://127.0.0.1:9/', events: ['*'], secret: $B, allow_private: true}
"""


@pytest.mark.promise("P19")
def test_each_webhook_is_a_demand_that_says_who_tells_whom_what() -> None:
    units = tuple(hook_units(parsed(SOUND)))
    assert [(one.subject, one.demands[0]) for one in units] == [
        ("hook build", "whoever knows $A says to @review what comes to /hooks/build"),
        (
            "webhook https://ci.example/x",
            "events instruction.ended, message are told to https://ci.example/x, signed with $B",
        ),
        (
            "webhook http://127.0.0.1:9/",
            "all events are told to http://127.0.0.1:9/, also on this machine and in its networks, signed with $B",
        ),
    ]
    for old, new in (("$A", "$C"), ("@review", "alice"), (", message", ""), (", allow_private: true", "")):
        changed = hook_units(parsed(SOUND.replace(old, new)))
        assert len({one.digest for one in changed} - {one.digest for one in units}) == 1


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("hooks: {Build: {to: alice, secret: $A}}", "hooks.Build"),
        ("hooks: {build: {to: '@', secret: $A}}", "hooks.build.to"),
        ("hooks: {build: {to: alice, secret: hunter2}}", "hooks.build.secret"),
        ("hooks: {build: {to: alice}}", "hooks.build.secret"),
        ("webhooks: [{url: 'ftp://x/', events: ['*'], secret: $A}]", "webhooks[0].url"),
        ("webhooks: [{url: 'https://u:p@x/', events: ['*'], secret: $A}]", "webhooks[0].url"),
        ("webhooks: [{url: 'https://x:99999/', events: ['*'], secret: $A}]", "webhooks[0].url"),
        ('webhooks: [{url: "https://x/\\r\\nA: b", events: [message], secret: $A}]', "webhooks[0].url"),
        ("webhooks: [{url: 'https://x/', events: [], secret: $A}]", "webhooks[0].events"),
        ("webhooks: [{url: 'https://x/', events: [mesage], secret: $A}]", "webhooks[0].events"),
        ("webhooks: [{url: 'https://x/', events: ['*'], secret: whsec_AAAA}]", "webhooks[0].secret"),
    ],
)
def test_a_mistake_is_told_where_it_stands(text: str, where: str) -> None:
    assert [error.where for error in faults(parsed, text)] == [where]


def test_an_address_is_there_once_and_there_are_at_most_twenty() -> None:
    rows = "".join(f"  - {{url: 'https://x/{n % 20}', events: [message], secret: $A}}\n" for n in range(21))
    assert {error.where for error in faults(parsed, f"webhooks:\n{rows}")} == {"webhooks", "webhooks[20].url"}
