"""The endpoint, dialect and key of a model, or the login instead of a key. The tables are data; nothing is guessed.

``provider/name`` is split once. A key is sent only to its own endpoint: an endpoint with a custom base_url gets the key
that is configured with it, or none. A login is only sent to its own vendor; this module checks that it exists, and does
not read it. Also the imports that workers of a project share: model SDKs, tools, the MCP client.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from kernel.agents.models import ALIASES, each_model, full_model, models_of
from kernel.source.diagnostics import nearest
from protocol.agent import AgentDefinition, Endpoint, OpenAIApi
from protocol.backends import BACKENDS, CLIS, EXEC, LoginSpec
from protocol.errors import Cause
from protocol.ipc import Provider
from protocol.project import ProjectDefinition, ProviderEntry

Dialect = Literal["anthropic", "openai", "cursor", "mock"]

MOCK: Final = "mock"
_KEY_REFERENCE: Final = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]{0,99})", re.ASCII)


class Preset(msgspec.Struct, frozen=True):
    """A built-in provider: its dialect, address, and possible variables of its key (the first one set is used)."""

    dialect: Dialect
    base_url: str | None
    key_variables: tuple[str, ...] = ()
    base_url_variable: str | None = None
    """A variable with which the *user* changes the address, as the provider's own SDK would read it."""


PROVIDERS: Final[Mapping[str, Preset]] = {
    "anthropic": Preset("anthropic", None, ("ANTHROPIC_API_KEY",), "ANTHROPIC_BASE_URL"),
    "openai": Preset("openai", None, ("OPENAI_API_KEY",), "OPENAI_BASE_URL"),
    "openrouter": Preset("openai", "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
    "deepseek": Preset("openai", "https://api.deepseek.com/v1", ("DEEPSEEK_API_KEY",)),
    "google": Preset(
        "openai", "https://generativelanguage.googleapis.com/v1beta/openai", ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    ),
    "groq": Preset("openai", "https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
    "mistral": Preset("openai", "https://api.mistral.ai/v1", ("MISTRAL_API_KEY",)),
    "xai": Preset("openai", "https://api.x.ai/v1", ("XAI_API_KEY",)),
    "together": Preset("openai", "https://api.together.xyz/v1", ("TOGETHER_API_KEY",)),
    "fireworks": Preset("openai", "https://api.fireworks.ai/inference/v1", ("FIREWORKS_API_KEY",)),
    "moonshot": Preset("openai", "https://api.moonshot.ai/v1", ("MOONSHOT_API_KEY",)),
    "ollama": Preset("openai", "http://127.0.0.1:11434/v1"),
    "lmstudio": Preset("openai", "http://127.0.0.1:1234/v1"),
    "cursor": Preset("cursor", None, ("CURSOR_API_KEY",)),
    MOCK: Preset("mock", None),
}

_RESPONSES_ALONE: Final = re.compile(r"(?:^|-)(?:pro|codex|deep-research|computer-use)(?:-|$)")
"""OpenAI models that are not available through Chat Completions."""

_MODEL: Final = re.compile(r"[A-Za-z0-9@/_.~][A-Za-z0-9@/_.~:+=,()\[\]-]{0,199}", re.ASCII)
"""A model's id, as used by providers and local servers. It becomes a command-line word that cannot be an option: a
leading dash is invalid."""


class Resolved(msgspec.Struct, frozen=True):
    """Destination of an attempt's model calls. ``provider`` is None if the kernel does not know it."""

    provider: Provider | None
    model: str


class ModelRejected(ValueError):
    """A model or provider that cannot be resolved in any environment: the message, and a hint."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class CauseError(Exception):
    """A failure to start an attempt, with a cause of the failure table."""

    def __init__(self, cause: Cause, text: str) -> None:
        super().__init__(text)
        self.cause: Cause = cause
        self.text = text


class Route(msgspec.Struct, frozen=True):
    """A model resolved from files alone. ``keys`` are variables, of which the first one set is the key."""

    name: str
    dialect: Dialect
    model: str
    base_url: str | None
    base_url_variable: str | None
    keys: tuple[str, ...]
    api: OpenAIApi
    foreign: bool
    """Whether a project file, and not our table, sets the address of requests: that needs trust."""


def route(definition: AgentDefinition, project: ProjectDefinition) -> Route:
    """Return the route of the first model of ``definition`` according to the files. Raises ModelRejected."""
    prefix, model = split_model(next(iter(models_of(definition, project)), ""))
    if prefix == MOCK:
        return Route(MOCK, MOCK, model, None, None, (), "chat", foreign=False)
    # The selected endpoint: the agent's own, the project's, or a preset.
    own: Endpoint
    if isinstance(definition.provider, Endpoint):
        endpoint = definition.provider
        _dialect_of(prefix, endpoint, project)
        own = endpoint
        if endpoint.base_url is None:  # the agent's own key and dialect for a named endpoint
            known = endpoint_named(endpoint.name, project)
            own = Endpoint(
                name=known.name,
                base_url=known.base_url,
                api_key=endpoint.api_key or known.api_key,
                dialect=endpoint.dialect or known.dialect,
                api=endpoint.api or known.api,
            )
    else:
        name = definition.provider or prefix
        endpoint = endpoint_named(name, project)
        _dialect_of(prefix, endpoint, project)
        own = endpoint
    preset = PROVIDERS.get(own.name)
    dialect = own.dialect or (preset.dialect if preset and own.base_url is None else _dialect_of(prefix, own, project))
    if own.base_url is not None or preset is None:
        if own.base_url is None:
            raise ModelRejected(f"provider {own.name} has no base_url", "add base_url: to it")
        url, api = _check_url(own.base_url), own.api or "chat"
        return Route(own.name, dialect, model, url, None, _key_names(own), api, foreign=True)
    keys = _key_names(own) or preset.key_variables
    api = own.api or ("responses" if own.name == "openai" and _RESPONSES_ALONE.search(model) else "chat")
    return Route(own.name, dialect, model, preset.base_url, preset.base_url_variable, keys, api, foreign=False)


def resolve(definition: AgentDefinition, project: ProjectDefinition, environ: Mapping[str, str]) -> Resolved:
    """Return the provider with its key. Raises ModelRejected, and CauseError(auth) if the key is not set."""
    if not calls_models(definition):
        return Resolved(None, definition.first_model or definition.backend)
    found = route(definition, project)
    check_backend(definition, found)
    base_url = (environ.get(found.base_url_variable or "") or None) if found.base_url is None else found.base_url
    if definition.login:
        check_login(definition, found)
        if (missing := missing_login(definition, environ)) is not None:
            raise CauseError("auth", missing)
    keys = () if definition.login else found.keys
    key = next((environ[name] for name in keys if environ.get(name)), None)
    if keys and key is None:
        raise CauseError(
            "auth",
            f"API key for {found.name} not found: set {' or '.join(found.keys)} in the environment of the kernel",
        )
    provider = Provider(
        name=found.name,
        dialect=found.dialect,
        base_url=base_url,
        api_key=key,
        api=found.api,
        compatible=base_url is not None,
    )
    return Resolved(provider, model=found.model)


def calls_models(definition: AgentDefinition) -> bool:
    """Return whether the agent needs a model name.

    A mock script needs none, and a program of the user may have its own.
    """
    spec = BACKENDS[definition.backend]
    return definition.backend != MOCK and not spec.own_models and not (spec.bare and not definition.model)


def check_backend(definition: AgentDefinition, found: Route) -> None:
    """Raise ModelRejected if the backend does not support the dialect of the route ``found``."""
    spec = BACKENDS[definition.backend]
    if found.dialect not in spec.dialects:
        speaks = " or ".join(sorted(spec.dialects - {MOCK}))
        able = [name for name, other in BACKENDS.items() if found.dialect in other.dialects]
        raise ModelRejected(
            f"backend {spec.name} supports {speaks}, but {found.name} uses {found.dialect}",
            f"choose another model, or backend: {' or '.join(able)}",
        )


def check_login(definition: AgentDefinition, found: Route | None) -> None:
    """Raise ModelRejected if ``login: true`` is unavailable: a login is only sent to its own vendor.

    ``found`` is None if the files give no route: then only the backend is checked.
    """
    spec = BACKENDS[definition.backend].login
    if BACKENDS[definition.backend].own_home:
        return
    if spec is None:
        able = ", ".join(name for name, row in BACKENDS.items() if row.login is not None)
        raise ModelRejected(
            f"is not supported by backend {definition.backend}", f"remove it, or choose one of these backends: {able}"
        )
    if found is None:
        return
    if found.foreign:
        text = f"can only be used with its own vendor, but requests go to {found.base_url}"
        raise ModelRejected(text, "remove that base_url, or login")
    if found.name not in spec.providers:
        whose = " or ".join(sorted(spec.providers))
        raise ModelRejected(f"is only valid for {whose}, but the model is from {found.name}", "choose another model")
    if found.keys != PROVIDERS[found.name].key_variables:
        raise ModelRejected("and api_key cannot be combined", "keep one of them")


def login_fault(definition: AgentDefinition, project: ProjectDefinition) -> ModelRejected | None:
    """Return the reason why one of the models of ``definition`` cannot use a login, or None."""
    for one in each_model(definition, project):
        way = None
        with suppress(ModelRejected):  # reported as an error of the model
            way = route(one, project)
        try:
            check_login(one, way)
        except ModelRejected as error:
            return error
    return None


def check_endpoint(name: str, base_url: str | None, api_key: str | None) -> None:
    """Raise ModelRejected if an entry of the key ``providers`` is invalid for every agent."""
    if base_url is None and name not in PROVIDERS:
        raise ModelRejected(f"provider {name} has no base_url", "add base_url: to it")
    if base_url is not None:
        _check_url(base_url)
    _key_names(Endpoint(name=name, api_key=api_key))


def split_model(text: str) -> tuple[str, str]:
    """Split ``provider/name`` once, after resolving aliases and known families. Raises ModelRejected."""
    prefix, slash, name = full_model(text).partition("/")
    if not slash or not prefix or not name:
        close = nearest(text, ALIASES)
        hint = f"write provider/name, or one of {', '.join(ALIASES)}"
        raise ModelRejected(f"{text[:100]!r} is not a model", hint if close is None else f"did you mean {close}?")
    check_model_name(text, name)
    return prefix, name


def check_model_name(text: str, name: str) -> None:
    """Raise ModelRejected if ``name``, the part of ``text`` after its provider, is not a valid model id."""
    if _MODEL.fullmatch(name) is None:
        hint = "use letters, digits and @/_.~:+=,()[]- (at most 200 characters, starting with a letter or digit)"
        raise ModelRejected(f"{text[:100]!r} is not a model", hint)


def endpoint_named(name: str, project: ProjectDefinition) -> Endpoint:
    """Return the endpoint of a provider of the project or of our table. Raises ModelRejected."""
    entry = project.providers.get(name)
    if entry is None and name not in PROVIDERS:
        known = {*PROVIDERS, *project.providers}
        close = nearest(name, known)
        own = "set base_url under providers: in .agents.yaml (or moniro.yaml)"
        hint = own if close is None else f"did you mean {close}? (or {own})"
        raise ModelRejected(f"unknown provider {name[:60]!r}; known: {', '.join(sorted(known))}", hint)
    entry = entry or ProviderEntry()
    return Endpoint(name=name, base_url=entry.base_url, api_key=entry.api_key, dialect=entry.dialect, api=entry.api)


def _dialect_of(prefix: str, endpoint: Endpoint, project: ProjectDefinition) -> Dialect:
    if prefix in PROVIDERS:
        return PROVIDERS[prefix].dialect
    if prefix == endpoint.name:
        return "openai"
    return endpoint_named(prefix, project).dialect or "openai"


def _key_names(endpoint: Endpoint) -> tuple[str, ...]:
    if endpoint.api_key is None:
        return ()
    match = _KEY_REFERENCE.fullmatch(endpoint.api_key)
    if match is None:
        raise ModelRejected("api_key must name a variable, as $NAME", "store the key in the environment, not in a file")
    return (match[1],)


def _check_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound or len(url) > 2000 or any(char.isspace() for char in url):
        raise ModelRejected(f"{url[:100]!r} is not an http(s) URL", "for example https://api.example.com/v1")
    if "@" in urlsplit(url).netloc:
        raise ModelRejected("base_url must not contain a password", "set api_key: $NAME instead")
    return url


def login_of(definition: AgentDefinition) -> LoginSpec | None:
    """Return the login that ``definition`` requests and its backend supports, or None."""
    return BACKENDS[definition.backend].login if definition.login else None


def login_path(spec: LoginSpec, environ: Mapping[str, str]) -> str:
    """Return the path of the login file in the home; "" if the home is unknown."""
    folder = environ.get(spec.folder_variable) or (environ.get("HOME") and os.path.join(environ["HOME"], spec.folder))
    return os.path.join(folder, spec.file) if folder and os.path.isabs(folder) else ""


def missing_login(definition: AgentDefinition, environ: Mapping[str, str]) -> str | None:
    """Return the message for a missing login, with a hint; None if it exists. The file is not read."""
    spec = login_of(definition)
    if spec is None or (spec.token_variable and environ.get(spec.token_variable)):
        return None
    path = login_path(spec, environ)
    if path and os.path.exists(path):
        return None
    return f"login for {BACKENDS[definition.backend].title} not found: {path or spec.file} does not exist; {spec.how}"


def login_demand(definition: AgentDefinition) -> str | None:
    """Return the demand of ``login: true``; None without it."""
    spec = login_of(definition)
    if definition.login and BACKENDS[definition.backend].own_home:
        program = " ".join(definition.command[:1])
        return f"{definition.name} has your home as it is for {program}: your login of it, and all else that is there"
    if spec is None:
        return None
    other = f", or ${spec.token_variable}" if spec.token_variable else ""
    return (
        f"{definition.name} uses your login of {BACKENDS[definition.backend].title} "
        f"(~/{spec.folder}/{spec.file}{other}): it works on your account, can read the login, and renews it"
    )


SDKS: Final = frozenset({"anthropic", "openai"})
PROGRAM: Final = "program"
"""Represents the imports to run another program in a worker."""
TOOLS: Final = "tools"
"""Represents the worker's own tools."""
SERVERS: Final = "servers"
"""Represents the client for an agent's own MCP servers."""


def sdks_for(definitions: Iterable[AgentDefinition], project: ProjectDefinition) -> frozenset[str]:
    """Return the groups of imports (SDKS, PROGRAM, TOOLS, SERVERS) that ``definitions`` need.

    An agent with an invalid model needs no SDK.
    """
    return frozenset(need for one in definitions for need in _needs(one, project))


def _needs(definition: AgentDefinition, project: ProjectDefinition) -> Iterator[str]:
    if definition.backend in CLIS:
        yield PROGRAM
        return
    if definition.backend == EXEC:
        return
    for one in each_model(definition, project) if definition.backend != MOCK else ():
        with suppress(ModelRejected):
            dialect = route(one, project).dialect
            if dialect in SDKS:
                yield dialect
    if definition.tools or definition.skills:
        yield TOOLS
    if definition.mcp_servers:
        yield SERVERS
