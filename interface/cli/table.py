"""The commands: one table that the parser, the help, did-you-mean, the shim's words and the docs page read."""

from keyword import iskeyword
from types import MappingProxyType
from typing import Final, NamedTuple


class Command(NamedTuple):
    """One command. ``module`` is its file in interface.cli.commands."""

    word: str
    help: str
    group: str
    aliases: tuple[str, ...] = ()
    takes_params: bool = False
    """Whether words after ``--`` are taken as they are: parameters of a workflow, or ``after``."""
    after: str = "parameters of the workflow"

    @property
    def module(self) -> str:
        """The module that has its ``configure`` and ``run``."""
        name = f"{self.word}_" if iskeyword(self.word) else self.word
        return f"interface.cli.commands.{name}"


COMMANDS: Final[tuple[Command, ...]] = (
    Command("run", "run a workflow to its end and report", "Work", takes_params=True),
    Command("send", "send a message; --wait for what comes of it", "Work"),
    Command("ask", "send a message and stream the answer", "Work"),
    Command("serve", "send a message and print the answer as JSON", "Work"),
    Command("start", "start the kernel, or a workflow that stays", "Kernel", takes_params=True),
    Command("stop", "stop workflows or agents, or everything", "Kernel"),
    Command("status", "say whether the kernel is up; starts nothing", "Kernel"),
    Command("restart", "restart an agent's worker, or the kernel", "Kernel"),
    Command("reset", "give an agent work again, whatever kept it from it", "Steer"),
    Command("pause", "hold back the work of an agent or a workflow", "Steer"),
    Command("resume", "let paused work go on, or ask a provider again", "Steer"),
    Command("continue", "grant a workflow its limits, or an agent its budget, once more", "Steer"),
    Command("approve", "let a tool be called that waits for your approval", "Steer"),
    Command("deny", "refuse it, or take back what was approved once for all", "Steer"),
    Command("proposal", "see what agents vote on, vote too, or call a vote off", "Steer"),
    Command("cancel", "take instructions back", "Steer"),
    Command("retry", "try again what failed or is dead", "Steer"),
    Command("clear", "remove what was said and done in a space, for good", "Steer"),
    Command("promote", "have an instruction done before those of other lanes", "Steer"),
    Command("ps", "list agents as processes", "Look"),
    Command("top", "watch agents live (q quits)", "Look"),
    Command("ls", "list agents", "Look", aliases=("list",)),
    Command("peek", "show the latest messages of an agent or workflow", "Look"),
    Command("channel", "show the channel of a workflow", "Look"),
    Command("inbox", "show what an agent has not handled", "Look"),
    Command("queue", "show what waits for an agent", "Look"),
    Command("pending", "list what waits for your approval", "Look"),
    Command("feedback", "see what agents say of the work itself, or add to it", "Look"),
    Command("stats", "show what work took: tokens, money, time, and how it ended", "Look"),
    Command("dead", "list instructions that failed for good", "Look"),
    Command("runs", "list runs of workflows, the newest first", "Look"),
    Command("show", "show a run or an instruction", "Look"),
    Command("diff", "show what agents did in working trees of their own", "Look"),
    Command("logs", "show what workers and attempts did", "Look"),
    Command("events", "show the kernel's events", "Look"),
    Command("new", "make an agent that lives until the kernel stops", "Set up"),
    Command("agent", "create, change and delete agents; what they know, noted and have to do", "Set up"),
    Command(
        "tool",
        "list, make and mock the tools that agents can have",
        "Set up",
        takes_params=True,
        after="the command of a tool that is added",
    ),
    Command("skills", "list, import and update what agents can read up on", "Set up"),
    Command("init", "write example files into this project", "Set up"),
    Command("validate", "say everything that is wrong with the project's files", "Set up"),
    Command("config", "show what a file comes to, and where each value is from", "Set up"),
    Command("schema", "print the JSON Schema of a file, for editors", "Set up"),
    Command("completion", "print a script that completes commands in your shell", "Set up"),
    Command("trust", "keep to trust what files would run or reach", "Set up"),
    Command("providers", "list model providers and whether their keys are set", "Set up"),
    Command("backends", "list what can run an agent", "Set up"),
    Command("version", "print the version", "Set up"),
    Command("help", "explain a command, or a topic: targets, exit-codes, environment", "Set up"),
)

HIDDEN: Final = (Command("_complete", "list what a word can be completed to", ""),)
"""What only our own shell scripts call: no help and no page names it."""


def _by_word() -> dict[str, Command]:
    words: dict[str, Command] = {}
    for command in (*COMMANDS, *HIDDEN):
        for word in (command.word, *command.aliases):
            if word in words:
                raise ValueError(f"two commands are called {word}")
            words[word] = command
    return words


BY_WORD: Final = MappingProxyType(_by_word())
