"""A team of three engines, and a kernel that is killed under it."""

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.engines import BY_NAME, environ
from tests.e2e.processes import marked, wait_until
from tests.project import Project
from tests.worker.scripted_api import Move, Say, ScriptedApi, Silence

ENGINES = {"anna": BY_NAME["claude"], "cody": BY_NAME["codex"], "sam": BY_NAME["sdk"]}


@pytest.mark.promise("P1", "P5")
@pytest.mark.skipif(any(engine.missing for engine in ENGINES.values()), reason="AGENT_WORKER_TEST_CLIS")
def test_three_engines_hand_work_on_and_a_killed_kernel_loses_and_doubles_nothing(
    project: Project, tmp_path: Path
) -> None:
    """claude, codex and the built-in loop; kill -9 while two of them wait for a model."""
    anna, cody, sam = ENGINES.values()
    killed = threading.Event()
    scripts: dict[str, tuple[Move, ...]] = {
        "anna": (anna.tells("@cody please take over"), Say(text="anna has begun"), Say(text="anna has seen it")),
        "cody": (cody.tells("@sam your turn", "I hand it on."), Silence(killed), Say(text="cody is through")),
        "sam": (Silence(killed), sam.tells("@anna all is done"), Say(text="sam is through")),
    }
    with ExitStack() as stack:
        apis = {name: stack.enter_context(ScriptedApi(moves)) for name, moves in scripts.items()}
        for name, engine in ENGINES.items():
            engine.agent(project, name, apis[name])
        members = "".join(f"  {name}: {{ ref: {name} }}\n" for name in ENGINES)
        project.write(".workflows/relay.yaml", f"agents:\n{members}kickoff: '@anna begin'\n")
        kernel_env = environ(tmp_path)
        assert project.awk("start", "--trust", env=kernel_env).code == 0
        with project.spawn("run", "relay", "--trust", "--json", env=kernel_env) as running:
            wait_until(lambda: len(apis["cody"].requests) == 2 and len(apis["sam"].requests) == 1, seconds=60)
            project.kill()
            killed.set()
            assert project.awk("start", "--trust", env=kernel_env).code == 0
            _, err = running.communicate(timeout=90)
    shown = project.awk("show", "relay:main", "--json").json()
    counts = {status: count for status, count in shown["instructions"].items() if count}
    assert (shown["status"], counts) == ("done", {"done": 4}), err
    said = sorted((one["from"], one["text"]) for one in shown["messages"] if one["kind"] in {"said", "reply"})
    assert said == [
        ("anna", "@cody please take over"),
        ("anna", "anna has begun"),
        ("anna", "anna has seen it"),
        ("cody", "@sam your turn"),
        ("cody", "cody is through"),
        ("sam", "@anna all is done"),
        ("sam", "sam is through"),
    ]
    assert project.awk("stop", "--yes").code == 0
    assert marked(str(tmp_path)) == []
