"""The ACP backend: runs any program that speaks the Agent Client Protocol (version 1) on its standard streams.

The protocol has no field for a system prompt, so the first message starts with it. A program cannot report a failed
connection to an MCP server, so the kernel checks whether a client used the attempt's token. The response to the prompt
is the end of the instruction; the exit code carries no information. The backend does not offer files and terminals to
the program, which uses its own in its sandbox.

Permission requests of the program are forwarded to the kernel. The session mode is chosen to enforce ``approval``. If
no mode is known in which a program asks (``protocol.backends``), it runs only with ``approval: auto``.
"""

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from protocol.backends import UNKNOWN, acp_program
from protocol.errors import Cause
from protocol.ipc import NULL, Result
from protocol.text import decoded, encode_json
from protocol.tools import CONTEXT_TOOLS, OFFERED_TO, TO_MODEL, is_read_only, server_and_tool
from worker import mcp_bridge
from worker.backends import acp_agents, acp_frames, backend, private_files
from worker.backends.acp_frames import Frame, Greeting, PermissionRequest, PromptEnd, Session, SessionUpdate, Trouble
from worker.backends.acp_replies import DAEMON, AcpReplies, OpenCall, usage_of
from worker.backends.opencode import SEE_BRIDGE
from worker.conversation import shorten
from worker.models.model import Failed, cause_of, codes_in

ASKS: Final = 20
"""Maximum number of pending permission requests; further ones are refused."""
ASKED_BYTES: Final = 64 * 1024
"""Maximum size of a call shown for approval; a larger call is refused, because it cannot be shown completely."""
SESSION_CHARACTERS: Final = 1000
TEXT_CHARACTERS: Final = 2000
_SETTLED: Final = "_agent-worker/settled"
"""A method that no program implements. Its error response follows all replayed updates of a resumed session."""
_WORDS: Final = ("/", "$", "!", "@")
"""Prefixes with which a program may interpret a text as one of its own commands."""
_OPENING: Final = "What you are asked to do:\n\n"
_INCOMPLETE: Final[Mapping[str, Cause]] = {"max_tokens": "max_tokens", "max_turn_requests": "max_steps"}

_STATUS_KEYS: Final = ("status", "statusCode", "status_code", "code")
_ResponseHandler = Callable[[Frame], Iterable[backend.Event]]
_Setting = tuple[str, Mapping[str, str], str]
"""A request that configures a session: method, parameters, and the error text if the program refuses."""


class Acp:
    """Process of an ACP program, with a new or a resumed session."""

    def __init__(self, job: backend.BackendJob) -> None:
        self._job = job
        self._title = acp_agents.program_name(job)
        self._replies = AcpReplies()
        self._known = acp_program(job.start.command)
        self._modes: frozenset[str] = frozenset()
        """Session modes that are allowed once a mode was chosen; empty if any mode is allowed."""
        self._session = job.session or ""
        self._is_resumed = job.session is not None
        self._sent = 0
        self._awaited: dict[acp_frames.Id, _ResponseHandler] = {}
        self._asking: dict[acp_frames.Id, PermissionRequest] = {}
        """Permission requests without a decision."""
        self._prompting = False
        self._is_cancelled = False
        self._cost_usd: float | None = None if job.session else 0.0
        """Cost of the session before this attempt."""
        self._costs_usd = 0.0
        self._stop = ""
        self._text = ""
        self._failure: Failed | None = None

    def launch(self) -> backend.Launch:
        """Write the program's private files and return how to start it, with its first input. Raises Failed."""
        env = acp_agents.environment(self._job)
        hello = self._request("initialize", acp_frames.GREETING, self._on_initialized)
        return backend.Launch(argv=self._job.start.command, env=env, stdin=hello.data, see=SEE_BRIDGE, talks=True)

    def read(self, line: bytes) -> Iterator[backend.Event]:
        """Translate one frame into events. Raises Failed."""
        frame = decoded(line, Frame)
        if frame is None:
            # A valid frame of an unknown kind is not broken.
            if b'"session/update"' not in line and b'"jsonrpc"' in line and decoded(line, object) is None:
                said = shorten(line.decode("utf-8", "replace"), 300)
                raise Failed("protocol", f"{self._title} sent an incomplete or oversized frame: {said}")
        elif frame.method and frame.id is not None:
            yield from self._on_request(frame, frame.id)
        elif frame.method == "session/update":
            told = decoded(frame.params, SessionUpdate)
            if told is None or told.session_id != self._session:
                return
            options = (one for one in told.update.config_options or () if "mode" in one.names)
            modes = {told.update.current_mode_id, *(decoded(one.current_value, str) or "" for one in options)} - {""}
            if self._modes and not modes <= self._modes:
                text = f"{self._title} switched to the session mode {', '.join(sorted(modes))[:100]}"
                raise Failed("invalid", f"{text}, so approval: {self._job.start.approval} cannot hold")
            # Updates before the prompt belong to the resumed session, which the program replays.
            if not self._prompting:
                return
            cost = told.update.cost
            if cost is not None and cost.currency == "USD" and math.isfinite(cost.amount):
                self._cost_usd = cost.amount if self._cost_usd is None else self._cost_usd
                self._costs_usd = max(cost.amount - self._cost_usd, 0.0)
            if not self._is_cancelled:
                yield from self._replies.take(told.update)
        elif not frame.method and frame.id in self._awaited:
            yield from self._awaited.pop(frame.id)(frame)

    def conclude(self, ended: backend.ProgramExit) -> Result:
        """Return the result of the attempt. Raises Failed."""
        if self._failure is not None:
            raise self._failure
        match self._stop:
            case "":
                raise backend.unfinished_result(self._title, ended)
            case "end_turn":
                return Result(status="done", text=self._text)
            case "refusal":
                raise Failed("refusal", f"{self._title}: the model refused to continue")
            case stop if stop in _INCOMPLETE:
                return Result(status="incomplete", text=self._text, cause=_INCOMPLETE[stop])
            case stop:
                raise Failed("protocol", f"{self._title} stopped unexpectedly: {stop[:100]}")

    def _request(self, method: str, params: Mapping[str, Any], then: _ResponseHandler) -> backend.InputReady:
        self._sent += 1
        self._awaited[self._sent] = then
        return backend.InputReady(acp_frames.request(self._sent, method, params))

    def _on_initialized(self, frame: Frame) -> Iterator[backend.Event]:
        if frame.error is not None:
            raise self._failed(frame.error, "does not start")
        greeting = decoded(frame.result, Greeting) or Greeting()
        if greeting.protocol_version != acp_frames.PROTOCOL:
            spoken = f"version {greeting.protocol_version} of ACP, and this is version {acp_frames.PROTOCOL}"
            raise Failed("spawn_permanent", f"{self._title} speaks {spoken}")
        able = greeting.agent_capabilities
        http = able.mcp_capabilities.http
        job, start = self._job, self._job.start
        servers: list[Mapping[str, Any]] = []
        if http:
            headers = {"Authorization": f"Bearer {start.token}", OFFERED_TO: TO_MODEL}
            servers.append({"type": "http", "name": DAEMON, "url": start.mcp.url, "headers": _pairs(headers)})
        else:
            bridge = mcp_bridge.BridgeConfig(url=start.mcp.url, token=start.token)
            file = private_files.write(job.place / "daemon.json", msgspec.structs.asdict(bridge))
            args = ["-I", "-m", "worker.mcp_bridge", str(file)]
            servers.append({"name": DAEMON, "command": sys.executable, "args": args, "env": []})
        for name, one in start.mcp_servers.items():
            if one.url is None:
                made = {"command": one.command or "", "args": list(one.args), "env": _pairs(one.env)}
            elif http:
                made = {"type": "http", "url": one.url, "headers": _pairs(one.headers)}
            else:
                raise backend.unserved(self._title, name, "the program does not support MCP servers over HTTP")
            servers.append({"name": name, **made})
        place = {"cwd": start.cwd, "mcpServers": servers, **acp_agents.session_options(job)}
        resumes = able.session_capabilities.resume is not None
        if not (resumes or able.load_session) or self._title in acp_agents.FORGETFUL:
            self._session = ""
        if self._session:
            method = "session/resume" if resumes else "session/load"
            yield self._request(method, {**place, "sessionId": self._session}, self._on_session_opened)
        else:
            self._is_resumed, self._cost_usd = False, 0.0
            yield self._request("session/new", place, self._on_session_opened)
        yield backend.ActivityChanged("opening a session")

    def _on_session_opened(self, frame: Frame) -> Iterator[backend.Event]:
        if frame.error is not None and self._is_resumed and frame.error.code != acp_frames.AUTH_REQUIRED:
            said = frame.error.message[:TEXT_CHARACTERS]
            raise Failed("session_lost", f"{self._title} did not resume session {self._session}: {said}")
        if frame.error is not None:
            raise self._failed(frame.error, "did not open a session")
        session = decoded(frame.result, Session) or Session()
        self._session = self._session or session.session_id
        if not 0 < len(self._session) <= SESSION_CHARACTERS:
            raise Failed("protocol", f"{self._title} opened a session without a valid ID")
        yield backend.SessionStarted(self._session)
        yield from self._configure([*self._settings(session)])

    def _settings(self, session: Session) -> Iterator[_Setting]:
        """Yield the requests that select the agent's model and the session mode that enforces ``approval``.

        Raises Failed if the program does not offer them.
        """
        model, options = self._job.start.model, session.config_options or ()
        by_category = {name: one.id for one in reversed(options) for name in ("model", "mode") if name in one.names}
        if model != self._job.start.backend:  # otherwise the agent names no model
            fault = f"{self._title} does not support the model {model}"
            if "model" in by_category:
                yield "session/set_config_option", {"configId": by_category["model"], "value": model}, fault
            elif session.models != NULL:
                yield "session/set_model", {"modelId": model}, fault
            else:
                text = f"{self._title} does not support model selection, but the agent file sets model: {model}"
                raise Failed("invalid", f"{text}: remove it, and name the model in command")
        approval, mode = self._job.start.approval, self._known.mode
        fault = f"{self._title} cannot be required to ask before it makes changes, so approval: {approval} cannot hold"
        fix = "write approval: auto, with sandbox: on to confine it, or choose another program"
        if approval not in self._known.approvals:
            raise Failed("invalid", f"{fault}: {fix}")
        if not mode or (approval == "auto" and self._known is UNKNOWN):
            return
        fault += f" (no session mode {mode!r}; {fix})"
        offered = session.modes and {one.id for one in session.modes.available_modes}
        if mode in (offered or ()) or (self._is_resumed and offered is None and "mode" not in by_category):
            yield "session/set_mode", {"modeId": mode}, fault
        elif offered is None and "mode" in by_category:
            yield "session/set_config_option", {"configId": by_category["mode"], "value": mode}, fault
        elif approval != "auto":
            raise Failed("invalid", fault)

    def _configure(self, settings: Sequence[_Setting]) -> Iterator[backend.Event]:
        """Send ``settings`` one by one, then the prompt. A resumed session must have replayed its updates first.

        Raises Failed if the program refuses a setting.
        """
        if not settings and not self._is_resumed:
            return self._prompt()
        if not settings:
            return iter((self._request(_SETTLED, {"sessionId": self._session}, lambda _frame: self._prompt()),))
        (method, fields, fault), *rest = settings

        def made(frame: Frame) -> Iterator[backend.Event]:
            if frame.error is not None:
                raise Failed("invalid", f"{fault}: {frame.error.message[:TEXT_CHARACTERS]}")
            if self._known.mode in (fields.get("modeId"), fields.get("value")) and self._job.start.approval != "auto":
                self._modes = self._known.other_modes | {self._known.mode}
            return self._configure(rest)

        return iter((self._request(method, {"sessionId": self._session, **fields}, made),))

    def _prompt(self) -> Iterator[backend.Event]:
        job = self._job
        text = job.anew if job.session is not None and not self._is_resumed else job.message
        if job.start.system and not self._is_resumed:
            text = f"{job.start.system}\n\n{text}"
        if text.lstrip().startswith(_WORDS):
            text = f"{_OPENING}{text}"
        self._prompting = True
        params = {"sessionId": self._session, "prompt": [{"type": "text", "text": text}]}
        yield self._request("session/prompt", params, self._on_prompt_ended)
        yield backend.FarewellInput(self.farewell)
        yield backend.ActivityChanged("asking the model")

    def _on_prompt_ended(self, frame: Frame) -> Iterator[backend.Event]:
        self._prompting = False
        ending = decoded(frame.result, PromptEnd) or PromptEnd()
        usage = usage_of(ending, self._costs_usd or None)
        if self._is_cancelled:
            if usage is not None:
                yield backend.SubagentUsage(usage)
        elif frame.error is not None:
            self._failure = self._failed(frame.error, "failed")
            if self._costs_usd:
                yield from self._replies.last(usage)
        else:
            for event in self._replies.last(usage):
                self._text = getattr(event, "text", "")
                yield event
            self._stop = ending.stop_reason or "no reason given"
        yield backend.LastEvent()

    def _on_request(self, frame: Frame, id_: acp_frames.Id) -> Iterator[backend.Event]:
        if frame.method != "session/request_permission":
            what = f"{frame.method[:100]} is not offered"
            yield backend.InputReady(acp_frames.refusal(id_, acp_frames.METHOD_NOT_FOUND, what))
            return
        asked = decoded(frame.params, PermissionRequest)
        if asked is None or asked.session_id != self._session or not asked.tool_call.tool_call_id:
            yield backend.InputReady(
                acp_frames.refusal(id_, acp_frames.INVALID_PARAMS, "invalid permission request for this session")
            )
            return
        call = None
        if self._prompting and not self._is_cancelled and id_ not in self._asking and len(self._asking) < ASKS:
            call = self._replies.call_of(asked.tool_call, announced=False)
        if call is None:
            yield backend.InputReady(acp_frames.answer(id_, {"outcome": {"outcome": "cancelled"}}))
            return
        self._asking[id_] = asked
        about = call.shown()
        match self._verdict(call):
            case "ask" if len(encode_json(about)) > ASKED_BYTES:
                yield from self._decided(id_, call, False, "the call is too large to be shown for approval")
            case "ask":
                yield backend.ActivityChanged(f"waiting for approval: {call.called}", tool=True)
                yield backend.PermissionNeeded(call.called, dict(about), partial(self._decided, id_, call))
            case verdict:
                yield from self._decided(id_, call, verdict == "grant", "the agent's approval level does not allow it")

    def _verdict(self, call: OpenCall) -> str:
        """Decide on a permission request: ``grant``, ``refuse`` or ``ask``.

        A tool is identified by a field that the program itself fills in: titles and kinds may come from the model.
        """
        start = self._job.start
        server, tool = server_and_tool(call.tool)
        if start.approval == "auto" or (server == DAEMON and tool in CONTEXT_TOOLS):
            return "grant"
        if server in start.mcp_servers and start.approval != "all" and is_read_only(call.tool, start.read_only):
            return "grant"
        return "refuse" if start.approval == "deny" else "ask"

    def _decided(self, id_: acp_frames.Id, call: OpenCall, granted: bool, words: str) -> Iterator[backend.Event]:
        asked = self._asking.pop(id_, None)
        if asked is None:
            return
        always = ("allow_always",) if self._job.start.approval == "auto" else ()
        wanted = ("allow_once", *always) if granted else ("reject_once", "reject_always")
        ids = {choice.kind: choice.option_id for choice in reversed(asked.options)}
        chosen = next((ids[kind] for kind in wanted if kind in ids), None)
        outcome = {"outcome": "cancelled"} if chosen is None else {"outcome": "selected", "optionId": chosen}
        yield backend.InputReady(acp_frames.answer(id_, {"outcome": outcome}))
        if not granted or chosen is None:
            why = (
                words
                if not granted
                else "the program offers only permanent approval, but calls are approved one by one"
            )
            text = f"{call.called} was not run: {why or 'it was denied'}"
            yield from self._replies.ended(call, text[:TEXT_CHARACTERS], is_error=True)

    def farewell(self) -> bytes:
        """Return input that asks the program to stop: it cancels the prompt and all pending permission requests."""
        if not self._prompting:
            return b""
        self._is_cancelled = True
        open_ = [acp_frames.answer(id_, {"outcome": {"outcome": "cancelled"}}) for id_ in self._asking]
        self._asking.clear()
        return acp_frames.notification("session/cancel", {"sessionId": self._session}) + b"".join(open_)

    def _failed(self, trouble: Trouble, what: str) -> Failed:
        said = f"{self._title} {what}: {trouble.message[:TEXT_CHARACTERS]}"
        if trouble.code == acp_frames.AUTH_REQUIRED:
            hint = "name the API key variable under env, or set login: true"
            return Failed("auth", f"{said} ({hint})")
        data = trouble.data
        inner = (data.get("error"), data.get("data")) if isinstance(data, Mapping) else ()
        known = (part.get(key) for part in (data, *inner) if isinstance(part, Mapping) for key in _STATUS_KEYS)
        numbers = (one for one in (trouble.code, *known) if isinstance(one, int))
        status = next((one for one in numbers if 300 <= one < 600), None)
        words = codes_in(data)
        cause: Cause = cause_of(status, words)
        if status is None and trouble.code in (acp_frames.INVALID_PARAMS, acp_frames.METHOD_NOT_FOUND):
            cause = "invalid"
        return Failed(cause, said, http_status=status, code=words[0][:100] if words else None)


def _pairs(values: Mapping[str, str]) -> list[Mapping[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


open = Acp  # noqa: A001  (entry point of each backend module)
