"""Standard Webhooks: whose signature counts and for how long; where a delivery may go, and when it is tried again."""

import base64
import math

import pytest

from kernel.policy.webhooks import (
    TOLERANCE_SECONDS,
    Signed,
    is_genuine,
    is_public,
    key_of,
    payload,
    rest_seconds,
    signature_of,
    verdict_of,
)
from protocol.message import Event
from protocol.text import encode_json

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID, AT, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
KEY = key_of(SECRET) or b""


def signed(*, id: str = ID, timestamp: str = str(AT), signatures: str = SIGNATURE, body: bytes = BODY) -> Signed:
    """The example of the specification, changed as said."""
    return Signed(id, timestamp, signatures, body)


@pytest.mark.promise("P59")
def test_the_example_of_the_specification_is_signed_as_there() -> None:
    assert signature_of(KEY, ID, str(AT), BODY) == SIGNATURE
    assert is_genuine(KEY, signed(), AT)


def test_a_secret_is_base64_with_or_without_its_prefix() -> None:
    assert key_of(SECRET) == key_of(SECRET.removeprefix("whsec_")) == key_of(f"{SECRET}\n")
    assert len(KEY) == 24
    short = f"whsec_{base64.b64encode(bytes(23)).decode()}"
    assert [key_of(one) for one in ("", "whsec_", "hunter2", "whsec_not base64!", "ünsinn", "abcd", short)] == [
        None
    ] * 7


@pytest.mark.promise("P59")
@pytest.mark.parametrize(
    "forged",
    [
        signed(body=b'{"test": 2432232315}'),
        signed(id="msg_other"),
        signed(timestamp=str(AT + 1)),
        signed(signatures=""),
        signed(signatures="v1,"),
        signed(signatures=SIGNATURE.replace("v1,", "v2,")),
        signed(signatures=SIGNATURE.removeprefix("v1,")),
        signed(signatures="v1,é"),
        signed(signatures=" ".join(["v1,x"] * 1000 + [SIGNATURE])),
    ],
)
def test_what_was_not_signed_so_does_not_count(forged: Signed) -> None:
    assert not is_genuine(KEY, forged, AT)
    assert not is_genuine(b"\0" * 24, signed(), AT)


@pytest.mark.promise("P59")
@pytest.mark.parametrize(
    ("id", "timestamp"), [("", str(AT)), ("a b", str(AT)), (ID, "-5"), (ID, "1e9"), (ID, "٣"), (ID, "")]
)
def test_an_id_or_time_of_another_form_does_not_count_whoever_signed_it(id: str, timestamp: str) -> None:
    signatures = signature_of(KEY, id, timestamp, BODY)
    assert not is_genuine(KEY, signed(id=id, timestamp=timestamp, signatures=signatures), AT)


@pytest.mark.promise("P59")
def test_a_signature_counts_for_five_minutes_in_either_direction() -> None:
    assert [is_genuine(KEY, signed(), AT + by * TOLERANCE_SECONDS) for by in (-1, 1)] == [True, True]
    assert [is_genuine(KEY, signed(), AT + by * (TOLERANCE_SECONDS + 1)) for by in (-1, 1)] == [False, False]


def test_a_sender_may_sign_with_an_old_and_a_new_secret() -> None:
    other = signature_of(base64.b64decode("AAAA"), ID, str(AT), BODY)
    assert is_genuine(KEY, signed(signatures=f"{other} v1a,xyz {SIGNATURE}"), AT)


@pytest.mark.promise("P60")
def test_a_delivery_is_tried_nine_times_over_two_days() -> None:
    """After 5 s, 30 s, 5 min, 30 min, 2 h, 5 h, 10 h and 24 h; then never again."""
    verdicts = [verdict_of(500, tries) for tries in range(10)]
    assert [one.seconds for one in verdicts] == [5, 30, 300, 1800, 7200, 18000, 36000, 86400, 0, 0]
    assert [one.kind for one in verdicts] == ["again"] * 8 + ["given_up"] * 2


@pytest.mark.promise("P60")
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (200, "delivered"),
        (204, "delivered"),
        (301, "again"),
        (307, "again"),
        (404, "again"),
        (410, "disabled"),
        (None, "again"),
    ],
)
def test_a_status_decides(status: int | None, kind: str) -> None:
    """What is no success is a failure, a redirect too; 410 says that nobody is there for good."""
    assert verdict_of(status, 0).kind == kind


@pytest.mark.promise("P60")
@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.1.2.3", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
        "224.0.0.1", "240.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2001:db8::1",
    ],
)  # fmt: skip
def test_addresses_of_this_machine_and_its_networks_are_not_public(address: str) -> None:
    """Also where IPv6 carries them inside."""
    assert not is_public(address)


def test_addresses_of_the_world_are_public() -> None:
    assert all(map(is_public, ("1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101")))


def test_a_delivery_holds_ids_and_nobodys_words() -> None:
    """What was said is read with the token, where the link leads; so a body is far below 20 kB."""
    said = Event(
        type="message", at="t", seq=7, space="review:main", agent="bob", data={"seq": 5, "text": "secret" * 9999}
    )
    assert payload(said, "http://h") == {
        "type": "message",
        "timestamp": "t",
        "data": {
            "ids": {"event": 7, "message": "m5"},
            "space": "review:main",
            "agent": "bob",
            "link": "http://h/messages/m5",
        },
    }
    ended = Event(
        type="instruction.ended", at="t", seq=8, instruction="i3", data={"text": "secret" * 9999, "run": "r1"}
    )
    body = payload(ended, "http://h")
    assert body["data"]["ids"] == {"event": 8, "instruction": "i3", "run": "r1"}
    assert body["data"]["link"] == "http://h/instructions/i3"
    assert len(encode_json(body)) < 20_000


def test_the_next_retry_is_waited_for_also_while_its_webhook_is_busy() -> None:
    retries = {"a": 5_000, "b": 1_000, "c": None}
    assert rest_seconds(retries, (), 500) == rest_seconds(retries, ("a", "b"), 500) == 0.5
    assert (rest_seconds(retries, ("b",), 1_000), rest_seconds(retries, (), 1_000)) == (4.0, 0.0)
    assert rest_seconds({"c": None}, (), 0) == math.inf
