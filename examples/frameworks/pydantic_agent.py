"""A pydantic-ai agent as a worker of `backend: exec`: its reply is an entry."""

import json
import os
import sys

from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel


def say(**frame):
    print(json.dumps(frame), flush=True)


def hear(*kinds):
    for line in sys.stdin:
        frame = json.loads(line)
        if frame["t"] == "ping":
            say(t="pong", n=frame["n"])
        elif frame["t"] == "stop":
            sys.exit(say(t="error", cause="cancelled", text=f"stopped: {frame['reason']}"))
        elif frame["t"] in kinds:
            return frame
    sys.exit("the kernel is gone")


say(t="ready", pid=os.getpid(), version="1")
start = hear("start")
entries = start.get("entries", []) + [hear("entry") for _ in range(start.get("entries_follow", 0))]
k = start.get("first_k", 0) + len(entries)
if not entries:
    named = start["model"].replace("/", ":", 1)  # anthropic/claude-... is anthropic:claude-... there
    model = named if ":" in named else TestModel()
    run = Agent(model, system_prompt=start["system"]).run_sync(start["message"])
    used = run.usage() if callable(run.usage) else run.usage
    usage = {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens}
    entries = [{"t": "entry", "k": k, "kind": "reply", "text": run.output, "stop_reason": "end_turn", "usage": usage}]
    say(**entries[0])
    hear("go", "yield")  # durable: what comes after a crash goes on behind it
say(t="result", status="done", text=entries[-1]["text"])
