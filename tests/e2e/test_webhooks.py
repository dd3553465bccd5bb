"""Webhooks with a real kernel: what comes in is worked on, and what came of it is told, each signed."""

import json
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from kernel.policy.webhooks import Signed, is_genuine, key_of, signature_of
from tests.project import Project

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
KEY = key_of(SECRET) or b""


@pytest.mark.promise("P59", "P60")
def test_a_signed_request_is_worked_on_and_its_end_is_told(project: Project) -> None:
    told = threading.Event()
    got: list[Signed] = []

    class Receiver(BaseHTTPRequestHandler):
        """A server elsewhere."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            id_, timestamp, signatures = (self.headers[f"webhook-{name}"] for name in ("id", "timestamp", "signature"))
            got.append(Signed(id_, timestamp, signatures, body))
            self.send_response(204)
            self.end_headers()
            told.set()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    project.agent("alice", "text: done")
    project.write(
        "moniro.yaml",
        "hooks: {note: {to: alice, secret: $S}}\nwebhooks:\n"
        f"  - url: 'http://127.0.0.1:{server.server_port}/'\n"
        "    events: [instruction.ended]\n    secret: $S\n    allow_private: true\n",
    )
    assert project.awk("trust", "--yes").code == 0
    assert project.awk("start", env={"S": SECRET}).code == 0
    body, now = b'{"text": "build 7 failed"}', str(int(time.time()))
    fields = {"webhook-id": "msg_1", "webhook-timestamp": now}
    fields["webhook-signature"] = signature_of(KEY, "msg_1", now, body)
    with urllib.request.urlopen(
        urllib.request.Request(f"{project.record()['url']}/hooks/note", body, fields), timeout=30
    ) as answer:
        assert answer.status == 202
        (instruction,) = json.load(answer)["instruction_ids"]
    assert told.wait(30)
    server.shutdown()
    server.server_close()
    assert is_genuine(KEY, got[0], int(time.time()))
    assert json.loads(got[0].body)["data"]["ids"]["instruction"] == instruction
