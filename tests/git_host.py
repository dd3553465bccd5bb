"""A host of git repositories on this machine: the real ``git http-backend`` behind a small HTTP server."""

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests.builders.git import git
from tests.builders.http_server import Asked, Reply, serving

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
        return git(self.work, *words, environ={"HOME": str(self.folder)})

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

    def answer(self, asked: Asked) -> Reply:
        """CGI (RFC 3875), as far as git http-backend needs it."""
        address = urlsplit(asked.path)
        self.asked.append(address.path)
        if self.redirect_to is not None:
            return Reply(302, fields={"Location": self.redirect_to + asked.path})
        if self.authorization not in (None, asked.fields.get("authorization")):
            return Reply(401, fields={"WWW-Authenticate": 'Basic realm="git"'})
        environ = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "REQUEST_METHOD": asked.method,
            "PATH_INFO": address.path,
            "QUERY_STRING": address.query,
            "CONTENT_TYPE": asked.fields.get("content-type", ""),
            "HTTP_CONTENT_ENCODING": asked.fields.get("content-encoding", ""),
            "GIT_PROTOCOL": asked.fields.get("git-protocol", ""),
        }
        done = subprocess.run(("git", "http-backend"), env=environ, input=asked.body, capture_output=True, check=True)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        return Reply(int(fields.pop("Status", "200").split()[0]), content, fields)


@contextmanager
def git_host(folder: Path) -> Generator[GitHost]:
    """Serve an empty repository for the length of the block."""
    host = GitHost(folder)
    host.work.mkdir(parents=True)
    host.git("init", "--quiet", "--initial-branch=main", ".")
    host.git("init", "--quiet", "--bare", "--initial-branch=main", str(folder / f"{SERVED}.git"))
    with serving(host.answer) as host.port:
        yield host
