"""Stands for claude where an agent works with a login: says what it was given, renews it, waits when told to.

Run with the folder it leaves word in, then the program's own arguments; its Daemon MCP is visited for real.
"""

import json
import os
import sys
import time
import urllib.request
from pathlib import Path

from tests.worker.backends.fake_cli import visit


def main(notes: Path) -> None:
    """Be the program once. ``notes`` may hold ``renew`` (what to write in its login), ``wait``, and ``ask``."""
    login = Path(os.environ["CLAUDE_CONFIG_DIR"]) / ".credentials.json"
    began = time.monotonic_ns()
    held = login.read_text() if login.exists() else None
    renew, wait = notes / "renew", notes / "wait"
    if renew.exists():
        login.write_text(renew.read_text())
    number = len(list(notes.glob("*.began")))
    (notes / f"{number}.began").write_text(json.dumps(held))
    visit([])
    say(type="system", subtype="init", session_id="s", mcp_servers=[{"name": "daemon", "status": "connected"}])
    while (notes / "ask").exists():
        ask(json.loads(held or "{}")["claudeAiOauth"]["accessToken"])
    if wait.exists():
        wait.read_bytes()  # a pipe
    word = {"held": held, "argv": sys.argv, "env": dict(os.environ), "began": began, "ended": time.monotonic_ns()}
    (notes / f"{number}.part").write_text(json.dumps(word))
    (notes / f"{number}.part").rename(notes / f"{number}.json")
    say(type="result", subtype="success", is_error=False, result="done", num_turns=1, session_id="s")


def ask(token: str) -> None:
    """Ask the model as a program with a login does."""
    url, fields = f"{os.environ['ANTHROPIC_BASE_URL']}/v1/messages?beta=true", {"authorization": f"Bearer {token}"}
    request = urllib.request.Request(url, json.dumps({"model": "claude-haiku-4-5"}).encode(), fields, method="POST")
    with urllib.request.urlopen(request) as response:
        response.read()


def say(**line: object) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv.pop(1)))
