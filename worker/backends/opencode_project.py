"""Code in a project that opencode would run by itself, whatever it is told (1.18.33).

It can be told to leave a project's configuration alone, and then still imports ``.opencode/plugin/*.js`` of the working
directory and its parents as it starts. A repository's files are not trusted here to be run, so such a project is not
opened with it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PLUGINS: Final = ("plugin/*.js", "plugin/*.ts", "plugins/*.js", "plugins/*.ts")
_CONFIGS: Final = ("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc")


def code_in(cwd: Path) -> Path | None:
    """A file that makes opencode run code of the project around ``cwd``; None: there is none. Raises OSError."""
    for folder in _within(cwd):
        for pattern in _PLUGINS:
            for plugin in (folder / ".opencode").glob(pattern):
                return plugin
        for name in _CONFIGS:
            if _names_plugins(folder / name):
                return folder / name
    return None


def _within(cwd: Path) -> Iterator[Path]:
    """``cwd``, and where it is part of a repository, the folders up to its root."""
    parents = [cwd, *cwd.parents]
    root = next((number for number, folder in enumerate(parents) if (folder / ".git").exists()), 0)
    yield from parents[: root + 1]


def _names_plugins(config: Path) -> bool:
    """Whether it may: it is JSON with comments, so a word of it has to do."""
    return config.is_file() and '"plugin' in config.read_text("utf-8", "replace")
