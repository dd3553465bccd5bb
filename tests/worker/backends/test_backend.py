"""What a program is told when it goes on."""

from protocol.ipc import Entry, Granted, Json
from tests.worker.fake_kernel import make_start
from worker.backends.backend import GO_ON, resume_prompt
from worker.conversation import Conversation


def test_a_call_that_was_approved_meanwhile_is_told_with_its_arguments() -> None:
    """Its program was gone when somebody said yes: without the same call again it would never run."""
    begun = Conversation(make_start(message="go", entries=(Entry(k=0, kind="reply", text="half"),)))
    told = resume_prompt(begun, (Granted(tool="Bash", input=Json(b'{"command":"make"}')),))
    assert told.startswith(GO_ON)
    assert "did not run. It is approved now" in told and 'Bash with {"command":"make"}' in told
    assert resume_prompt(begun) == GO_ON


def test_a_call_that_was_denied_meanwhile_is_told_with_the_reason() -> None:
    begun = Conversation(make_start(message="go", entries=(Entry(k=0, kind="reply", text="half"),)))
    told = resume_prompt(begun, (Granted(tool="Bash", input=Json(b'{"command":"make"}'), denied="not on Friday"),))
    assert "It is denied (not on Friday)" in told
    assert 'Bash with {"command":"make"}' in told
    assert "approved now" not in told
