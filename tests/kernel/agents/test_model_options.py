"""Keys that tell a model how to think and speak: taken, or refused at their place."""

from pathlib import Path

import pytest

from kernel.source.diagnostics import BadDefinition
from protocol.agent import Thinking
from tests.kernel.agents.test_catalog import project

PROMPT = "prompt: {system: x}\n"
ANTHROPIC = "model: anthropic/claude-opus-5-5\nmax_tokens: 8192\n" + PROMPT
OPENAI = "model: openai/gpt-5.5\n" + PROMPT


@pytest.mark.parametrize(
    "text",
    [
        ANTHROPIC + "effort: max\nthinking: {budget_tokens: 2048}",
        ANTHROPIC + "temperature: 1",
        OPENAI + "effort: low\ntemperature: 2",
        ANTHROPIC + "backend: claude\neffort: high\nthinking: {budget_tokens: 1024}",
        OPENAI + "backend: codex\neffort: medium",
        ANTHROPIC + "backend: opencode\ntemperature: 0.5",
        "backend: mock\nmock: [{text: x}]\neffort: high\ntemperature: 1\nthinking: {budget_tokens: 2048}",
    ],
)
def test_what_is_taken_is_kept(tmp_path: Path, text: str) -> None:
    definition = project(tmp_path, alice=text).agent("alice").definition
    assert (definition.effort, definition.thinking, definition.temperature) != (None, None, None)


def test_thinking_is_counted_in_tokens(tmp_path: Path) -> None:
    definition = project(tmp_path, alice=ANTHROPIC + "thinking: {budget_tokens: 2048}").agent("alice").definition
    assert definition.thinking == Thinking(budget_tokens=2048)


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        (OPENAI + "thinking: {budget_tokens: 2048}", "thinking", "backend sdk with a model of openai"),
        (ANTHROPIC + "backend: claude\ntemperature: 0.5", "temperature", "is not taken by backend claude"),
        (OPENAI + "backend: codex\ntemperature: 0.5", "temperature", "is not taken by backend codex"),
        ("backend: cursor\nmodel: cursor/auto\neffort: low\n" + PROMPT, "effort", "is not taken by backend cursor"),
        (ANTHROPIC + "temperature: 1.5", "temperature", "1.5 is too high"),
        (ANTHROPIC + "temperature: 1\nthinking: {budget_tokens: 2048}", "temperature", "together with thinking"),
        (ANTHROPIC + "thinking: {budget_tokens: 8192}", "thinking.budget_tokens", "is not below max_tokens"),
        (ANTHROPIC + "thinking: {budget_tokens: 1023}", "thinking.budget_tokens", "1024"),
        (ANTHROPIC + "temperature: 2.1", "temperature", "2"),
        (ANTHROPIC + "effort: hard", "effort", "'hard' is not allowed"),
    ],
)
def test_what_is_not_taken_is_refused_at_its_place(tmp_path: Path, text: str, where: str, message: str) -> None:
    with pytest.raises(BadDefinition) as caught:
        project(tmp_path, alice=text).agent("alice")
    assert [(error.where, message in error.message, error.line is not None) for error in caught.value.errors] == [
        (where, True, True)
    ]
