"""Stands for claude where an agent works with a login: says what it was given, renews it, waits when told to.

Run with the folder it leaves word in, then the program's own arguments; its Daemon MCP is visited for real.
"""

import json
import os
import sys
import time
from pathlib import Path

from tests.worker.backends.fake_cli import visit


def main(notes: Path) -> None:
    """Be the program once. ``notes`` may hold ``renew`` (what to write in its login) and ``wait``."""
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
    if wait.exists():
        wait.read_bytes()  # a pipe
    word = {"held": held, "argv": sys.argv, "env": dict(os.environ), "began": began, "ended": time.monotonic_ns()}
    (notes / f"{number}.part").write_text(json.dumps(word))
    (notes / f"{number}.part").rename(notes / f"{number}.json")
    say(type="result", subtype="success", is_error=False, result="done", num_turns=1, session_id="s")


def say(**line: object) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv.pop(1)))
