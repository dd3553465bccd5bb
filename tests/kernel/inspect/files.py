"""A project of a few files."""

import textwrap
from pathlib import Path
from typing import Final

ALICE: Final = """
    model: sonnet
    prompt: { system: You are Alice. }
    timeouts: { idle: 5m, total: 1h }
"""
MOCK: Final = """
    backend: mock
    mock: [{ text: done }]
"""
REVIEW: Final = """
    agents:
      alice:
        ref: alice
        prompt: { append: Be brief. }
        timeouts: { tool: 1m }
      bob:
        model: acme/large
        prompt: { system: You are Bob. }
    params:
      - { name: branch, short: b, required: true }
    setup:
      - shell: git log ${{ params.branch }} ${{ env.RANGE }}
        as: log
        timeout: 90s
    kickoff: |
      @alice review ${{ params.branch }}:
      ${{ log }}
"""
PROJECT: Final = """
    providers:
      acme:
        base_url: https://acme.example/v1
        api_key: $ACME_KEY
"""


def write(root: Path, files: dict[str, str]) -> None:
    """Write ``files`` (path -> text, which may be indented) below ``root``."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), "utf-8")


def review(root: Path) -> None:
    write(root, {".agents/alice.yaml": ALICE, ".workflows/review.yaml": REVIEW, "moniro.yaml": PROJECT})
