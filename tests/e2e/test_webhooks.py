"""Webhooks with a real kernel: what comes in is worked on, and what came of it is told, each signed."""

import json
import time
import urllib.request
from queue import Queue

import pytest

from kernel.policy.webhooks import Signed, is_genuine, key_of, signature_of
from tests.builders.http_server import Asked, Reply, serving
from tests.project import Project

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
KEY = key_of(SECRET) or b""


@pytest.mark.promise("P59", "P60")
def test_a_signed_request_is_worked_on_and_its_end_is_told(project: Project) -> None:
    told: Queue[Signed] = Queue()

    def take(asked: Asked) -> Reply:
        id_, timestamp, signatures = (asked.fields[f"webhook-{name}"] for name in ("id", "timestamp", "signature"))
        told.put(Signed(id_, timestamp, signatures, asked.body))
        return Reply(204)

    project.agent("alice", "text: done")
    with serving(take) as port:
        project.write(
            "moniro.yaml",
            "hooks: {note: {to: alice, secret: $S}}\nwebhooks:\n"
            f"  - url: 'http://127.0.0.1:{port}/'\n"
            "    events: [instruction.ended]\n    secret: $S\n    allow_private: true\n",
        )
        assert project.awk("trust", "--yes").code == 0
        assert project.awk("start", env={"S": SECRET}).code == 0
        body, now = b'{"text": "build 7 failed"}', str(int(time.time()))
        fields = {"webhook-id": "msg_1", "webhook-timestamp": now}
        fields["webhook-signature"] = signature_of(KEY, "msg_1", now, body)
        url = f"{project.record()['url']}/hooks/note"
        with urllib.request.urlopen(urllib.request.Request(url, body, fields), timeout=30) as answer:
            assert answer.status == 202
            (instruction,) = json.load(answer)["instruction_ids"]
        got = told.get(timeout=30)
    assert is_genuine(KEY, got, int(time.time()))
    assert json.loads(got.body)["data"]["ids"]["instruction"] == instruction
