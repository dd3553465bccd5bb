"""Tool calls: arguments checked, handler run, result or refusal encoded. Knows nothing of MCP's revisions.

A refusal is a result with ``isError`` and a code, so that the model reads it and can mend its call.
"""

from contextlib import suppress
from typing import Final

import msgspec
import trio

from kernel.api.context import Services
from kernel.api.mcp.grants import GrantedWriter
from kernel.api.mcp.tool import Caller, Tool
from kernel.api.mcp.tools import TOOLS, opened_by
from kernel.api.responses import refusal_of
from kernel.fault_injection import fault_point
from kernel.policy.documents import Clashing
from kernel.store import grants
from kernel.store.attempts import Identity
from kernel.store.quotas import QuotaReached, tell_reached
from kernel.store.transitions.grants import use
from protocol.agent import Scope
from protocol.api.document import DocumentConflict
from protocol.errors import Refused
from protocol.text import encode_json
from protocol.tools import ToolScope

STOPPING: Final = Refused("stopping", "the kernel is stopping; whether this call took effect is not known")
KEY_LIMIT: Final = 200


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a refused call."""

    code: str
    detail: str
    hint: str | None = None
    conflict: DocumentConflict | None = None
    """Of ``version_conflict``: the three texts."""


class Answer(msgspec.Struct, frozen=True):
    """The structured result of a call, as JSON."""

    body: bytes
    is_error: bool = False
    words: bytes | None = None
    """Its text, where it is nothing but that."""

    @property
    def text(self) -> str:
        """The result as text."""
        return (self.body if self.words is None else self.words).decode()


class ToolDispatcher:
    """Runs calls, and can end those under way."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._running: set[trio.CancelScope] = set()

    async def call(self, tool: Tool, caller: Caller, arguments: object) -> Answer:
        """Run ``tool`` for ``caller``. Never raises but by cancellation.

        Cancellation: what was handed to the writer is committed all the same; a repeat with the same key finds it.
        """
        with trio.CancelScope() as scope:
            self._running.add(scope)
            try:
                try:
                    may = tool.scope in opened_by(caller.identity) or tool.scope == "tree"
                    granted = None if may else self._granted(tool, caller)
                    asked = msgspec.convert(arguments, tool.asks)
                    if granted is not None and tool.is_paid_first:
                        await self._services.store.writer.commit(use, caller.author, granted)
                        granted = None
                    services = self._services if granted is None else self._under(granted, caller)
                    given = await tool.handler(caller, asked, **services.named_by(tool.handler))
                    answer = Answer(encode_json(given), words=None if tool.words is None else tool.words(given))
                    fault_point("mcp.answer")
                    return answer
                except msgspec.ValidationError as error:
                    return failed(Refused("bad_request", f"the arguments of {tool.name} do not fit: {error}"))
                except QuotaReached as reached:
                    # The refusal, which is told to those who watch as well.
                    with suppress(Refused):  # it ended meanwhile, or the kernel stops
                        await self._services.store.writer.commit(
                            tell_reached, caller.author, reached.quota, reached.limit
                        )
                    return failed(reached)
                except Exception as error:  # noqa: BLE001 - the boundary: a tool that fails is answered
                    return failed(refusal_of(error))
            finally:
                self._running.discard(scope)
        return failed(STOPPING)

    def opened(self, identity: Identity) -> frozenset[ToolScope]:
        """The scopes whose tools ``identity`` may call now: those of its token, and what it was given."""
        opened = opened_by(identity)
        if not identity.has_grants:
            return opened
        store = self._services.store
        return opened | store.reader.now(grants.given_to, identity, store.now_ms())[0]

    def _granted(self, tool: Tool, caller: Caller) -> Scope:
        """The scope of ``tool``, if the caller was given it. Raises Refused (forbidden)."""
        store, identity = self._services.store, caller.identity
        if identity.has_grants:
            usable, spent = store.reader.now(grants.given_to, identity, store.now_ms())
            for scope in usable | spent:  # what is used up may be called again for what it was answered
                if scope == tool.scope:
                    return scope
        raise out_of_scope(tool, identity.name)

    def _under(self, granted: Scope, caller: Caller) -> Services:
        """The records for a call that is made by a grant: each of its commits looks at it."""
        services = self._services
        writer = GrantedWriter(services.store.writer, caller.author, granted)
        return msgspec.structs.replace(services, store=msgspec.structs.replace(services.store, writer=writer))

    async def fail_after(self, seconds: float) -> None:
        """Answer in place of every call that is still under way after ``seconds``."""
        await trio.sleep(seconds)
        for scope in tuple(self._running):
            scope.cancel()


def find(name: str) -> Tool | None:
    """The tool called ``name``."""
    return TOOLS.get(name)


def out_of_scope(tool: Tool, agent: str) -> Refused:
    """The refusal of a tool that neither the agent's file nor anybody gave it."""
    text = (
        f"{tool.name} is not among the tools of {agent}: neither its file nor a grant gives it the scope {tool.scope}"
    )
    return Refused("forbidden", text, "go on without it; what you may call is listed to you")


def call_key(value: object) -> str | None:
    """The key of a call from ``_meta``: a short string, or none."""
    return value if isinstance(value, str) and 0 < len(value) <= KEY_LIMIT else None


def failed(refused: Refused) -> Answer:
    """The answer to a call that is refused."""
    conflict = refused.conflict if isinstance(refused, Clashing) else None
    failure = Failure(code=refused.code, detail=refused.text, hint=refused.hint, conflict=conflict)
    return Answer(encode_json(failure), is_error=True)
