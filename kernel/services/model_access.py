"""Models that an attempt may call: the providers with their keys, and what its worker and programs get instead.

A worker gets the address of the gateway and a placeholder. A variable with a provider's key is passed to no program:
where an agent's file or an MCP server names it, the program gets another placeholder, and the variable with the
provider's address gets the address of the gateway. Only Cursor's program and logins are exceptions. The gateway counts
the requests of a login, too, if the address of its provider is known.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from kernel.agents.providers import PROVIDERS, CauseError, resolve, route
from kernel.gateway.access import ModelAccess, worker_provider
from kernel.gateway.table import DIALECTS
from protocol.agent import AgentDefinition, Endpoint, McpServer
from protocol.backends import ACP, EXEC, acp_program
from protocol.ipc import Provider
from protocol.project import ProjectDefinition, ProviderEntry

_GEMINI: Final = "GOOGLE_GEMINI_BASE_URL"
_NAMED: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)")
_LARGE_CONTEXT: Final = "[1m]"
"""Suffix with which Claude Code marks a model; providers do not know it."""


class ModelGrant(msgspec.Struct, frozen=True, kw_only=True):
    """A provider, without its key, that an attempt may call. No ``models``: all of them.

    ``key``, ``address``: variables for programs of the attempt.
    """

    provider: Provider
    source: str
    """Variable of the kernel with the provider's key; "" without one."""
    own: bool = False
    """Whether the worker itself calls it."""
    models: frozenset[str] = frozenset()
    key: str = ""
    address: str = ""
    login: bool = False
    """Whether the program sends the credential of its login."""


def grants_of(
    definition: AgentDefinition,
    choices: Iterable[AgentDefinition],
    project: ProjectDefinition,
    environ: Mapping[str, str],
    servers: Iterable[McpServer],
) -> tuple[ModelGrant, ...]:
    """Return the grants of an attempt of ``definition``; the worker's own come first.

    ``choices``: the definition with each model that the worker may call. Raises ModelRejected, CauseError.
    """
    found = list(_of_models(choices, project, environ))
    # The project's own provider of an ACP program whose models have the provider's name.
    name, models = definition.first_model.partition("/")[0], _named_models(definition)
    entry = project.providers.get(name)
    if entry is not None and models and (own := _provider(name, entry, environ)).dialect in DIALECTS:
        key, address = _variables(name)
        source = (entry.api_key or "$")[1:]
        found.append(ModelGrant(provider=own, source=source, models=models, key=key, address=address))
    words = (word for server in servers for word in (*server.env.values(), *server.headers.values()))
    named = {*definition.env, *(name for word in words for name in _NAMED.findall(word))}
    taken = {name for one in found for name in (one.key, one.address)}
    for key, provider in _providers(definition, project, environ) if named else ():
        address = _GEMINI if provider.dialect == "gemini" else _variables(provider.name)[1]
        if key not in taken and any(name in named and environ.get(name) for name in (key, address)):
            found.append(ModelGrant(provider=provider, source=key, models=models, key=key, address=address))
            taken |= {key, address}
    return tuple(found)


def key_variables(definition: AgentDefinition, project: ProjectDefinition) -> frozenset[str]:
    """Return the names of all variables that contain keys of providers."""
    return frozenset(key for key, _ in _providers(definition, project, {}))


def lent(grants: Iterable[ModelGrant], url: str, secret: str) -> tuple[Provider | None, dict[str, str]]:
    """Return the provider that a worker gets, if it needs one, and variables for its programs.

    They have the address ``url`` of the gateway, and placeholders made from ``secret``.
    """
    providers: list[Provider] = []
    variables: dict[str, str] = {}
    for number, grant in enumerate(grants):
        shown = worker_provider(grant.provider, url, _placeholder(secret, number), login=grant.login)
        if grant.own:
            providers.append(shown)
        variables |= {grant.key: shown.api_key or "", grant.address: shown.base_url or ""}
    variables.pop("", None)
    return next(iter(providers), None), variables


def accesses_of(
    grants: Iterable[ModelGrant], environ: Mapping[str, str], attempt: str, node: str, secret: str
) -> Iterator[tuple[ModelAccess, str, bool]]:
    """Yield the permissions of ``grants`` at the gateway, with their placeholders; True: of the worker itself."""
    for number, one in enumerate(grants):
        provider = msgspec.structs.replace(one.provider, api_key=environ.get(one.source))
        access = ModelAccess(attempt=attempt, provider=provider, models=one.models, node=node, login=one.login)
        yield access, _placeholder(secret, number), one.own


def _placeholder(secret: str, number: int) -> str:
    return f"{secret}-{number}" if number else secret


def _of_models(
    choices: Iterable[AgentDefinition], project: ProjectDefinition, environ: Mapping[str, str]
) -> Iterator[ModelGrant]:
    """Yield the worker's own grants: a program of one's own gets all its models, with one provider for each dialect."""
    found: dict[str, ModelGrant] = {}
    for one in choices:
        try:
            resolved = resolve(one, project, environ)
        except CauseError:  # a later model, or a default that the program may not need
            if one.backend != EXEC:
                raise
            continue
        provider = resolved.provider
        if provider is None or provider.dialect not in DIALECTS:
            continue
        if one.login:  # an account of OpenAI may use another address than a key, which only its program knows
            if provider.base_url is not None or provider.dialect == "anthropic":
                yield ModelGrant(provider=provider, source="", own=True, login=True)
            continue
        keyless = msgspec.structs.replace(provider, api_key=None)
        known = found.get(provider.dialect)
        if known is None:
            key, address = _variables(provider.dialect) if one.backend == EXEC else ("", "")
            source = next((name for name in route(one, project).keys if environ.get(name)), "")
            known = ModelGrant(provider=keyless, source=source, own=True, key=key, address=address)
        if known.provider == keyless:
            models = {resolved.model, resolved.model.removesuffix(_LARGE_CONTEXT)}
            found[provider.dialect] = msgspec.structs.replace(known, models=known.models | models)
    yield from found.values()


def _named_models(definition: AgentDefinition) -> frozenset[str]:
    """Return the model of an ACP program that providers know by the same name."""
    if definition.backend != ACP or not acp_program(definition.command).sends_name or not definition.model:
        return frozenset()
    return frozenset({definition.first_model.partition("/")[2] or definition.first_model})


def _providers(
    definition: AgentDefinition, project: ProjectDefinition, environ: Mapping[str, str]
) -> Iterator[tuple[str, Provider]]:
    """Yield each variable with a provider's key, and the provider."""
    own = (definition.provider, project.embeddings and project.embeddings.provider)
    endpoints = [(one.name, one) for one in own if isinstance(one, Endpoint)]
    entries: list[tuple[str, ProviderEntry | Endpoint]] = [*project.providers.items(), *endpoints]
    found = [(entry.api_key[1:], _provider(name, entry, environ)) for name, entry in entries if entry.api_key]
    for name, preset in PROVIDERS.items():
        found += [(key, _provider(name, ProviderEntry(), environ)) for key in preset.key_variables]
    yield from ((key, provider) for key, provider in found if provider.dialect in DIALECTS)


def _provider(name: str, entry: ProviderEntry | Endpoint, environ: Mapping[str, str]) -> Provider:
    preset = PROVIDERS.get(name)
    dialect: Any = entry.dialect or (preset.dialect if preset else "openai")
    url = entry.base_url or (preset and (preset.base_url or environ.get(preset.base_url_variable or ""))) or None
    if name == "google" and entry.base_url is None:  # its own programs use its own API
        dialect, url = "gemini", environ.get(_GEMINI) or None
    return Provider(name=name, dialect=dialect, base_url=url, compatible=url is not None)


def _variables(provider: str) -> tuple[str, str]:
    name = provider.upper().replace("-", "_")
    return f"{name}_API_KEY", f"{name}_BASE_URL"
