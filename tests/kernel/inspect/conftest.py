"""What is inspected is the project of a test: the agents of whoever runs it are not there."""

import pytest


@pytest.fixture(autouse=True)
def nobodys_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A home in which there are no agents."""
    monkeypatch.setenv("HOME", "/nonexistent")
