"""A process that starts as a kernel does: lock, port, record, health. What it does beyond is in its arguments.

Run as a script: ``fake_kernel.py STATE_DIR BEHAVIOUR``, with BEHAVIOUR one of serve, brief (ends with 5 when its
first client has gone), fail, fail-config, gives-way (to a kernel that has the lock).

Fifty are started at once, and one of them serves: what only that one needs is imported once it has the lock.
"""

import fcntl
import os
import sys


def serve(state: str, *, brief: bool) -> None:
    """Prove itself to whoever asks; any POST with the token ends the process."""
    import hashlib
    import hmac
    import json
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    from urllib.parse import parse_qs, urlsplit

    token = os.urandom(8).hex()

    class Health(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def finish(self) -> None:
            super().finish()
            if brief:
                os._exit(5)

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            nonce = parse_qs(urlsplit(self.path).query).get("nonce", [""])[0]
            proof = hmac.new(token.encode(), nonce.encode(), hashlib.sha256).hexdigest()
            self._answer({"status": "ok", "version": "0.1.0", "proof": proof})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self._answer({})
            if self.headers["authorization"] == f"Bearer {token}":
                os._exit(0)

        def _answer(self, body: object) -> None:
            content = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with ThreadingHTTPServer(("127.0.0.1", 0), Health) as server:
        publish(state, f"http://127.0.0.1:{server.server_address[1]}", token)
        server.serve_forever()


def publish(state: str, url: str, token: str) -> None:
    """Tell the test how it was started, and then clients where it is."""
    import json
    from pathlib import Path

    facts = {
        "session": os.getsid(0) == os.getpid(),
        "cwd": os.getcwd(),
        "umask": os.umask(0o077),
        "environ": dict(os.environ),
    }
    Path(state, f"started.{os.getpid()}").write_text(json.dumps(facts))
    draft = Path(state, "record")
    draft.touch(0o600)
    draft.write_text(json.dumps({"pid": os.getpid(), "url": url, "token": token}))
    draft.rename(Path(state, "daemon.json"))


def main(state: str, behaviour: str) -> int:
    if behaviour == "gives-way":
        return 0
    if behaviour.startswith("fail"):
        sys.stderr.write("the database is newer than this program\n")
        return 78 if behaviour == "fail-config" else 1
    lock = os.open(os.path.join(state, "daemon.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0
    serve(state, brief=behaviour == "brief")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
