"""Whose models agents can use here. Says whether a key is set, never the key."""

from kernel.agents.providers import ALIASES, PROVIDERS
from kernel.api.context import Services
from kernel.api.http.route import Call
from protocol.api.providers import ProviderList, ProviderRow
from protocol.project import ProviderEntry


async def providers(services: Services, _call: Call[None]) -> ProviderList:
    """GET /providers: those we know, and those of the project file."""
    own = services.catalog.project().providers
    rows = [_builtin(services, name) for name in PROVIDERS if name not in own]
    rows += [_own(services, name, entry) for name, entry in own.items()]
    return ProviderList(providers=tuple(rows), aliases=dict(ALIASES))


def _builtin(services: Services, name: str) -> ProviderRow:
    preset = PROVIDERS[name]
    return ProviderRow(
        name=name,
        dialect=preset.dialect,
        base_url=preset.base_url,
        key_variables=preset.key_variables,
        key_set=_any_set(services, preset.key_variables),
        source="builtin",
    )


def _own(services: Services, name: str, entry: ProviderEntry) -> ProviderRow:
    preset = PROVIDERS.get(name)
    variables = preset.key_variables if preset is not None and entry.base_url is None else ()
    if entry.api_key is not None:
        variables = (entry.api_key.removeprefix("$"),)
    return ProviderRow(
        name=name,
        dialect=entry.dialect or (preset.dialect if preset is not None else "openai"),
        base_url=entry.base_url or (preset.base_url if preset is not None else None),
        key_variables=variables,
        key_set=_any_set(services, variables),
        source="project",
    )


def _any_set(services: Services, variables: tuple[str, ...]) -> bool:
    return any(services.environ.get(variable) for variable in variables)
