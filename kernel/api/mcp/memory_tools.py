"""KEEPING: the tools for what an agent keeps and finds again, for what it is given of colleagues, and for who it is."""

from typing import Final

from kernel.api.mcp import mediation, memory
from kernel.api.mcp.tool import Tool
from kernel.store.transitions.sharing import MemoryShared

KEEPING: Final = (
    Tool(
        name="memory_read",
        description="Read what you know: all of it that counts here, or one key. Unless next is null there is more.",
        asks=memory.MemoryReadArguments,
        gives=memory.MemoryReadResult,
        handler=memory.memory_read,
    ),
    Tool(
        name="memory_write",
        description="Keep something that you will need in later work, under a key. It is there in all your spaces.",
        asks=memory.MemoryWriteArguments,
        gives=memory.MemoryWriteResult,
        handler=memory.memory_write,
        mutating=True,
    ),
    Tool(
        name="memory_forget",
        description="Forget what you know under a key.",
        asks=memory.MemoryForgetArguments,
        gives=memory.MemoryForgetResult,
        handler=memory.memory_forget,
        mutating=True,
    ),
    Tool(
        name="note_write",
        description="Keep a longer text for yourself, with the date: what you found out, what you did and why.",
        asks=memory.NoteWriteArguments,
        gives=memory.NoteWriteResult,
        handler=memory.note_write,
        mutating=True,
        idempotent=False,
    ),
    Tool(
        name="note_read",
        description="Read your newest notes, the newest first. Unless next is null there is more.",
        asks=memory.NoteReadArguments,
        gives=memory.NoteReadResult,
        handler=memory.note_read,
    ),
    Tool(
        name="todo_list",
        description="List what you have to do, with the ids that todo_done takes.",
        asks=memory.TodoListArguments,
        gives=memory.TodoListResult,
        handler=memory.todo_list,
    ),
    Tool(
        name="todo_add",
        description="Add something to what you have to do, for work to come.",
        asks=memory.TodoAddArguments,
        gives=memory.TodoChangedResult,
        handler=memory.todo_add,
        mutating=True,
        idempotent=False,
    ),
    Tool(
        name="todo_done",
        description="Tick off something that you had to do. Name its text, too: people change the list.",
        asks=memory.TodoDoneArguments,
        gives=memory.TodoChangedResult,
        handler=memory.todo_done,
        mutating=True,
    ),
    Tool(
        name="memory_ask",
        description="Ask what a colleague's memory has about something: you are given what it lets others know.",
        asks=mediation.MemoryAskArguments,
        gives=mediation.MemoryAskResult,
        handler=mediation.memory_ask,
        mutating=True,
    ),
    Tool(
        name="share_with",
        description="Share entries of your own memory with a colleague, by their keys. It wakes nobody.",
        asks=mediation.ShareWithArguments,
        gives=MemoryShared,
        handler=mediation.share_with,
        mutating=True,
        idempotent=False,
    ),
)
