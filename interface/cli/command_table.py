"""The commands: one table that the parser, the help, did-you-mean, the shim's words and the docs page read."""

from collections.abc import Callable
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Final, NamedTuple

from interface.cli.context import Context
from interface.cli.parsing import json_flag

if TYPE_CHECKING:
    import argparse

Configure = Callable[["argparse.ArgumentParser"], None]
Run = Callable[[Context], int]


class Command(NamedTuple):
    """One command."""

    word: str
    help: str
    group: str
    aliases: tuple[str, ...] = ()
    takes_params: bool = False
    """Words after ``--`` are taken as they are: parameters of a workflow, or ``after``."""
    after: str = "parameters of the workflow"

    file: str = ""
    """The module in interface.cli.commands, where its name is not the word."""

    @property
    def module(self) -> ModuleType:
        """The module of the command, which is imported only now."""
        return import_module(f"interface.cli.commands.{self.file or self.word}")

    def load(self) -> tuple[Configure, Run]:
        """Return the functions that declare the arguments of the command and run it.

        A command with commands under it has WORD_VERBS in their place; the default of the arguments is ``--json``.
        """
        verbs = getattr(self.module, f"{self.word.upper()}_VERBS", None)
        return load(self.module, self.word, json_flag if verbs is None else verbs.configure, verbs and verbs.run)


def load(module: ModuleType, words: str, configure: Configure, run: Run | None = None) -> tuple[Configure, Run]:
    """Return ``configure_WORDS`` and ``run_WORDS`` of ``module``, or the given function where one is missing."""
    name = words.strip("_").replace("-", "_").replace(" ", "_")
    own: Run | None = getattr(module, f"run_{name}", run)
    assert own is not None
    return getattr(module, f"configure_{name}", configure), own


COMMANDS: Final[tuple[Command, ...]] = (
    Command("run", "run a workflow to its end and report", "Work", takes_params=True),
    Command("send", "send a message; --wait for what comes of it", "Work"),
    Command("ask", "send a message and stream the answer", "Work", file="send"),
    Command("serve", "send a message and print the answer as JSON", "Work", file="send"),
    Command("call", "inside an attempt: call a tool of agents, without MCP", "Work"),
    Command("start", "start the kernel, or a workflow that stays", "Kernel", takes_params=True),
    Command("stop", "stop workflows or agents, or everything", "Kernel", file="start"),
    Command("status", "say whether the kernel is up; starts nothing", "Kernel"),
    Command("service", "have the system keep the kernel, and start it again when it died", "Kernel"),
    Command("restart", "restart an agent's worker, or the kernel", "Kernel", file="start"),
    Command(
        "upgrade", "have a new version go on with all that runs, and the old one if it cannot", "Kernel", file="start"
    ),
    Command("backup", "write the project's state into one file, also while the kernel works", "Kernel", file="state"),
    Command("restore", "put what awk backup or a standby wrote in the place of the state", "Kernel", file="state"),
    Command("standby", "check the copy of a project's log at another place", "Kernel", file="state"),
    Command("reset", "give an agent work again, whatever kept it from it", "Steer", file="steer"),
    Command("pause", "hold back the work of an agent or a workflow", "Steer", file="steer"),
    Command("resume", "let paused work go on, or ask a provider again", "Steer", file="steer"),
    Command("continue", "grant a workflow its limits, or an agent its budget, once more", "Steer", file="steer"),
    Command("approve", "let a tool be called that waits for your approval", "Steer", file="permissions"),
    Command("deny", "refuse it, or take back what was approved once for all", "Steer", file="permissions"),
    Command("answer", "say what an agent says that is a person", "Steer", file="steer"),
    Command("space", "list the spaces that agents opened, change who is in one, or close it", "Steer", file="teamwork"),
    Command("reassign", "have another member asked in a person's place", "Steer", file="steer"),
    Command(
        "grant", "let an agent do more than its file says, for a while or a few calls", "Steer", file="permissions"
    ),
    Command("proposal", "see what agents vote on, vote too, or call a vote off", "Steer", file="decisions"),
    Command("rule", "see what follows from what, define rules, and try them on runs", "Steer", file="decisions"),
    Command("task", "see what is to be done, add to it, and say what is done", "Steer", file="teamwork"),
    Command("doc", "read and write the documents that agents share", "Steer"),
    Command("cancel", "take instructions back", "Steer", file="steer"),
    Command("retry", "try again what failed or is dead", "Steer", file="steer"),
    Command("clear", "remove what was said and done in a space, for good", "Steer", file="channel"),
    Command("prune", "remove what takes room and nobody needs any more", "Steer", file="state"),
    Command("merge", "merge what the agents of a run did into a branch: all of it, or nothing", "Steer", file="runs"),
    Command("promote", "have an instruction done before those of other lanes", "Steer", file="steer"),
    Command("ps", "list agents as processes", "Look"),
    Command("projects", "list all your projects in which a kernel ran, and how each is", "Look"),
    Command("top", "watch agents live (q quits)", "Look", file="ps"),
    Command("open", "show all of it in a browser, or print the address of the page", "Look", file="connections"),
    Command("ls", "list agents", "Look", aliases=("list",), file="queue"),
    Command("peek", "show the latest messages of an agent or workflow", "Look", file="channel"),
    Command("channel", "show the channel of a workflow", "Look"),
    Command("resource", "print the long texts that messages refer to, or keep one for agents", "Look", file="doc"),
    Command("inbox", "show what an agent has not handled", "Look", file="queue"),
    Command("queue", "show what waits for an agent", "Look"),
    Command("needs", "list what goes on only once you do something", "Look"),
    Command("pending", "list what waits for your approval", "Look", file="permissions"),
    Command("audit", "see who asked whose memory for what, and what was given", "Look", file="permissions"),
    Command("feedback", "see what agents say of the work itself, or add to it", "Look", file="teamwork"),
    Command("stats", "show what work took: tokens, money, time, and how it ended", "Look", file="status"),
    Command("dead", "list instructions that failed for good", "Look", file="queue"),
    Command("runs", "list runs of workflows, the newest first", "Look"),
    Command("show", "show a run or an instruction", "Look"),
    Command("export", "write all that was said and done in a run or a space into one file", "Look", file="channel"),
    Command("import", "check an archive and say what is in it; show and channel read it", "Look", file="channel"),
    Command("diff", "show what agents did in working trees of their own", "Look", file="runs"),
    Command("attach", "watch an agent or a workflow work, and approve its calls in place", "Look", file="events"),
    Command("worktree", "list and remove the git working trees of agents", "Look", file="runs"),
    Command("logs", "show what workers and attempts did", "Look", file="events"),
    Command("events", "show the kernel's events", "Look"),
    Command("doctor", "say what keeps agents from working here, and the way out", "Look", file="project_setup"),
    Command("df", "say what of the project's state takes room, and how there is less of it", "Look", file="state"),
    Command("wait", "wait until an agent, a run or an instruction is idle, done, or needs you", "Look"),
    Command("watch", "follow a run to its end; --exit-status ends as the run does", "Look", file="run"),
    Command("new", "make an agent that lives until the kernel stops", "Set up", file="queue"),
    Command("agent", "create, change and delete agents; what they know, noted and have to do", "Set up"),
    Command("memory", "measure how well agents find again what was said", "Set up", file="agent_context"),
    Command(
        "tool",
        "list, make and mock the tools that agents can have",
        "Set up",
        takes_params=True,
        after="the command of a tool that is added",
    ),
    Command(
        "worker",
        "check a program that is to be a worker",
        "Set up",
        takes_params=True,
        after="more of the program's command",
        file="project_setup",
    ),
    Command("skills", "list, import and update what agents can read up on", "Set up"),
    Command("init", "write example files into this project", "Set up", file="project_setup"),
    Command("validate", "say everything that is wrong with the project's files", "Set up", file="project_setup"),
    Command("config", "show what a file comes to, and where each value is from", "Set up", file="project_setup"),
    Command("schema", "print the JSON Schema of a file, for editors", "Set up", file="project_setup"),
    Command("completion", "print a script that completes commands in your shell", "Set up"),
    Command("trust", "keep to trust what files would run or reach", "Set up"),
    Command("token", "make, list and take back tokens for programs of your own", "Set up", file="connections"),
    Command(
        "mcp-serve", "be an MCP server on standard input and output, for a coding agent", "Set up", file="connections"
    ),
    Command(
        "node",
        "list the other machines on which agents work, add one, or be one",
        "Set up",
        takes_params=True,
        after="arguments of the program that leads to a node that is added",
        file="connections",
    ),
    Command("webhook", "list the servers that are told what happens, and try one again", "Set up", file="connections"),
    Command("providers", "list model providers and whether their keys are set", "Set up"),
    Command("backends", "list what can run an agent", "Set up", file="providers"),
    Command("version", "print the version", "Set up", file="help"),
    Command("help", "explain a command, or a topic: targets, exit-codes, environment", "Set up"),
)

HIDDEN: Final = (Command("_complete", "list what a word can be completed to", "", file="completion"),)
"""What only our own shell scripts call: no help and no page names it."""


BY_WORD: Final = MappingProxyType(
    {word: command for command in (*COMMANDS, *HIDDEN) for word in (command.word, *command.aliases)}
)
_CLOSE: Final = 0.7
"""How like a command a word is that may be a slip of it: statsu is status, and bogus is not logs."""


def meant_command(word: str) -> str | None:
    """The command of ours that ``word`` is a slip of: another case, swapped letters, or nearly all letters the same."""
    from difflib import get_close_matches  # noqa: PLC0415  (10 ms, for slips only)

    small = word.lower()
    if small in BY_WORD:
        return small
    known = [command for command in BY_WORD if command[0] != "_"]
    swapped = [command for command in known if sorted(command) == sorted(small)]  # strat is start, though as like stats
    close = swapped or get_close_matches(small, known, n=1, cutoff=_CLOSE)
    return close[0] if close else None
