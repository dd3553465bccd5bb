"""Standard Webhooks: whose signature counts, and for how long."""

import base64

import pytest

from kernel.policy.webhooks import TOLERANCE_SECONDS, Signed, is_genuine, key_of, signature_of

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID, AT, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
KEY = key_of(SECRET) or b""


def signed(*, id: str = ID, timestamp: str = str(AT), signatures: str = SIGNATURE, body: bytes = BODY) -> Signed:
    """The example of the specification, changed as said."""
    return Signed(id, timestamp, signatures, body)


@pytest.mark.promise("P59")
def test_the_example_of_the_specification_is_signed_as_there() -> None:
    """What other libraries make and check is the same."""
    assert signature_of(KEY, ID, str(AT), BODY) == SIGNATURE
    assert is_genuine(KEY, signed(), AT)


def test_a_secret_is_base64_with_or_without_its_prefix() -> None:
    """What is not is no secret, and least of all an empty one."""
    assert key_of(SECRET) == key_of(SECRET.removeprefix("whsec_")) == key_of(f"{SECRET}\n")
    assert len(KEY) == 24
    assert [key_of(one) for one in ("", "whsec_", "hunter2", "whsec_not base64!", "ünsinn")] == [None] * 5


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
    """Each byte of the id, the time and the body is signed."""
    assert not is_genuine(KEY, forged, AT)
    assert not is_genuine(b"\0" * 24, signed(), AT)


@pytest.mark.promise("P59")
@pytest.mark.parametrize(
    ("id", "timestamp"), [("", str(AT)), ("a b", str(AT)), (ID, "-5"), (ID, "1e9"), (ID, "٣"), (ID, "")]
)
def test_an_id_or_time_of_another_form_does_not_count_whoever_signed_it(id: str, timestamp: str) -> None:
    """The id becomes a key of the log, and the time a number."""
    signatures = signature_of(KEY, id, timestamp, BODY)
    assert not is_genuine(KEY, signed(id=id, timestamp=timestamp, signatures=signatures), AT)


@pytest.mark.promise("P59")
def test_a_signature_counts_for_five_minutes_in_either_direction() -> None:
    """Who recorded a request cannot send it again tomorrow."""
    assert [is_genuine(KEY, signed(), AT + by * TOLERANCE_SECONDS) for by in (-1, 1)] == [True, True]
    assert [is_genuine(KEY, signed(), AT + by * (TOLERANCE_SECONDS + 1)) for by in (-1, 1)] == [False, False]


def test_a_sender_may_sign_with_an_old_and_a_new_secret() -> None:
    """Any of several signatures counts."""
    other = signature_of(base64.b64decode("AAAA"), ID, str(AT), BODY)
    assert is_genuine(KEY, signed(signatures=f"{other} v1a,xyz {SIGNATURE}"), AT)
