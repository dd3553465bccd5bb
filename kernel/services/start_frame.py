"""Start frame of an attempt: current definition, provider and key, prompt, and entries so far.

Definitions are read at each lease, so that an edited file takes effect with the next attempt (fault CF18). All their
errors are found here, before a process is started.

The prompt is saved with the first durable entry, and later attempts get the same prompt. Entries of another backend or
dialect cannot be replayed, nor can entries of a program whose own session is lost or full; the attempt then starts over
with a ledger of the previous work.
"""

import os
import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import msgspec
import trio

from kernel.agents.backends import command_of
from kernel.agents.cli_extras import Extras, extras_of
from kernel.agents.environment import worker_environment
from kernel.agents.mcp_servers import filled
from kernel.agents.memory_prompt import NOTHING_KNOWN, Choose, Known, Memories
from kernel.agents.models import each_model
from kernel.agents.prompt import AssembledPrompt, prior_work
from kernel.agents.providers import SDKS, CauseError, ModelRejected, Resolved, resolve, sdks_for
from kernel.agents.resources import NOTHING, AgentResources, has_resources, resources_of
from kernel.agents.skills import skills_prompt
from kernel.agents.trust import TrustedFiles, agent_units, demands_text, missing_grants
from kernel.policy.budget import tokens
from kernel.policy.circuit_breaker import ModelEndpoint
from kernel.policy.fallback import ModelChoice
from kernel.policy.reuse import attempts_per_worker
from kernel.services.model_access import ModelGrant, grants_of, key_variables, lent
from kernel.services.model_choice import endpoint_of
from kernel.services.working_directory import AttemptPaths, WorkingDirectory, in_project
from kernel.store import approvals, entries, messages
from kernel.store.database import Reader
from kernel.store.entries import FrozenPrompt
from kernel.store.transitions.journal import PromptSnapshot
from kernel.store.transitions.lease import Leased
from kernel.workflows.instruction_prompt import definition_for, instruction_prompt, known_for, settings_of
from osfiles.atomic_write import replacing
from protocol.agent import AgentDefinition
from protocol.agent_memory import SourceClass
from protocol.api.instructions import PromptPart
from protocol.backends import BACKENDS, CLIS, EXEC
from protocol.discovery import CALL_URL
from protocol.errors import Cause, Refused
from protocol.ipc import Entry, Limits, McpAddress, Sandbox, Start
from protocol.project import GuardSettings, ProjectDefinition

FOLDER: Final = "bin"
COMMAND: Final = "agent-worker"
_SCRIPT: Final = """\
#!/bin/sh
# The command agent-worker inside an attempt. Written by the kernel at each start.
case ${{1-}} in
    call | help | -h | --help) ;;
    *)
        echo "error: inside an attempt agent-worker only has the command call TOOL [JSON]" >&2
        exit 2
        ;;
esac
exec {python} -I -m interface agent-worker '' "$@"
"""


class CallCommand(msgspec.Struct, frozen=True):
    """Command ``agent-worker call`` for attempts: its folder and the URL of the kernel."""

    folder: str
    url: str

    def install(self) -> None:
        """Write the command, replacing an older one. Raises OSError."""
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        path, beside = os.path.join(self.folder, COMMAND), os.path.join(self.folder, f".{COMMAND}.new")
        with replacing(path, 0o700, beside=beside, sync=False) as file:
            file.write(_SCRIPT.format(python=shlex.quote(sys.executable)).encode())


class FirstPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """Prompt with the entries that answer it; ``source_text`` is matched by mock rules.

    ``first_k`` is the number of the first entry; ``earlier_steps`` entries belong to another instruction. ``snapshot``
    is set if the prompt has to be saved with the first entry of this attempt.
    """

    prompt: FrozenPrompt
    source_text: str
    entries: tuple[Entry, ...] = ()
    first_k: int = 0
    earlier_steps: int = 0
    snapshot: PromptSnapshot | None = None


def first_prompt(
    leased: Leased,
    backend: str,
    resolved: Resolved,
    reader: Reader,
    assemble: Callable[[], AssembledPrompt],
    model: str = "",
) -> FirstPrompt:
    """Return the saved prompt, or a new one from ``assemble``, which is called only if needed.

    ``model`` is the model of the attempt as the log names it. The built-in loop converts replies of other models.
    """
    dialect = resolved.provider.dialect if resolved.provider else ""
    kept = reader.now(entries.prompt_of, leased.instruction) if leased.entries else None
    source = leased.source_text if leased.continues is None else reader.now(entries.origin_text, leased.instruction)
    anew = leased.compacted and BACKENDS[backend].own_session
    converts = backend == "sdk" and kept is not None and not {kept.dialect, dialect} - SDKS
    same = kept is not None and kept.backend == backend and (kept.dialect == dialect or converts)
    if kept is not None and same and (kept.anew or not anew):
        first = reader.now(entries.set_aside, leased.instruction)
        return FirstPrompt(
            prompt=kept,
            source_text=kept.source_text or kept.message,
            entries=reader.now(entries.for_model, leased.instruction, first, model=model if converts else ""),
            first_k=first,
            earlier_steps=leased.carried_steps,
        )
    done = reader.now(entries.of, leased.instruction) if kept is not None else ()
    made = assemble()
    told = prior_work(done)
    message = f"{made.message}\n\n{told}" if told else made.message
    prompt = FrozenPrompt(
        backend=backend,
        dialect=dialect,
        model=resolved.model,
        system=made.system,
        messages=made.messages,
        message=message,
        source_text="" if source == message else source,
        manifest=(*made.manifest, *([f"ledger: {len(done)} entries"] if told else [])),
        parts=(*made.parts, *([_ledger(done, told)] if told else [])),
        stable=made.stable,
        doubted=made.doubted,
    )
    prompt = msgspec.structs.replace(prompt, anew=anew)
    if kept is not None:
        return FirstPrompt(
            prompt=prompt,
            source_text=source,
            first_k=leased.entries,
            snapshot=PromptSnapshot(prompt, aside=leased.entries),
        )
    # Entries without a prompt come from an older version; the current prompt is the best match.
    written = reader.now(entries.of, leased.instruction) if leased.entries else ()
    return FirstPrompt(
        prompt=prompt,
        source_text=source,
        entries=written,
        earlier_steps=leased.carried_steps,
        snapshot=PromptSnapshot(prompt),
    )


def _ledger(done: Sequence[Entry], told: str) -> PromptPart:
    source = f"{len(done)} entries of another setup"
    return PromptPart(name="ledger", source=source, trust="tool", tokens=tokens(told))


class CannotStart(Exception):
    """Attempt that cannot start: its definition is missing or invalid, or an API key is missing."""

    def __init__(self, cause: Cause, text: str) -> None:
        super().__init__(text)
        self.cause: Cause = cause


class StartFrame(msgspec.Struct, frozen=True):
    """Everything that an attempt needs to start, and the sources of its prompt."""

    definition: AgentDefinition
    start: Start
    manifest: tuple[str, ...]
    sdks: frozenset[str]
    """Model SDKs that the worker will import."""
    endpoint: ModelEndpoint
    """Endpoint of its model calls, as known to circuit breakers."""
    grants: tuple[ModelGrant, ...] = ()
    """Models that it may call through the gateway."""
    snapshot: PromptSnapshot | None = None
    """Prompt to save with the first entry."""
    beside: str = ""
    """Project directory, if the agent works elsewhere."""
    seen: SourceClass = "tool"
    """Trust class of its initial input; unknown in a frame of an older version."""
    reuse: int = 1
    """Number of attempts that one worker serves."""
    choice: ModelChoice | None = None
    """Its model among those of the agent's list. None in a frame of an older version."""


class StartFrameBuilder(msgspec.Struct, eq=False, kw_only=True):
    """Builds start frames."""

    files: TrustedFiles
    reader: Reader
    own_bin: frozenset[str]
    """Directories of the kernel's commands, removed from the PATH of workers."""
    url: str
    paths: AttemptPaths
    memories: Memories | None = None
    """None: agents have no memory."""
    relevant: Callable[[Leased, trio.CancelScope, GuardSettings], Choose] | None = None
    """Returns the guard's choice of search results for a new prompt; None: all are relevant."""
    working_directory: Callable[[Leased], WorkingDirectory] | None = None
    """None: the project directory."""
    confine: Callable[[AgentDefinition, WorkingDirectory, Start], Sandbox | None] = (
        lambda _definition, _directory, _start: None
    )
    """Returns the sandbox of the agent's programs, or None. May raise CauseError."""
    call_command: CallCommand | None = None
    choose: (
        Callable[[Leased, AgentDefinition, ProjectDefinition], Awaitable[tuple[AgentDefinition, ModelChoice]]] | None
    ) = None
    """Chooses the model of an attempt; None: its first one."""

    async def build(
        self, leased: Leased, token: str, secret: str, stopped: trio.CancelScope | None = None
    ) -> StartFrame:
        """Build the frame of an attempt; ``stopped`` ends a wait for the guard. Raises CannotStart.

        ``secret`` is its placeholder in place of the provider's key.
        """
        try:
            project = self.files.catalog.kept_project()
            definition = definition_for(leased.agent, leased.space, self.files.catalog, self.reader, project)
            own = NOTHING
            if has_resources(definition, project):
                own = await trio.to_thread.run_sync(resources_of, definition, project, self.files.catalog.root)
            self._check_trust(leased, definition, project, own)
            known = NOTHING_KNOWN
            if self.memories is not None:
                choose = None
                if self.relevant is not None and not leased.entries:  # otherwise the prompt is saved
                    guard = settings_of(leased.space, self.files.catalog, self.reader, project)
                    choose = self.relevant(leased, stopped or trio.CancelScope(), guard)
                known = await known_for(leased, definition, self.memories, self.reader, choose)
            extras = Extras({})
            if BACKENDS[definition.backend].own is not None:
                home = self.paths.session(leased, definition)
                extras = await trio.to_thread.run_sync(extras_of, definition, self.files.environ, home)
            if clash := extras.servers.keys() & own.servers.keys():
                text = (
                    f"cli.mcp_servers: name {min(clash)} is already used by a server of the project; rename one of them"
                )
                raise CauseError("definition_missing", text)
            # Last, and without an await after it: admission sees the circuit breakers that the choice has seen.
            choice = None
            # Admission alone decides for one model. A program of one's own may call all models of its list.
            one = isinstance(definition.model, str) and definition.model not in {"", *project.models.aliases}
            if self.choose is not None and not one and definition.backend != EXEC:
                definition, choice = await self.choose(leased, definition, project)
            return self._build(leased, token, secret, definition, project, own, extras, known, choice)
        except Refused as refused:
            hint = f" ({refused.hint})" if refused.hint else ""
            raise CannotStart("definition_missing", f"{refused.text}{hint}") from refused
        except ModelRejected as rejected:
            raise CannotStart("definition_missing", f"{rejected.message} ({rejected.hint})") from rejected
        except CauseError as error:
            raise CannotStart(error.cause, error.text) from error

    def _build(
        self,
        leased: Leased,
        token: str,
        secret: str,
        definition: AgentDefinition,
        project: ProjectDefinition,
        own: AgentResources,
        extras: Extras,
        known: Known,
        choice: ModelChoice | None,
    ) -> StartFrame:
        resolved = resolve(definition, project, self.files.environ)
        assemble = partial(
            instruction_prompt, leased, definition, self.files.catalog, self.reader, own.rules, known, project
        )
        opened = first_prompt(leased, definition.backend, resolved, self.reader, assemble, definition.first_model)
        prompt = opened.prompt
        # The built-in loop has a tool for skills; other programs read the files, so the prompt names their paths.
        readable = (*own.skills, *extras.skills)
        skills = skills_prompt(readable) if definition.backend in CLIS else ""
        spec = BACKENDS[definition.backend]
        servers = {**extras.servers, **own.servers}
        choices = each_model(definition, project) if definition.backend == EXEC else (definition,)
        grants = grants_of(definition, choices, project, self.files.environ, servers.values())
        lent_provider, variables = lent(grants, self.url.removesuffix("/mcp"), secret)
        keys = key_variables(definition, project) if definition.env else frozenset[str]()
        passed = [name for name in definition.env if name not in keys]
        env = {**worker_environment(self.files.environ, passed, self.own_bin), **variables}
        if self.call_command is not None:
            env = {**env, "PATH": f"{env['PATH']}:{self.call_command.folder}", CALL_URL: self.call_command.url}
        working_directory = (self.working_directory or in_project(self.files.catalog.root))(leased)
        start = Start(
            instruction=leased.instruction,
            attempt=leased.attempt,
            epoch=leased.epoch,
            agent=leased.name,
            space=leased.space,
            backend=definition.backend,
            model=resolved.model,
            provider=lent_provider or resolved.provider,
            system="\n\n".join(part for part in (prompt.system, skills) if part),
            system_stable=prompt.stable,
            messages=prompt.messages,
            message=prompt.message,
            entries=opened.entries,
            limits=Limits(
                max_steps=definition.max_steps,
                max_tokens=definition.max_tokens,
                tool_seconds=definition.timeouts.tool,
                idle_seconds=definition.timeouts.idle,
            ),
            effort=definition.effort,
            thinking_tokens=None if definition.thinking is None else definition.thinking.budget_tokens,
            temperature=definition.temperature,
            mcp=McpAddress(url=self.url),
            token=token,
            cwd=working_directory.cwd,
            env=env,
            secrets=tuple(name for name in definition.env if name in env),
            idempotency_key=leased.instruction,
            mock=definition.mock,
            source_text=opened.source_text if definition.mock else "",
            earlier_steps=opened.earlier_steps,
            first_k=opened.first_k,
            compact=leased.compacted,
            interrupted=leased.interrupted,
            tools=definition.tools,
            project_tools=dict(own.tools),
            pinned=dict(own.pinned),
            skills=readable,
            mcp_servers=filled(servers, {**self.files.environ, **variables}),
            read_only=definition.read_only,
            nested_rules=None if own.nested_rules is None else dict(own.nested_rules),
            approval=leased.approval or definition.approval,
            granted=self.reader.now(approvals.granted, leased.instruction) if leased.entries else (),
            command=command_of(definition, self.files.catalog.root, env["PATH"]),
            attempt_dir=self.paths.attempt(leased),
            hooks=extras.hooks,
            login=definition.login and (spec.login is not None or spec.own_home),
            session_dir=self.paths.session(leased, definition),
            hidden=self.paths.hidden,
            closed=tuple(str(self.files.catalog.root / one) for one in self.files.catalog.outside_contexts())
            if "files" in definition.tools
            else (),
        )
        root = str(self.files.catalog.root)
        return StartFrame(
            definition=definition,
            start=msgspec.structs.replace(start, sandbox=self.confine(definition, working_directory, start)),
            manifest=prompt.manifest,
            sdks=sdks_for((definition,), project),
            endpoint=endpoint_of(leased, resolved) if choice is None else choice.option.endpoint,
            grants=grants,
            choice=choice,
            snapshot=opened.snapshot,
            beside="" if working_directory.top == root else root,
            seen=self.reader.now(messages.trust_of_start, leased, definition.backend, prompt.parts),
            reuse=attempts_per_worker(definition, project.defaults.reuse),
        )

    def _check_trust(
        self, leased: Leased, definition: AgentDefinition, project: ProjectDefinition, own: AgentResources
    ) -> None:
        """Raise CannotStart if a file is not trusted, or changed since (promise P19)."""
        if self.files.trust.everything:
            return
        found = (one for one in agent_units(definition, project, own) if not leased.vouched.issuperset(one.demands))
        wants = missing_grants(found, self.files.trust.kept)
        if wants:
            said = "changed since they were trusted" if leased.vouched or wants[0].before else "are not trusted"
            raise CannotStart("untrusted", f"files {said}: {demands_text(wants)[:500]}")
