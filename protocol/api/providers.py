"""Providers and backends, and what of them is there."""

from typing import Literal

from protocol.api.document import Body, Document
from protocol.backends import Ability


class ProviderRow(Body, frozen=True, kw_only=True):
    """One provider. ``key_set``: whether one of ``key_variables`` is set where the kernel runs; never the key."""

    name: str
    dialect: Literal["anthropic", "openai", "cursor", "mock"]
    base_url: str | None
    key_variables: tuple[str, ...]
    key_set: bool
    source: Literal["builtin", "project"]


class ProviderList(Document, frozen=True, kw_only=True):
    """``awk providers``. ``aliases`` are short names of models."""

    providers: tuple[ProviderRow, ...]
    aliases: dict[str, str]
    schema: str = "awk/providers/1"


class BackendRow(Body, frozen=True, kw_only=True):
    """One backend, and whether an agent can use it here. ``missing`` says why not, and how to get it.

    ``path`` and ``version`` are its program's, where it has one. What ``weaker`` and ``no`` mean is in ``notes``.
    """

    name: str
    title: str
    available: bool
    path: str | None = None
    version: str | None = None
    missing: str | None = None
    steps: Ability
    resume: Ability
    permission_prompt: Ability
    budget: Ability
    system_prompt: Ability
    daemon_check: Ability
    notes: tuple[str, ...] = ()


class BackendList(Document, frozen=True, kw_only=True):
    """``awk backends``."""

    backends: tuple[BackendRow, ...]
    schema: str = "awk/backends/1"
