"""The mock model, which plays a script: the same loop, the same durable entries, no provider.

Its place in the script is a fold over the entries: every reply is one action, except those that note a scripted
failure. So a script resumes anywhere, and nothing is counted in memory.
"""

import os
import re
import signal
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from protocol.agent import Action, MockExit, Rule
from protocol.instruction import Usage
from protocol.ipc import Entry, Start, ToolCall
from worker.conversation import Conversation
from worker.io.base import WorkerIO
from worker.models.errors import Failed, cause_of
from worker.models.model import StreamSink

_VARIABLE: Final = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")

Values = Mapping[str, str]


def choose(rules: tuple[Rule, ...], text: str) -> tuple[int, Rule, Values] | None:
    """The first rule for ``text``, its number, and the values its actions may use. Raises Failed (bad pattern)."""
    for number, rule in enumerate(rules):
        if rule.when is None:
            return number, rule, {"message.text": text}
        try:
            match = re.search(rule.when, text)
        except re.error as error:
            raise Failed("invalid", f"mock rule {number}: {rule.when!r} is no regular expression: {error}") from error
        if match:
            numbered = {f"match.{i}": group or "" for i, group in enumerate((match[0], *match.groups()))}
            named = {f"match.{name}": group or "" for name, group in match.groupdict().items()}
            return number, rule, {"message.text": text, **numbered, **named}
    return None


def fill(action: Action, values: Values) -> Action:
    """``action`` with its variables replaced, once: values are not expanded again. Raises Failed (unknown name)."""
    error = action.error
    return msgspec.structs.replace(
        action,
        text=_filled(action.text, values),
        shell=_filled(action.shell, values),
        args=_filled(action.args, values),
        error=msgspec.structs.replace(error, text=_filled(error.text, values)) if error else None,
    )


def _filled(value: Any, values: Values) -> Any:
    match value:
        case str() if "${{" in value:
            unknown = [name for name in _VARIABLE.findall(value) if name not in values]
            if unknown:
                known = ", ".join(sorted(values))
                raise Failed("invalid", f"mock script: ${{{{ {unknown[0]} }}}} is not known here; known: {known}")
            return _VARIABLE.sub(lambda match: values[match[1]], value)
        case list():
            return [_filled(item, values) for item in value]
        case dict():
            return {key: _filled(item, values) for key, item in value.items()}
        case _:
            return value


SHELL: Final = "shell"
"""The name of the call that stands for a script's ``shell``."""


def is_script(start: Start) -> bool:
    """Return whether the work of ``start`` is to play its script, and not to ask a model."""
    return start.backend == "mock" or (start.provider is not None and start.provider.dialect == "mock")


def kill_self(how: MockExit) -> None:
    """End this process as the script says: by a signal, or with a code and without another word."""
    if how.signal is not None:
        os.kill(os.getpid(), signal.Signals[f"SIG{how.signal.upper().removeprefix('SIG')}"])
    os._exit(how.code or 0)


class MockModel:
    """Plays the first rule whose ``when`` is found in the instruction's text; where there is none, says nothing."""

    def __init__(
        self,
        rules: tuple[Rule, ...],
        counts: Mapping[str, int],
        waits: WorkerIO,
        die: Callable[[MockExit], None] = kill_self,
    ) -> None:
        self._rules = rules
        self._counts = counts
        self._waits = waits
        self._die = die
        self._armed: tuple[str, Action] | None = None

    async def reply(self, conversation: Conversation, allowance: int | None, live: StreamSink) -> Entry:
        """The next action as a reply. Raises Failed where the script says so, or cannot be played."""
        if self._armed is not None:
            self._fail(*self._armed)
        k = conversation.next_k
        chosen = choose(self._rules, conversation.source_text)
        if chosen is None:
            return Entry(k=k, kind="reply", stop_reason="end_turn")
        number, rule, values = chosen
        index = _place(number, rule.do, conversation, self._counts)
        if index == len(rule.do):
            return Entry(k=k, kind="reply", stop_reason="end_turn")
        key, action = f"{number}.{index}", fill(rule.do[index], values)
        if action.error is not None or action.exit is not None:
            # Fail at once; or, if it is to be counted, have that made durable first and fail when asked again.
            if _times(action) is None:
                self._fail(key, action)
            self._armed = (key, action)
            return Entry(k=k, kind="reply", stop_reason="fired", note=key)
        if action.sleep is not None:
            await live.progress("sleeping")
            await self._waits.sleep(action.sleep)
        if action.text:
            await live.delta(action.text)
        # One action as a reply. The last one ends the turn, once its call has run; the others ask to go on.
        last = index + 1 == len(rule.do)
        name, args = action.tool, action.args or {}
        if name is None and action.shell is not None:
            name, args = SHELL, {"command": action.shell} | ({"background": True} if action.background else {})
        encoded = msgspec.Raw(msgspec.json.encode(args))
        calls = () if name is None else (ToolCall(id=f"mock-{k}", name=name, args=encoded),)
        usage = None if action.usage is None else Usage(**msgspec.structs.asdict(action.usage))
        stop = "end_turn" if last else "tool_use" if calls else "pause_turn"
        return Entry(k=k, kind="reply", stop_reason=stop, text=action.text or "", calls=calls, usage=usage)

    async def aclose(self) -> None:
        """Nothing is open."""

    def _fail(self, key: str, action: Action) -> None:
        self._armed = None
        if action.exit is not None:
            self._die(action.exit)
        error = action.error
        if error is None:
            raise Failed("crash", "the scripted exit did not end the process", fired=key)
        raise Failed(
            cause_of(error.http_status, (error.code,) if error.code else ()),
            error.text or "scripted failure",
            http_status=error.http_status,
            retry_after_seconds=error.retry_after,
            code=error.code,
            fired=key,
        )


def _times(action: Action) -> int | None:
    failure = action.error or action.exit
    return failure.times if failure is not None else None


def _place(number: int, actions: tuple[Action, ...], conversation: Conversation, counts: Mapping[str, int]) -> int:
    played = conversation.step_count
    for index, action in enumerate(actions):
        if action.error is not None or action.exit is not None:
            key, times = f"{number}.{index}", _times(action)
            fired = sum(step.reply.note == key for step in conversation.steps if step.reply.stop_reason == "fired")
            if times is None or max(fired, counts.get(key, 0)) < times:
                return index
        elif played == 0:
            return index
        else:
            played -= 1
    return len(actions)
