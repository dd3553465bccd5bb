"""A host of git repositories on this machine: the real ``git http-backend`` behind a small HTTP server."""

import os
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

SERVED = "owner/flows"


@dataclass
class GitHost:
    """Repositories below ``folder``; the one that is worked on is in ``work``."""

    folder: Path
    asked: list[str] = field(default_factory=list)
    """Paths of the requests that came."""
    port: int = 0
    redirect_to: str | None = None
    """Another host that answers instead."""
    authorization: str | None = None
    """What a request has to bring along to be let in; None: everybody is."""

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def environ(self) -> dict[str, str]:
        """What makes a kernel fetch from here."""
        return {"AGENT_WORKER_GITHUB_URL": f"http://127.0.0.1:{self.port}"}

    def git(self, *words: str) -> str:
        """Run git in the working tree, as nobody in particular."""
        names = {f"GIT_{who}_{what}": "test@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "GIT_CONFIG_GLOBAL": os.devnull, **names}
        done = subprocess.run(("git", *words), cwd=self.work, env=environ, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def write(self, path: str, text: str) -> None:
        (self.work / path).parent.mkdir(parents=True, exist_ok=True)
        (self.work / path).write_text(text)

    def publish(self, tag: str) -> str:
        """Commit everything and move ``tag`` there. Returns the commit."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", "x")
        self.git("tag", "--force", tag)
        self.git("push", "--quiet", "--force", str(self.folder / f"{SERVED}.git"), "HEAD:refs/heads/main", tag)
        return self.git("rev-parse", "HEAD")


@contextmanager
def git_host(folder: Path) -> Generator[GitHost]:
    """Serve an empty repository for the length of the block."""
    host = GitHost(folder)
    host.work.mkdir(parents=True)
    host.git("init", "--quiet", "--initial-branch=main", ".")
    host.git("init", "--quiet", "--bare", "--initial-branch=main", str(folder / f"{SERVED}.git"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handle", (_Handle,), {"host": host}))
    server.daemon_threads = True
    host.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield host
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handle(BaseHTTPRequestHandler):
    """CGI (RFC 3875), as far as git http-backend needs it."""

    host: GitHost

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _serve(self) -> None:
        address = urlsplit(self.path)
        self.host.asked.append(address.path)
        if self.host.redirect_to is not None:
            self.send_response(302)
            self.send_header("Location", self.host.redirect_to + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.host.authorization not in (None, self.headers.get("Authorization")):
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        environ = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.host.folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "REQUEST_METHOD": self.command,
            "PATH_INFO": address.path,
            "QUERY_STRING": address.query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        done = subprocess.run(("git", "http-backend"), env=environ, input=body, capture_output=True, check=True)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = _serve
