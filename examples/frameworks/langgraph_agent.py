"""A LangGraph graph as a worker of `backend: exec`: each node's result is an entry."""

import json
import os
import sys
from typing import TypedDict

from langgraph.graph import END, START, StateGraph


class State(TypedDict, total=False):
    asked: str
    plan: str
    text: str


def say(**frame):
    print(json.dumps(frame), flush=True)


def hear(*kinds):
    for line in sys.stdin:
        frame = json.loads(line)
        if frame["t"] == "ping":
            say(t="pong", n=frame["n"])
        elif frame["t"] in ("stop", "yield"):
            sys.exit(say(t="result", status="yielded"))
        elif frame["t"] in kinds:
            return frame
    sys.exit("the kernel is gone")


say(t="ready", pid=os.getpid(), version="1")
start = hear("start")
done = start.get("entries", []) + [hear("entry") for _ in range(start.get("entries_follow", 0))]
state = {"asked": start["message"]} | {key: value for one in done for key, value in json.loads(one["text"]).items()}
graph = StateGraph(State)  # your nodes, which call your models; one whose result is known is not run again
graph.add_node("planner", lambda s: {} if "plan" in s else {"plan": f"answer {s['asked']!r} in one line"})
graph.add_node("writer", lambda s: {} if "text" in s else {"text": f"Done as planned: {s['plan']}"})
graph.add_edge(START, "planner").add_edge("planner", "writer").add_edge("writer", END)
for update in graph.compile().stream(state, stream_mode="updates"):
    for result in filter(None, update.values()):
        done.append({"k": start.get("first_k", 0) + len(done), "kind": "reply", "text": json.dumps(result)})
        say(t="entry", stop_reason="end_turn", **done[-1])
        hear("go")  # a yield ends us there, and the next attempt goes on here
        state.update(result)
say(t="result", status="done", text=state["text"])
