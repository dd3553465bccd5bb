"""The endpoint, dialect and key of a model, or the login in place of a key. The tables are data; nothing is guessed.

``provider/name`` is split once. A key goes only where it belongs: an endpoint with a base_url of its own gets the
key that is named beside it, or none. A login goes to its own vendor; it is looked for here, and not opened.

And what a project's workers import for it, once for all of them: model SDKs, tools, the MCP client.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

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
    """A provider we know: how it is spoken to, where, and which variables may hold its key (first set wins)."""

    dialect: Dialect
    base_url: str | None
    key_variables: tuple[str, ...] = ()
    base_url_variable: str | None = None
    """A variable by which the *user* points it elsewhere, as its own SDK would read it."""


PROVIDERS: Final[Mapping[str, Preset]] = MappingProxyType(
    {
        "anthropic": Preset("anthropic", None, ("ANTHROPIC_API_KEY",), "ANTHROPIC_BASE_URL"),
        "openai": Preset("openai", None, ("OPENAI_API_KEY",), "OPENAI_BASE_URL"),
        "openrouter": Preset("openai", "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
        "deepseek": Preset("openai", "https://api.deepseek.com/v1", ("DEEPSEEK_API_KEY",)),
        "google": Preset(
            "openai",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
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
)

ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "opus": "anthropic/claude-opus-5-5",
        "sonnet": "anthropic/claude-sonnet-5-5",
        "haiku": "anthropic/claude-haiku-5-5",
    }
)
"""Short names for models; ids as the anthropic client of our constraints lists them."""

FAMILIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        r"claude-": "anthropic",
        r"gpt-|chatgpt-|codex-|o[134](?:-|$)": "openai",
        r"gemini-": "google",
        r"deepseek-": "deepseek",
        r"grok-": "xai",
        r"mistral-|codestral-|devstral-|magistral-": "mistral",
        r"kimi-": "moonshot",
    }
)
"""How names of models begin that a provider itself gave them: such a name needs no provider before it."""

_RESPONSES_ALONE: Final = re.compile(r"(?:^|-)(?:pro|codex|deep-research|computer-use)(?:-|$)")
"""Models of OpenAI's that it does not serve over Chat Completions."""

_MODEL: Final = re.compile(r"[A-Za-z0-9@/_.~][A-Za-z0-9@/_.~:+=,()\[\]-]{0,199}", re.ASCII)
"""A model's id, as providers and local servers have them. It becomes a word of a program's command line, and never an
option: it does not begin with a dash."""


class Resolved(msgspec.Struct, frozen=True):
    """The destination of an attempt's model calls. ``provider`` is None where the kernel knows of none."""

    provider: Provider | None
    model: str


class ModelRejected(ValueError):
    """A model or provider that cannot be resolved, whatever the environment: what is wrong, and what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class CauseError(Exception):
    """An attempt cannot start, and the failure table has a cause for it."""

    def __init__(self, cause: Cause, text: str) -> None:
        super().__init__(text)
        self.cause: Cause = cause
        self.text = text


class Route(msgspec.Struct, frozen=True):
    """A model resolved as far as files go. ``keys`` are variables of which the first one set is the key."""

    name: str
    dialect: Dialect
    model: str
    base_url: str | None
    base_url_variable: str | None
    keys: tuple[str, ...]
    api: OpenAIApi
    foreign: bool
    """Return whether a file of the project, not our table, says where requests go: that needs trust."""


def route(definition: AgentDefinition, project: ProjectDefinition) -> Route:
    """The route that the files give for the model of ``definition``. Raises ModelRejected."""
    prefix, model = split_model(definition.model)
    if prefix == MOCK:
        return Route(MOCK, MOCK, model, None, None, (), "chat", foreign=False)
    # The endpoint that is meant: the agent's own, the project's, or an empty one that names a preset.
    own: Endpoint
    if isinstance(definition.provider, Endpoint):
        endpoint = definition.provider
        _dialect_of(prefix, endpoint, project)
        own = endpoint
        if endpoint.base_url is None:  # the agent's own key and dialect at an endpoint that is known by name
            known = _known(endpoint.name, project)
            own = Endpoint(
                name=known.name,
                base_url=known.base_url,
                api_key=endpoint.api_key or known.api_key,
                dialect=endpoint.dialect or known.dialect,
                api=endpoint.api or known.api,
            )
    else:
        name = definition.provider or prefix
        endpoint = _known(name, project)
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
    """The provider with its key. Raises ModelRejected, and CauseError(auth) where the key is not set."""
    if not calls_models(definition):
        return Resolved(None, definition.model or definition.backend)
    found = route(definition, project)
    check_backend(definition, found)
    base_url = (environ.get(found.base_url_variable or "") or None) if found.base_url is None else found.base_url
    if definition.login:
        check_login(definition, found)
        missing = missing_login(definition, environ)
        if missing is not None:
            raise CauseError("auth", missing)
        return Resolved(Provider(name=found.name, dialect=found.dialect, base_url=base_url, api=found.api), found.model)
    key = next((environ[name] for name in found.keys if environ.get(name)), None)
    if found.keys and key is None:
        raise CauseError("auth", f"no key for {found.name}: set {' or '.join(found.keys)} where the kernel starts")
    provider = Provider(name=found.name, dialect=found.dialect, base_url=base_url, api_key=key, api=found.api)
    return Resolved(provider, model=found.model)


def calls_models(definition: AgentDefinition) -> bool:
    """Return whether it needs a model to be named.

    A script needs none, and a program of the user's own may bring one.
    """
    spec = BACKENDS[definition.backend]
    return definition.backend != MOCK and not spec.own_models and not (spec.bare and not definition.model)


def check_backend(definition: AgentDefinition, found: Route) -> None:
    """Raise ModelRejected where the backend cannot speak to that model."""
    spec = BACKENDS[definition.backend]
    if found.dialect not in spec.dialects:
        speaks = " or ".join(sorted(spec.dialects - {MOCK}))
        able = [name for name, other in BACKENDS.items() if found.dialect in other.dialects]
        raise ModelRejected(
            f"backend {spec.name} speaks {speaks}, and {found.name} is spoken to as {found.dialect}",
            f"choose another model, or backend: {' or '.join(able)}",
        )


def check_login(definition: AgentDefinition, found: Route | None) -> None:
    """Raise ModelRejected where ``login: true`` cannot be had: a login goes to its own vendor alone.

    ``found`` is None where the files give no route: then the backend alone is judged.
    """
    spec = BACKENDS[definition.backend].login
    if BACKENDS[definition.backend].own_home:
        return
    if spec is None:
        able = ", ".join(name for name, row in BACKENDS.items() if row.login is not None)
        raise ModelRejected(
            f"is nothing that backend {definition.backend} has", f"remove it, or choose a backend that has one: {able}"
        )
    if found is None:
        return
    if found.foreign:
        text = f"goes to its own vendor alone, and a file says that requests go to {found.base_url}"
        raise ModelRejected(text, "remove that base_url, or login")
    if found.name not in spec.providers:
        whose = " or ".join(sorted(spec.providers))
        raise ModelRejected(f"is good for models of {whose}, and this is one of {found.name}", "choose another model")
    if found.keys != PROVIDERS[found.name].key_variables:
        raise ModelRejected("and api_key exclude each other", "keep one of them")


def check_endpoint(name: str, base_url: str | None, api_key: str | None) -> None:
    """Raise ModelRejected where an entry of the providers table cannot be used by any agent."""
    if base_url is None and name not in PROVIDERS:
        raise ModelRejected(f"provider {name} has no base_url", "add base_url: to it")
    if base_url is not None:
        _check_url(base_url)
    _key_names(Endpoint(name=name, api_key=api_key))


def split_model(text: str) -> tuple[str, str]:
    """``provider/name`` split once, aliases and known families followed. Raises ModelRejected."""
    prefix, slash, name = full_model(text).partition("/")
    if not slash or not prefix or not name:
        close = nearest(text, ALIASES)
        hint = f"write provider/name, or one of {', '.join(ALIASES)}"
        raise ModelRejected(f"{text[:100]!r} is not a model", hint if close is None else f"did you mean {close}?")
    check_model_name(text, name)
    return prefix, name


def full_model(text: str) -> str:
    """``text`` with the provider that an alias or a model's own name stands for; as it is where it stands for none."""
    if text in ALIASES:
        return ALIASES[text]
    found = next((provider for beginning, provider in FAMILIES.items() if re.match(beginning, text)), None)
    return text if found is None or "/" in text else f"{found}/{text}"


def check_model_name(text: str, name: str) -> None:
    """Raise ModelRejected where ``name``, what ``text`` has behind its provider, is no id of a model."""
    if _MODEL.fullmatch(name) is None:
        hint = "an id begins with a letter or digit, and has letters, digits and @/_.~:+=,()[]- (at most 200)"
        raise ModelRejected(f"{text[:100]!r} is not a model", hint)


def _known(name: str, project: ProjectDefinition) -> Endpoint:
    entry = project.providers.get(name)
    if entry is None and name not in PROVIDERS:
        known = {*PROVIDERS, *project.providers}
        close = nearest(name, known)
        own = "give base_url under providers: in .agents.yaml (or moniro.yaml)"
        hint = own if close is None else f"did you mean {close}? (or {own})"
        raise ModelRejected(f"unknown provider {name[:60]!r}; known: {', '.join(sorted(known))}", hint)
    entry = entry or ProviderEntry()
    return Endpoint(name=name, base_url=entry.base_url, api_key=entry.api_key, dialect=entry.dialect, api=entry.api)


def _dialect_of(prefix: str, endpoint: Endpoint, project: ProjectDefinition) -> Dialect:
    """The dialect a model's prefix stands for: OpenAI-compatible unless it says otherwise. Raises ModelRejected."""
    if prefix in PROVIDERS:
        return PROVIDERS[prefix].dialect
    if prefix == endpoint.name:
        return "openai"
    return _known(prefix, project).dialect or "openai"


def _key_names(endpoint: Endpoint) -> tuple[str, ...]:
    if endpoint.api_key is None:
        return ()
    match = _KEY_REFERENCE.fullmatch(endpoint.api_key)
    if match is None:
        raise ModelRejected("api_key must name a variable, as $NAME", "put the key in the environment, not in a file")
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
        raise ModelRejected("a base_url must not hold a password", "name the key's variable in api_key")
    return url


def login_of(definition: AgentDefinition) -> LoginSpec | None:
    """The login that ``definition`` asks for and its backend has; None where it asks for none."""
    return BACKENDS[definition.backend].login if definition.login else None


def login_path(spec: LoginSpec, environ: Mapping[str, str]) -> str:
    """The file at home; "" where nobody knows where that is."""
    folder = environ.get(spec.folder_variable) or (environ.get("HOME") and os.path.join(environ["HOME"], spec.folder))
    return os.path.join(folder, spec.file) if folder and os.path.isabs(folder) else ""


def missing_login(definition: AgentDefinition, environ: Mapping[str, str]) -> str | None:
    """That the login of ``definition`` is not there, and how to get it; None where it is. Looks, and opens nothing."""
    spec = login_of(definition)
    if spec is None or (spec.token_variable and environ.get(spec.token_variable)):
        return None
    path = login_path(spec, environ)
    if path and os.path.exists(path):
        return None
    return f"no login of {BACKENDS[definition.backend].title}: {path or spec.file} is not there; {spec.how}"


def login_demand(definition: AgentDefinition) -> str | None:
    """The demand of ``login: true``; None without it."""
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
"""Stands for what it takes to run another program in a worker's place."""
TOOLS: Final = "tools"
"""Stands for the worker's own tools."""
SERVERS: Final = "servers"
"""Stands for the client of an agent's own MCP servers."""


def sdks_for(definitions: Iterable[AgentDefinition], project: ProjectDefinition) -> frozenset[str]:
    """The imports that ``definitions`` need to reach their models, and to run tools.

    A model that is wrong needs nothing.
    """
    return frozenset(need for one in definitions for need in _needs(one, project))


def _needs(definition: AgentDefinition, project: ProjectDefinition) -> Iterator[str]:
    if definition.backend in CLIS:
        yield PROGRAM
        return
    if definition.backend == EXEC:
        return
    if definition.backend == MOCK or not definition.model:
        dialect = MOCK
    else:
        try:
            dialect = route(definition, project).dialect
        except ModelRejected:
            dialect = MOCK
    if dialect in SDKS:
        yield dialect
    if definition.tools or definition.skills:
        yield TOOLS
    if definition.mcp_servers:
        yield SERVERS
