"""Benchmark of another framework in its own environment: ``python peer_program.py langgraph|dbos FOLDER``.

The program reads requests, one JSON object per line: ``{"do": "messages" | "clients" | "steps", ...}``. It answers each
request with one line of JSON. A message counts as answered when its reply is durable. Each message gets a new thread
(langgraph) or workflow (dbos), which is the fastest way in both frameworks.
"""

import importlib
import json
import sqlite3
import sys
import threading
import time
import uuid
from collections.abc import Callable
from operator import add
from typing import Annotated, Any, TypedDict


class Said(TypedDict):
    """State of a langgraph thread: its messages, and the number of steps left."""

    said: Annotated[list[str], add]
    left: int


def langgraph(folder: str) -> tuple[Callable[[], object], Callable[[int], object]]:
    """Return two functions for langgraph with SqliteSaver: answer a message; run the given number of steps.

    Each step is saved before the next step starts.
    """
    graphs: Any = importlib.import_module("langgraph.graph")
    savers: Any = importlib.import_module("langgraph.checkpoint.sqlite")
    saver = savers.SqliteSaver(sqlite3.connect(f"{folder}/langgraph.db", check_same_thread=False))
    saver.setup()

    def reply(state: Said) -> dict[str, Any]:
        return {"said": ["hi"], "left": state["left"] - 1}

    def whole(edges: Callable[[Any], object]) -> Any:
        graph = graphs.StateGraph(Said)
        graph.add_node("reply", reply)
        graph.add_edge(graphs.START, "reply")
        edges(graph)
        return graph.compile(checkpointer=saver)

    once = whole(lambda graph: graph.add_edge("reply", graphs.END))

    def following(state: Said) -> Any:
        return "reply" if state["left"] > 0 else graphs.END

    more = whole(lambda graph: graph.add_conditional_edges("reply", following, ["reply", graphs.END]))

    def run(graph: Any, steps: int) -> None:
        config = {"configurable": {"thread_id": uuid.uuid4().hex}, "recursion_limit": steps + 5}
        graph.invoke({"said": ["hello"], "left": steps}, config, durability="sync")

    return lambda: run(once, 1), lambda steps: run(more, steps)


def dbos(folder: str) -> tuple[Callable[[], object], Callable[[int], object]]:
    """Return two functions for dbos with SQLite: answer a message; run the given number of durable steps."""
    module: Any = importlib.import_module("dbos")
    base: Any = module.DBOS
    base(config={"name": "bench", "system_database_url": f"sqlite:///{folder}/dbos.db", "run_admin_server": False})

    @base.step()  # type: ignore[untyped-decorator]
    def reply(text: str) -> str:
        return f"{text}: hi"

    @base.workflow()  # type: ignore[untyped-decorator]
    def run(steps: int) -> str:
        return str([reply("hello") for _ in range(steps)][-1])

    base.launch()
    return lambda: run(1), run


def rate(work: Callable[[], object], clients: int, seconds: float) -> float:
    """Return the calls of ``work`` per second by ``clients`` threads."""
    counts = [0] * clients
    gate = threading.Barrier(clients + 1)

    def repeat(number: int) -> None:
        work()
        gate.wait()
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            work()
            counts[number] += 1

    threads = [threading.Thread(target=repeat, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    gate.wait()
    begin = time.perf_counter()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - begin)


def main(peer: str, folder: str) -> None:
    """Answer the requests on standard input until it ends."""
    message, steps = {"langgraph": langgraph, "dbos": dbos}[peer](folder)
    answers = sys.stdout
    sys.stdout = sys.stderr  # output of the framework must not mix with answers
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["do"] == "messages":
            taken: list[float] = []
            for _ in range(asked["times"]):
                begin = time.perf_counter()
                message()
                taken.append((time.perf_counter() - begin) * 1000)
            answer: object = taken
        elif asked["do"] == "clients":
            answer = rate(message, asked["clients"], asked["seconds"])
        else:
            begin = time.perf_counter()
            steps(asked["times"])
            answer = asked["times"] / (time.perf_counter() - begin)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
