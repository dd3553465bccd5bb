"""The personal context of an agent: what lies where in ``.agents/<name>/``, and which directories can be one. Pure.

People author these files, agents write into them, git keeps them. A directory that we made carries MARK; only such a
directory is ever moved away when its agent is deleted (fault CF12).
"""

from pathlib import PurePosixPath
from typing import Final

HOME: Final = "~/"
"""Before the path of a file that is the user's and not a project's."""
AGENTS: Final = ".agents"
AGENT_SUFFIX: Final = ".yaml"
TRASH: Final = ".trash"
"""In ``.agents/``: deleted agents, one folder for each."""

MEMORY: Final = "memory"
"""A folder of YAML files: keys and what is known of them (protocol.agent_memory)."""
NOTES: Final = "notes"
"""A folder of Markdown files, one for each note (protocol.agent_memory)."""
TODO: Final = "todo"
TODO_FILE: Final = "index.md"
"""In the folder ``todo``: a checklist (protocol.agent_memory)."""
KNOWLEDGE: Final = (MEMORY, NOTES, TODO)
"""Folders of what an agent knows."""
SOUL_FILE: Final = "soul.yaml"
"""Traits, once somebody approved a change of them: they win over those in the agent's file (kernel.agents.soul)."""
CONVERSATIONS: Final = "conversations"
"""A folder of JSON lines, written from the log and never read back."""
PARTS: Final = (MEMORY, NOTES, TODO, CONVERSATIONS)
"""The folders of a context that is made with its agent; else each comes with the first that is put in it."""

MARK: Final = ".context"


GIT_IGNORE: Final = ".gitignore"
IGNORED: Final = f"/{MARK}\n/{CONVERSATIONS}/\n/{GIT_IGNORE}\n"
"""What git does not see of a context that we made: its mark, and what was said. Memory and notes may be committed."""
ALL_IGNORED: Final = "*\n"


def mark_text(agent: str) -> str:
    """Return what MARK says in the context of ``agent``."""
    return (
        f"{agent}\n\nThis directory is the personal context of the agent {agent}. Deleting the agent moves it away.\n"
    )


def marked_for(text: str) -> str:
    """Return whose directory it is, where MARK says ``text``."""
    return text.partition("\n")[0].strip()


def agent_file(agent: str) -> str:
    """The file of ``agent``, as seen from the project's root."""
    return f"{AGENTS}/{agent}{AGENT_SUFFIX}"


def default_dir(agent: str) -> str:
    """The context directory of an agent whose file does not say another one."""
    return f"{AGENTS}/{agent}"


def dir_fault(path: str, agent: str) -> str | None:
    """Return why ``path`` (from the project's root) cannot be the context directory of ``agent``; None where it can.

    Judges the text alone: whoever uses the directory checks where links lead.
    """
    parts = PurePosixPath(path).parts
    faults = (
        (any(ord(letter) < 32 for letter in path), "holds a control character"),
        (path.startswith(("/", "~")), "is not a path inside the project"),
        (".." in parts, "leads outside the project, or may"),
        (not parts, "is the project itself"),
    )
    fault = next((text for found, text in faults if found), None)
    if fault is not None:
        return fault
    if ".git" in parts or parts[0] == ".workflows" or parts in {(AGENTS,), (".workspace",)}:
        return "holds what is not the agent's own"
    if parts[0] == AGENTS and parts[1] != agent:
        return f"is not {agent}'s: another agent's context may be there"
    return None
