"""Two providers, of which the first fails at some request: the second finishes; nothing is lost or charged twice."""

from pathlib import Path

import pytest

from tests.e2e.fallback_trial import CREDIT, play
from tests.project import TRUST, Project
from tests.worker.scripted_api import Fail, Say, ScriptedApi


def test_the_second_model_finishes_what_the_first_has_begun(tmp_path: Path) -> None:
    """Every API beside every other one, and some of the causes; ``python -m tests.e2e.fallback_trial`` plays all."""
    assert play(tmp_path, range(27, 45)) == []


def test_each_call_costs_what_its_own_model_costs(project: Project) -> None:
    claude, gpt = "anthropic/claude-haiku-4-5", "openai/gpt-5-mini"
    with ScriptedApi([Fail(400, CREDIT), Say(text="hi", input_tokens=1000, output_tokens=100)]) as api:
        project.write(
            ".agents.yaml",
            f"""
            providers:
              anthropic: {{ base_url: "{api.anthropic_url}" }}
              openai: {{ base_url: "{api.openai_url}" }}
            models:
              default: careful
              aliases: {{ careful: [{claude}, {gpt}] }}
            """,
        )
        project.write(".agents/alice.yaml", "prompt: { system: Work. }\nbudget: { usd: 1 }\n")
        assert project.awk("start", env=TRUST).code == 0
        shown = project.ended(project.send("alice"))
    assert shown["model"] == gpt
    assert [[one["model"] for one in row["models"]] for row in shown["attempts"]] == [[claude], [gpt]]
    assert shown["attempts"][0]["models"][0]["usage"]["cost_usd"] is None
    assert shown["usage"]["cost_usd"] == pytest.approx(1000 * 0.25e-6 + 100 * 2e-6)
    text = project.awk("show", shown["id"]).out
    assert f"model     {gpt}" in text
    assert "MODEL" in text
    assert claude in project.awk("logs", "alice").out, "the change is told"
