"""Transcripts of random work, through kills of workers and of the kernel: what can be read is what was done."""

import itertools
import os
import random
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.project import Project

RUNS = int(os.environ.get("AWK_TEST_TRANSCRIPTS", "12"))
"""How many scripts are played: 500 for the figure in docs/contributing/trials.md."""
SEED = int(os.environ.get("AWK_TEST_SEED", "7"))
RUNS_A_KERNEL = 80
"""That end before the next kernel is killed."""
MOST_KILLS = 1
"""Of one script: an instruction whose workers crash more often is dead."""
LIMIT = 3
"""Entries on a page: less than most of these transcripts have."""


def random_script(chance: random.Random, name: str) -> tuple[list[str], list[tuple[str, Any]]]:
    """Actions of a mock as YAML, some of which end their worker once, and what a transcript of them has."""
    actions: list[str] = []
    wanted: list[tuple[str, Any]] = []
    kills = 0
    for step in range(chance.randint(2, 6)):
        word = f"{name}-{step}-{chance.randint(0, 10**6)}"
        match chance.choice(("text", "shell", "long", "fails", "usage", "kill")):
            case "text":
                actions.append(f'text: "{word}"')
                wanted.append(("reply", word))
            case "shell":
                actions.append(f'shell: "echo {word}"')
                wanted += [("reply", ""), ("shell", ({"command": f"echo {word}"}, f"{word}\n", False))]
            case "long":
                actions.append(f'shell: "echo {word}; yes x | head -n 20000"')
                wanted += [("reply", ""), ("shell", ({"command": f"echo {word}; yes x | head -n 20000"}, word, False))]
            case "fails":
                actions.append(f'shell: "echo {word}; exit 3"')
                said = f"{word}\n[exit 3]"
                wanted += [("reply", ""), ("shell", ({"command": f"echo {word}; exit 3"}, said, True))]
            case "usage":
                actions.append("usage: { input_tokens: 7, output_tokens: 3 }")
            case _ if kills < MOST_KILLS:
                kills += 1
                actions.append("exit: { signal: KILL, times: 1 }")
            case _:
                pass
    actions.append(f'text: "end of {name}"')
    return actions, [*wanted, ("reply", f"end of {name}")]


def read(project: Project, instruction: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after = "0"
    while True:
        page = project.ask("GET", f"/instructions/{instruction}/entries?after={after}&limit={LIMIT}")
        assert 0 < len(page["entries"]) <= LIMIT
        found += page["entries"]
        if page["next"] is None:
            assert page["total"] == len(found)
            return found
        after = page["next"]


def done(entries: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """What a transcript says, as ``random_script`` has it: notes of scripted failures, which are no steps, left out."""
    said: list[tuple[str, Any]] = []
    for entry in entries:
        if entry["kind"] == "tool":
            output = entry["output"].partition("\nx\n")[0]
            said.append((entry["tool"], (entry["input"], output, entry["is_error"])))
        elif entry["text"] or entry["calls"]:
            said.append(("reply", entry["text"]))
    return said


def kill_kernel(project: Project) -> None:
    """End the kernel without a word, and start another."""
    kernel = project.kernel()
    kernel.send_signal(signal.SIGKILL)
    psutil.wait_procs([kernel], timeout=30)
    assert project.awk("start", "--trust").code == 0


@pytest.mark.promise("P5", "P31")
@pytest.mark.long("tests/interface/test_reads.py")
def test_the_transcript_of_random_work_is_what_was_done(project: Project) -> None:
    chance = random.Random(SEED)
    scripts = {f"a{number}": random_script(chance, f"a{number}") for number in range(RUNS)}
    for name, (actions, _) in scripts.items():
        project.agent(name, *actions, more="restart: { delay: 0s }")
    assert project.awk("start", "--trust").code == 0
    sent = {name: project.send(name) for name in scripts}
    kernels = 1 + RUNS // RUNS_A_KERNEL
    for kernel in range(kernels):
        until_ended(project, max(1, kernel * RUNS_A_KERNEL))
        kill_kernel(project)
    steps = workers = 0
    for name, instruction in sent.items():
        ended = project.ended(instruction)
        assert ended["status"] == "done", (SEED, name, ended)
        entries = read(project, instruction)
        numbers = [entry["n"] for entry in entries]
        assert numbers == sorted(set(numbers))
        wanted = scripts[name][1]
        assert once(done(entries), wanted) == wanted, (SEED, name)
        for key in ("input_tokens", "output_tokens"):
            assert sum(entry["usage"][key] for entry in entries if entry["usage"]) == ended["usage"][key]
        assert {entry["attempt"] for entry in entries} <= {attempt["n"] for attempt in ended["attempts"]}
        steps += len(entries)
        workers += len(ended["attempts"])
    kills = f"{kernels} kernels killed, and {workers - RUNS} workers more than scripts"
    sys.stdout.write(f"{RUNS} scripts of seed {SEED}: {steps} entries, read by the page, are what was done; {kills}\n")


def until_ended(project: Project, count: int) -> None:
    ended = itertools.count(1)
    project.until("instruction.ended", holds=lambda _event: next(ended) >= count)


def once(found: list[tuple[str, Any]], wanted: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """``found`` without the calls that a kill cut: each stands there once more, or with an unknown outcome."""
    left = list(found)
    for place in range(len(left) - 1, -1, -1):
        what, said = left[place]
        if what == "shell" and place < len(wanted) and left[place] != wanted[place] and "unknown" in str(said[1]):
            left[place] = wanted[place]
    return left


BIG = 50_000_000
GROWS = 16 * 2**20
"""Of the kernel, at most, at any moment while an agent has such a result: a third of it."""
FLOOD = f"head -c {BIG} /dev/zero | tr '\\\\0' x"
WAYS = {
    "a command": f'shell: "{FLOOD}"',
    "a file": "tool: read, args: { path: big }",
    "a tool of the project's": "tool: whole, args: { path: big }",
    "an MCP server": "tool: mcp__own__flood, args: {}",
}
SERVER = f"""\
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    answers = {{
        "initialize": lambda: {{"capabilities": {{"tools": {{}}}}, "serverInfo": {{"name": "s", "version": "1"}},
                              "protocolVersion": asked["params"]["protocolVersion"]}},
        "tools/list": lambda: {{"tools": [{{"name": "flood", "inputSchema": {{"type": "object"}}}}]}},
        "tools/call": lambda: {{"content": [{{"type": "text", "text": "x" * {BIG}}}], "isError": False}},
    }}
    if "id" in asked:
        made = answers.get(asked["method"])
        answer = {{"result": made()}} if made else {{"error": {{"code": -32601, "message": "no such method"}}}}
        sys.stdout.write(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], **answer}}) + "\\n")
        sys.stdout.flush()
"""
OWN = f"""\
approval: auto
tools: [files, whole]
mcp_servers: {{ own: {{ command: {sys.executable}, args: [-I, -S, server.py] }} }}
"""


def ends(project: Project, agent: str) -> str:
    """The instruction of ``agent`` that was given and has ended."""
    return str(project.ended(project.send(agent))["id"])


def most_bytes(kernel: psutil.Process, what: Callable[[], str]) -> tuple[int, str]:
    """How much the kernel grew, at its most, while ``what`` was done; and what came of that."""
    Path(f"/proc/{kernel.pid}/clear_refs").write_text("5")  # its peak begins anew
    before = kernel.memory_info().rss
    made = what()
    (peak,) = (line for line in Path(f"/proc/{kernel.pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) * 1024 - before, made


@pytest.mark.long("tests/worker/test_kernel_link.py")
@pytest.mark.skipif("sys.platform != 'linux'", reason="/proc says how large a process was")
def test_a_result_of_any_size_leaves_the_kernel_as_it_is(project: Project, subtests: pytest.Subtests) -> None:
    """It is cut in the worker, and says so: 50 MB of a tool's output are no more to the kernel than 128 KiB."""
    (project.root / "big").write_bytes((b"x" * 99 + b"\n") * (BIG // 100))
    project.write("server.py", SERVER)
    project.write(
        "moniro.yaml", "tools: { whole: { description: All, command: [cat, '${path}'], input: { path: string } } }\n"
    )
    for number, action in enumerate(WAYS.values()):
        project.agent(f"a{number}", action, "text: done", more=OWN)
    project.agent("small", 'shell: "echo x"', "tool: mcp__own__none, args: {}", "text: done", more=OWN)
    project.write(".agents/liar.yaml", f'backend: exec\ncommand: [sh, -c, "{FLOOD}"]\nretry: {{ attempts: 1 }}\n')
    assert project.awk("start", "--trust").code == 0
    kernel = project.kernel()
    read(project, ends(project, "small"))  # all that is needed for it is loaded
    for number, way in enumerate(WAYS):
        with subtests.test(way):
            grew, instruction = most_bytes(kernel, partial(ends, project, f"a{number}"))
            (entry,) = (entry for entry in read(project, instruction) if entry["kind"] == "tool")
            assert (len(entry["output"]) < 200_000, grew < GROWS) == (True, True), (grew, entry["output"][-200:])
            shown = f"{len(entry['output']):,} characters, {entry['output'][:60]!r}"
            sys.stdout.write(f"{BIG:,} bytes of {way}: the kernel grew by {grew:,}, and shows {shown}\n")
    grew, _ = most_bytes(kernel, partial(ends, project, "liar"))
    sys.stdout.write(f"{BIG:,} bytes of a program that should speak with it: the kernel grew by {grew:,}\n")
    assert grew < GROWS
