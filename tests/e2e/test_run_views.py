"""A run that has ended, looked at as a timeline, as a graph and as a page, and found by its words."""

import re

from tests.project import Project


def test_a_run_is_shown_as_a_timeline_a_graph_and_a_page(shared_kernel: Project) -> None:
    project = shared_kernel
    project.write(
        ".workflows/glance.yaml",
        """
        agents:
          painter:
            model: mock/x
            mock:
              - do: [ { tool: channel_send, args: { message: '@critic a walrus by the sea' } }, { text: done } ]
          critic: { model: mock/x, mock: [ { text: splendid } ] }
          quiet: { model: mock/x, mock: [ { text: never asked } ] }
        kickoff: '@painter paint'
        """,
    )
    run = project.awk("run", "glance", "--json").json()["id"]
    found = project.awk("show", run, "--timeline", "--json").json()
    lanes = {lane["agent"]: {bar["kind"] for bar in lane["bars"]} for lane in found["lanes"]}
    assert lanes["painter"] >= {"attempt", "model", "tool"} and lanes["critic"] >= {"attempt", "model"}
    assert found["status"] == "done" and found["why"] is None
    shown = project.awk("show", run, "--timeline").out
    assert re.search(r"^painter +[-#+. x]*#", shown, re.MULTILINE) and "# model" in shown
    edges = {
        (one["from"], one["to"]): one["mentions"]
        for one in project.awk("show", run, "--graph", "dot", "--json").json()["edges"]
    }
    assert edges["painter", "critic"] == 1
    assert project.awk("show", "glance", "--graph", "mermaid").out.startswith("flowchart LR\n")
    assert project.awk("show", run, "--html", "glance.html").code == 0
    page = (project.root / "glance.html").read_text()
    assert "a walrus by the sea" in page and "<script" not in page
