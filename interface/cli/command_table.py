"""Table of the commands, from which the parser, help, suggestions, completion and reference page are generated."""

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final, NamedTuple

from interface.cli.context import Context
from interface.cli.parsing import Arguments, declare, json_flag

if TYPE_CHECKING:
    import argparse

Configure = Callable[["argparse.ArgumentParser"], object]
Run = Callable[[Context], int]


class Command(NamedTuple):
    """Row of the command table."""

    word: str
    help: str
    group: str
    takes_params: bool = False
    """Whether words after ``--`` are passed through; ``after`` names them."""
    after: str = "the parameters of the workflow"

    stored: bool = False
    """Whether the command reads the stored log if no kernel runs."""

    file: str = ""
    """Module in interface.cli.commands (default: the word)."""

    @property
    def module(self) -> ModuleType:
        """Import and return the module that implements the command."""
        return import_module(f"interface.cli.commands.{self.file or self.word}")

    def load(self) -> tuple[Configure, Run]:
        """Return the functions that declare the arguments of the command and run it.

        A command with subcommands defines WORD_VERBS instead. The default arguments are ``--json``.
        """
        verbs = getattr(self.module, f"{self.word.upper()}_VERBS", None)
        return load(self.module, self.word, json_flag if verbs is None else verbs.configure, verbs and verbs.run)


def load(module: ModuleType, words: str, configure: Configure, run: Run | None = None) -> tuple[Configure, Run]:
    """Return what declares and runs ``words``: its ARGUMENTS or ``configure_WORDS``, and ``run_WORDS`` of ``module``.

    ``configure`` and ``run`` are defaults.
    """
    name = words.strip("_").replace("-", "_").replace(" ", "_")
    own: Run | None = getattr(module, f"run_{name}", run)
    assert own is not None
    declared: Arguments | None = getattr(module, "ARGUMENTS", {}).get(words)
    if declared is not None:
        return partial(declare, declared), own
    return getattr(module, f"configure_{name}", configure), own


COMMANDS: Final[tuple[Command, ...]] = (
    Command("run", "Run a workflow to its end and report the result", "Work", takes_params=True),
    Command("send", "Send a message to an agent or a workflow", "Work"),
    Command("ask", "Send a message and stream the answer", "Work", file="send"),
    Command("serve", "Send a message and print the complete answer as JSON", "Work", file="send"),
    Command("call", "Call an agent tool from a program that an attempt runs", "Work"),
    Command("start", "Start the kernel, or a workflow that keeps running", "Kernel", takes_params=True),
    Command("stop", "Stop workflows, agents or the kernel", "Kernel", file="start"),
    Command("status", "Show the state of the kernel or a target, without starting it", "Kernel"),
    Command("service", "Install the kernel as a system service", "Kernel"),
    Command("restart", "Restart the worker of an agent, or the kernel", "Kernel", file="start"),
    Command("upgrade", "Replace the running kernel without interrupting work", "Kernel", file="start"),
    Command("backup", "Back up project state to a file, also while the kernel runs", "Kernel", file="state"),
    Command("restore", "Restore project state from a backup or standby copy", "Kernel", file="state"),
    Command("standby", "Verify a standby copy of project state", "Kernel", file="state"),
    Command("reset", "Re-enable an agent that was stopped after repeated failures", "Control", file="steer"),
    Command("pause", "Pause the work of an agent or a workflow", "Control", file="steer"),
    Command("resume", "Resume work that is paused, stopped, or blocked by a provider", "Control", file="steer"),
    Command("continue", "Renew the reached limits of a workflow or budget of an agent", "Control", file="steer"),
    Command("unblock", "Resume, continue, retry, reset or restart what blocks work", "Control", file="steer"),
    Command("approve", "Approve pending tool calls", "Control", file="permissions"),
    Command("deny", "Deny pending tool calls, or delete an approval rule", "Control", file="permissions"),
    Command("answer", "Reply on behalf of a human agent", "Control", file="steer"),
    Command("space", "List or close spaces, or change their members", "Control", file="teamwork"),
    Command("reassign", "Reassign a question to another member of its workspace", "Control", file="steer"),
    Command("grant", "Grant an agent more permissions, limited by time or calls", "Control", file="permissions"),
    Command("proposal", "List proposals, vote on them, or cancel them", "Control", file="decisions"),
    Command("rule", "List, define and test rules", "Control", file="decisions"),
    Command("task", "List, add and complete shared tasks", "Control", file="teamwork"),
    Command("doc", "Read and write shared documents", "Control"),
    Command("cancel", "Cancel instructions", "Control", file="steer"),
    Command("retry", "Retry failed or dead-lettered instructions", "Control", file="steer"),
    Command("clear", "Delete the conversation of a run, workflow or agent permanently", "Control", file="channel"),
    Command("prune", "Delete data that is no longer needed to free disk space", "Control", file="state"),
    Command("merge", "Merge the branches of a run, completely or not at all", "Control", file="runs"),
    Command("promote", "Move instructions to the front of the queue", "Control", file="steer"),
    Command("ps", "List agents with their state, activity and cost", "Observe"),
    Command("projects", "List your projects and the state of their kernels", "Observe"),
    Command("top", "Watch agents live (q quits)", "Observe", file="ps"),
    Command("open", "Open the web page of the project, or print its address", "Observe", file="connections"),
    Command("channel", "Show the latest messages of a workflow or an agent", "Observe"),
    Command("resource", "Print or add long texts that messages refer to", "Observe", file="doc"),
    Command("inbox", "List the unhandled messages of an agent", "Observe", file="queue"),
    Command("queue", "List the queued instructions of an agent", "Observe"),
    Command("needs", "List work that is blocked until you act", "Observe"),
    Command("audit", "List memory queries between agents", "Observe", file="permissions"),
    Command("feedback", "List or add feedback on the work", "Observe", file="teamwork"),
    Command("stats", "Show tokens, cost, time and results of work", "Observe", stored=True, file="status"),
    Command("dead", "List dead-lettered instructions", "Observe", file="queue"),
    Command("runs", "List runs of workflows, latest first", "Observe", stored=True),
    Command("show", "Show a run or an instruction", "Observe", stored=True),
    Command("export", "Export the conversation of a run or a space to one file", "Observe", file="channel"),
    Command("import", "Verify an export file and summarize its contents", "Observe", file="channel"),
    Command("diff", "Show changes in the working trees of agents", "Observe", file="runs"),
    Command("attach", "Follow an agent or a workflow, and approve or deny its calls", "Observe", file="events"),
    Command("worktree", "List and delete the git working trees of agents", "Observe", file="runs"),
    Command("logs", "Show logs of workers and attempts", "Observe", stored=True, file="events"),
    Command("events", "Show kernel events", "Observe"),
    Command("doctor", "Diagnose problems of this installation and suggest fixes", "Observe", file="project_setup"),
    Command("df", "Show disk usage of project state", "Observe", file="state"),
    Command("wait", "Wait until an agent, run or instruction is idle, done or blocked", "Observe"),
    Command("watch", "Follow a run to its end", "Observe", file="run"),
    Command("agent", "Create, edit and delete agents and their context", "Set up"),
    Command("memory", "Measure memory search and growth", "Set up", file="agent_context"),
    Command(
        "tool", "List, add and mock tools of agents", "Set up", takes_params=True, after="the command of the new tool"
    ),
    Command(
        "worker",
        "Check the protocol of a worker program",
        "Set up",
        takes_params=True,
        after="further arguments of the program",
        file="project_setup",
    ),
    Command("skills", "List, import and update skills", "Set up"),
    Command("init", "Create example files in this project", "Set up", file="project_setup"),
    Command("adopt", "Create agents from the files of other coding agents", "Set up", file="project_setup"),
    Command("validate", "Validate the files of the project", "Set up", file="project_setup"),
    Command("config", "Show effective settings and their sources", "Set up", file="project_setup"),
    Command("schema", "Print the JSON Schema of a file for editors", "Set up", file="project_setup"),
    Command("completion", "Print the completion script of a shell", "Set up"),
    Command("trust", "Trust the commands and connections of project files", "Set up"),
    Command("token", "Create, list and revoke API tokens", "Set up", file="connections"),
    Command("mcp-serve", "Serve MCP on standard input and output for a coding agent", "Set up", file="connections"),
    Command(
        "node",
        "List and add nodes, or run as one",
        "Set up",
        takes_params=True,
        after="arguments of the program that connects to the new node",
        file="connections",
    ),
    Command("webhook", "List webhooks and retry their deliveries", "Set up", file="connections"),
    Command("providers", "List model providers and the state of their keys", "Set up"),
    Command("backends", "List the backends that can run agents", "Set up", file="providers"),
    Command("version", "Print the version", "Set up", file="help"),
    Command("help", "Show help for a command, a group or a topic", "Set up"),
)

GROUPS: Final = {
    group: [one for one in COMMANDS if one.group == group] for group in dict.fromkeys(one.group for one in COMMANDS)
}

HIDDEN: Final = (Command("_complete", "List completions of a word", "", file="completion"),)
"""Commands that only the completion scripts call; help and reference omit them."""

ALIASES: Final = {
    "ls": ("agent", "list", "--running"),
    "list": ("agent", "list", "--running"),
    "new": ("agent", "create", "--ephemeral"),
    "peek": ("channel",),
    "pending": ("needs", "--approvals"),
}
"""Words of earlier versions with their replacements. Help, completion and reference omit these words."""

BY_WORD: Final = {command.word: command for command in (*COMMANDS, *HIDDEN)}


def without_alias(words: Sequence[str]) -> list[str]:
    """Return a command line in which an alias of an earlier version is replaced by today's words."""
    return [*ALIASES.get(words[0], words[:1]), *words[1:]]


_CLOSE: Final = 0.7
"""Minimum similarity of a typing error to a command: statsu resembles status, but bogus does not resemble logs."""


def meant_command(word: str) -> str | None:
    """Return the command of which ``word`` is a misspelling (case, swapped letters, similarity), or None."""
    from difflib import get_close_matches  # noqa: PLC0415  (10 ms, for slips only)

    small = word.lower()
    if small in BY_WORD:
        return small
    known = [command for command in BY_WORD if command[0] != "_"]
    # Strat means start (swapped letters), although stats is as similar.
    swapped = [command for command in known if sorted(command) == sorted(small)]
    close = swapped or get_close_matches(small, known, n=1, cutoff=_CLOSE)
    return close[0] if close else None
