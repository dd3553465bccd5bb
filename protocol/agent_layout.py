"""Layout of an agent's personal context in ``.agents/<name>/``, and the check of its directory. Pure.

People and agents write these files, and git can track them. A directory that this program created contains MARK. Only
such a directory is moved away when its agent is deleted (fault CF12).
"""

from functools import lru_cache
from pathlib import PurePosixPath
from typing import Final

HOME: Final = "~/"
"""Prefix of a path in the user's home. Paths without it are in the project."""
AGENTS: Final = ".agents"
AGENT_SUFFIX: Final = ".yaml"
TRASH: Final = ".trash"
"""Folder in ``.agents/`` with a folder for each deleted agent."""

MEMORY: Final = "memory"
"""Folder of YAML files with keys and values (protocol.agent_memory)."""
NOTES: Final = "notes"
"""Folder of Markdown files, one for each note (protocol.agent_memory)."""
TODO: Final = "todo"
TODO_FILE: Final = "index.md"
"""Checklist in the folder ``todo`` (protocol.agent_memory)."""
KNOWLEDGE: Final = (MEMORY, NOTES, TODO)
"""Folders of memory, notes and todos."""
SOUL_FILE: Final = "soul.yaml"
"""File with the traits after an approved change. They override those in the agent's file (kernel.agents.soul)."""
CONVERSATIONS: Final = "conversations"
"""Folder of direct messages as JSON lines. The kernel writes them from its log and never reads them."""
PARTS: Final = (*KNOWLEDGE, CONVERSATIONS)
"""Folders of a context that is created with its agent. Otherwise each folder is created with its first file."""

MARK: Final = ".context"


GIT_IGNORE: Final = ".gitignore"
IGNORED: Final = f"/{MARK}\n/{CONVERSATIONS}/\n/{GIT_IGNORE}\n"
"""Content of GIT_IGNORE in a created context: git ignores the mark and conversations, not memory and notes."""
ALL_IGNORED: Final = "*\n"


def mark_text(agent: str) -> str:
    """Return the content of MARK in the context of ``agent``."""
    text = f"This directory is the personal context of the agent {agent}. Deleting the agent moves it away."
    return f"{agent}\n\n{text}\n"


def marked_for(text: str) -> str:
    """Return the agent that owns the directory whose MARK contains ``text``."""
    return text.partition("\n")[0].strip()


def agent_file(agent: str) -> str:
    """Return the file of ``agent``, relative to the project's root."""
    return f"{AGENTS}/{agent}{AGENT_SUFFIX}"


def default_dir(agent: str) -> str:
    """Return the default context directory of an agent."""
    return f"{AGENTS}/{agent}"


@lru_cache(1024)
def dir_fault(path: str, agent: str) -> str | None:
    """Return why ``path`` (from the project's root) cannot be the context directory of ``agent``; None if ``path``
    is valid. Only the text is checked. Code that uses the directory has to check links."""
    parts = PurePosixPath(path).parts
    faults = (
        (any(ord(letter) < 32 for letter in path), "contains a control character"),
        (path.startswith(("/", "~")), "is not a path inside the project"),
        (".." in parts, "leads outside the project, or may"),
        (not parts, "is the project itself"),
    )
    fault = next((text for found, text in faults if found), None)
    if fault is not None:
        return fault
    if ".git" in parts or parts[0] == ".workflows" or parts in {(AGENTS,), (".workspace",)}:
        return "contains files that do not belong to the agent"
    if parts[0] == AGENTS and parts[1] != agent:
        return f"does not belong to {agent}: it may be the context of another agent"
    return None
