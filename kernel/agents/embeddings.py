"""The ``embeddings`` key of the project file: what is wrong with it, what it demands of the user, where it leads."""

from collections.abc import Mapping
from hashlib import sha256
from typing import NamedTuple

from kernel.agents.definition import place_at
from kernel.agents.providers import ModelRejected, Route, resolve, route
from kernel.source.diagnostics import Diagnostics
from kernel.source.yaml_tree import MapNode
from protocol.agent import AgentDefinition
from protocol.ipc import Provider
from protocol.project import ProjectDefinition
from protocol.trust import TrustUnit, unit


class EmbeddingEndpoint(NamedTuple):
    """An endpoint with its key, and the model there."""

    provider: Provider
    model: str

    @property
    def id(self) -> str:
        """The name that its vectors are known by: those of another endpoint, or another model, are not comparable."""
        known = f"{self.provider.name}\0{self.provider.base_url}\0{self.model}"
        return sha256(known.encode()).hexdigest()[:16]


def _asking(project: ProjectDefinition) -> AgentDefinition | None:
    key = project.embeddings
    return None if key is None else AgentDefinition(name="embeddings", model=key.model, provider=key.provider)


def _route(project: ProjectDefinition) -> Route | None:
    asking = _asking(project)
    if asking is None:
        return None
    way = route(asking, project)
    if way.dialect != "openai":
        raise ModelRejected(
            f"embeddings are asked for as OpenAI has them, and {way.name} is spoken to as {way.dialect}",
            "name a model of an endpoint with /v1/embeddings, such as openai/text-embedding-3-small",
        )
    return way


def endpoint_of(project: ProjectDefinition, environ: Mapping[str, str]) -> EmbeddingEndpoint | None:
    """The endpoint; None where the file names none. Raises ModelRejected, CauseError (auth: the key is not set)."""
    asking = _asking(project)
    if asking is None or _route(project) is None:
        return None
    resolved = resolve(asking, project, environ)
    assert resolved.provider is not None, "a model has a provider"
    return EmbeddingEndpoint(resolved.provider, resolved.model)


def embedding_units(project: ProjectDefinition) -> tuple[TrustUnit, ...]:
    """The demand of the key: what agents said goes to somebody."""
    try:
        way = _route(project)
    except ModelRejected:
        return ()
    if way is None:
        return ()
    keys = "".join(f", with ${key}" for key in way.keys[:1])
    what = f"what agents said, were told and search for is sent to {way.base_url or way.name}{keys}"
    return (unit("embeddings", (what,)),)


def check_embeddings(definition: ProjectDefinition, node: MapNode, problems: Diagnostics) -> None:
    """Note what is wrong with the key of ``definition``, which was converted from ``node``."""
    try:
        _route(definition)
    except ModelRejected as error:
        problems.add(place_at(node, "embeddings.model"), "embeddings.model", error.message, error.hint)
