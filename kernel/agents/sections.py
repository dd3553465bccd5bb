"""Keys of the project file that need trust: their validation, the demand of each, and the resulting settings.

A variable of the environment could leak to an address in the file. A node makes the kernel run a
program, and sends keys and files to another machine. Spans, embeddings and a standby copy agents'
conversations. So each hook, collector, node and standby is a unit of trust, ignored if untrusted.
"""

import ipaddress
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from kernel.agents.definition import place_at
from kernel.agents.engines import command_line, node_faults
from kernel.agents.providers import ModelRejected, Route, resolve, route
from kernel.agents.resources import command_demand
from kernel.policy.webhooks import LEAST_KEY_BYTES, SECRET_PREFIX, is_public, key_of
from kernel.source.diagnostics import Diagnostics, suggest
from kernel.source.yaml_tree import MapNode
from protocol.agent import AgentDefinition
from protocol.ipc import Provider
from protocol.message import DURABLE
from protocol.names import NameRejected, check_name
from protocol.project import IncomingHook, NodeSettings, OtelSettings, OutgoingHook, ProjectDefinition, StandbySettings
from protocol.target import TargetRejected, parse_target
from protocol.trust import TrustUnit, unit

EVERY: Final = "*"
MOST_WEBHOOKS: Final = 20
_URL_CHARACTERS: Final = 2000
_VARIABLE: Final = re.compile(r"\$[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_SECRET_HINT: Final = "store the secret in the environment of the kernel, and write secret: $NAME"


def incoming_unit(name: str, hook: IncomingHook) -> TrustUnit:
    """Return the demand of an incoming hook."""
    return unit(f"hook {name}", (f"whoever knows {hook.secret} says to {hook.to} what comes to /hooks/{name}",))


def outgoing_unit(hook: OutgoingHook) -> TrustUnit:
    """Return the demand of an outgoing hook. A changed address or event is another demand."""
    what = "all events" if EVERY in hook.events else f"events {', '.join(hook.events)}"
    private = ", also on this machine and in its networks" if hook.allow_private else ""
    return unit(f"webhook {hook.url}", (f"{what} are told to {hook.url}{private}, signed with {hook.secret}",))


def host_of(url: str) -> str:
    """Return the server of ``url`` without its path, which may be as secret as a password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def hook_units(project: ProjectDefinition) -> Iterator[TrustUnit]:
    """Yield the demands of all webhooks of ``project``."""
    for name, hook in project.hooks.items():
        yield incoming_unit(name, hook)
    yield from map(outgoing_unit, project.webhooks)


def signing_key(secret: str, environ: Mapping[str, str]) -> bytes | str:
    """Return the key (bytes) in the variable ``secret`` (``$NAME``), or an error message (str)."""
    value = environ.get(secret[1:])
    if value is None:
        return f"{secret} is not in the environment of the kernel"
    return (
        key_of(value)
        or f"{secret} is not a Standard Webhooks secret: {SECRET_PREFIX} and base64 of {LEAST_KEY_BYTES} bytes or more"
    )


def check_hooks(definition: ProjectDefinition, node: MapNode, problems: Diagnostics) -> None:
    """Report errors in the webhooks of ``definition``, which was converted from ``node``."""
    for name, hook in definition.hooks.items():
        where = f"hooks.{name}"
        try:
            check_name(name)
        except NameRejected as error:
            problems.add(place_at(node, where), where, str(error), "the name is the last part of the path /hooks/NAME")
        try:
            parse_target(hook.to)
        except TargetRejected as error:
            problems.add(place_at(node, f"{where}.to"), f"{where}.to", str(error), "write to: '@workflow', or an agent")
        _check_secret(hook.secret, f"{where}.secret", node, problems)
    if len(definition.webhooks) > MOST_WEBHOOKS:
        problems.add(
            place_at(node, "webhooks"),
            "webhooks",
            f"has more than {MOST_WEBHOOKS} entries",
            "combine several into one receiver",
        )
    for index, out in enumerate(definition.webhooks):
        where = f"webhooks[{index}]"
        place = place_at(node, where)
        if (fault := url_fault(out.url)) is not None:
            problems.add(place, f"{where}.url", fault, "write url: https://HOST/PATH")
        if any(out.url == earlier.url for earlier in definition.webhooks[:index]):
            problems.add(place, f"{where}.url", "is listed twice", "combine the events into one list")
        if not out.events:
            problems.add(place, f"{where}.events", "is empty", f"list events, or '{EVERY}' for all")
        for event in out.events:
            if event != EVERY and event not in DURABLE:
                hint = suggest(event, DURABLE, what="available")
                problems.add(place, f"{where}.events", f"unknown event {event[:60]!r}", hint)
        _check_secret(out.secret, f"{where}.secret", node, problems)


def _check_secret(secret: str, where: str, node: MapNode, problems: Diagnostics) -> None:
    if _VARIABLE.fullmatch(secret) is None:
        problems.add(place_at(node, where), where, "must be the name of a variable", _SECRET_HINT)


def url_fault(url: str) -> str | None:
    """Return the error in the ``url`` of an outgoing hook; None if the address is valid."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return "is not an address"
    if not sound or not url.isascii() or not url.isprintable() or " " in url or len(url) > _URL_CHARACTERS:
        return "is not the address of a server"
    return "contains a user or a fragment" if parts.username is not None or parts.fragment else None


TRACES: Final = "/v1/traces"
MOST_HEADERS: Final = 20
_HEADER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", re.ASCII)
_OURS: Final = frozenset({"host", "connection", "content-length", "content-type", "transfer-encoding", "user-agent"})


def otel_unit(settings: OtelSettings) -> TrustUnit:
    """Return the demand of a collector. A changed address or setting is another demand."""
    content = " with what models and tools said" if settings.content else ""
    private = ", also on this machine and in its networks" if settings.allow_private else ""
    signed = ", ".join(f"{name}: {value}" for name, value in sorted(settings.headers.items()))
    fields = f", with the header fields {signed}" if signed else ""
    return unit("otel", (f"spans of all work{content} are told to {traces_url(settings)}{private}{fields}",))


def otel_units(project: ProjectDefinition) -> tuple[TrustUnit, ...]:
    """Return the demands of the ``otel`` key."""
    return () if project.otel is None else (otel_unit(project.otel),)


def traces_url(settings: OtelSettings) -> str:
    """Return the address to which spans are posted."""
    parts = urlsplit(settings.endpoint)
    path = parts.path.rstrip("/")
    return urlunsplit(parts._replace(path=path if path.endswith(TRACES) else path + TRACES))


def header_fields(settings: OtelSettings, environ: Mapping[str, str]) -> dict[str, str] | str:
    """Return the header fields with their values, or an error message, which contains no values."""
    found: dict[str, str] = {}
    for name, variable in settings.headers.items():
        value = environ.get(variable[1:])
        if value is None:
            return f"{variable} is not in the environment of the kernel"
        value = value.strip()
        if not value.isascii() or not value.isprintable():
            return f"{variable} contains characters that are not allowed in a header"
        found[name] = value
    return found


def may_reach(settings: OtelSettings, address: str) -> bool:
    """Return whether spans may go to the IP ``address``; an IP written in the file was trusted."""
    host = urlsplit(settings.endpoint).hostname or ""
    try:
        written = host == "localhost" or bool(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        written = False
    return written or settings.allow_private or is_public(address)


def check_otel(definition: ProjectDefinition, node: MapNode, problems: Diagnostics) -> None:
    """Report errors in the ``otel`` key of ``definition``, which was converted from ``node``."""
    settings = definition.otel
    if settings is None:
        return
    fault = url_fault(settings.endpoint)
    if fault is not None:
        place = place_at(node, "otel.endpoint")
        problems.add(place, "otel.endpoint", fault, "write endpoint: http://localhost:4318, or https://HOST")
    if len(settings.headers) > MOST_HEADERS:
        problems.add(place_at(node, "otel.headers"), "otel.headers", f"has over {MOST_HEADERS} entries", "use fewer")
    for name, value in settings.headers.items():
        where = f"otel.headers.{name[:60]}"
        place = place_at(node, "otel.headers")
        if _HEADER.fullmatch(name) is None or name.lower() in _OURS:
            problems.add(place, where, "is not an allowed header", "use the header that your collector requires")
        elif _VARIABLE.fullmatch(value) is None:
            hint = "store its value in the environment of the kernel, and write $NAME"
            problems.add(place, where, "must be the name of a variable", hint)


class EmbeddingEndpoint(NamedTuple):
    """An embedding endpoint with its key, and the model."""

    provider: Provider
    model: str

    @property
    def id(self) -> str:
        """Return an id for vectors: vectors of other endpoints or models are not comparable."""
        known = f"{self.provider.name}\0{self.provider.base_url}\0{self.model}"
        return sha256(known.encode()).hexdigest()[:16]


def _embedder(project: ProjectDefinition) -> AgentDefinition | None:
    key = project.embeddings
    return None if key is None else AgentDefinition(name="embeddings", model=key.model, provider=key.provider)


def _embedding_route(project: ProjectDefinition) -> Route | None:
    asking = _embedder(project)
    if asking is None:
        return None
    way = route(asking, project)
    if way.dialect != "openai":
        raise ModelRejected(
            f"embeddings need an OpenAI-compatible API, but {way.name} uses {way.dialect}",
            "choose a model of an endpoint with /v1/embeddings, such as openai/text-embedding-3-small",
        )
    return way


def endpoint_of(project: ProjectDefinition, environ: Mapping[str, str]) -> EmbeddingEndpoint | None:
    """Return the embedding endpoint or None. Raises ModelRejected, CauseError (auth: no key)."""
    asking = _embedder(project)
    if asking is None or _embedding_route(project) is None:
        return None
    resolved = resolve(asking, project, environ)
    assert resolved.provider is not None, "a model has a provider"
    return EmbeddingEndpoint(resolved.provider, resolved.model)


def embedding_units(project: ProjectDefinition) -> tuple[TrustUnit, ...]:
    """Return the demand of the ``embeddings`` key: a provider receives agents' conversations."""
    try:
        way = _embedding_route(project)
    except ModelRejected:
        return ()
    if way is None:
        return ()
    keys = "".join(f", with ${key}" for key in way.keys[:1])
    what = f"what agents said, were told and search for is sent to {way.base_url or way.name}{keys}"
    return (unit("embeddings", (what,)),)


def check_embeddings(definition: ProjectDefinition, node: MapNode, problems: Diagnostics) -> None:
    """Report errors in the ``embeddings`` key of ``definition``, converted from ``node``."""
    try:
        _embedding_route(definition)
    except ModelRejected as error:
        problems.add(place_at(node, "embeddings.model"), "embeddings.model", error.message, error.hint)


def standby_unit(settings: StandbySettings) -> TrustUnit:
    """Return the demand of a standby. A changed folder is another demand."""
    return unit("standby", (f"all that is said and done, and what agents keep, is copied to {settings.to}",))


def standby_units(project: ProjectDefinition) -> tuple[TrustUnit, ...]:
    """Return the demands of the ``standby`` key."""
    return () if project.standby is None else (standby_unit(project.standby),)


def check_standby_key(definition: ProjectDefinition, node: MapNode, problems: Diagnostics) -> None:
    """Report errors in the ``standby`` key of ``definition``, which was converted from ``node``."""
    settings = definition.standby
    if settings is None:
        return
    to = settings.to
    plain = os.path.isabs(to) and os.path.normpath(to) == to.rstrip("/") and to.isprintable() and len(to) <= 1000
    if not plain or to == "/":
        hint = "write the absolute path of a folder that another machine can access, such as /mnt/nas/awk"
        problems.add(place_at(node, "standby.to"), "standby.to", "is not the absolute path of a folder", hint)


LISTEN_DEFAULT: Final = "127.0.0.1:0"
"""Default listening address for joining nodes: unreachable from other machines."""
MOST_NODES: Final = 200
_LISTENED: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]{1,253})):([0-9]{1,5})", re.ASCII)


class ListenAddress(NamedTuple):
    """An address to listen on."""

    host: str
    port: int


def address_of(text: str) -> ListenAddress | None:
    """Parse ``HOST:PORT`` or ``[IPV6]:PORT``; return None if it is neither."""
    match = _LISTENED.fullmatch(text)
    if match is None or int(match[3]) > 65535:
        return None
    return ListenAddress(match[1] or match[2], int(match[3]))


def node_unit(name: str, settings: NodeSettings, root: Path) -> TrustUnit:
    """Return the demand of one node. Its digest covers the command line, but not the labels.

    Project files in the command line are pinned: a changed file would run outside of any sandbox. Blocks while they are
    read. Raises BadDefinition for an unreadable file.
    """
    if settings.via == "join":
        what = "whoever has its join word works for this project, with the keys of what is placed there"
    else:
        words = command_line(settings, ("node",), fresh="NAME")
        line = command_demand(words, _words_of_this_machine(settings), root)
        what = f"work that is placed there, with its keys, is done through: {line}"
    return unit(f"node {name}", (what,))


def _words_of_this_machine(settings: NodeSettings) -> Iterator[str]:
    here = settings.argv or (tuple(shlex.split(settings.command)) if settings.via == "command" else ())
    yield from (word for word in (*here[:1], settings.python or "") if os.sep in word)
    yield from (*settings.args, *here[1:])


def listen_unit(address: str) -> TrustUnit:
    """Return the demand to be reachable from other machines."""
    return unit("nodes_listen", (f"nodes that know a join word are let in at {address}, over TLS",))


def node_units(project: ProjectDefinition, root: Path) -> Iterator[TrustUnit]:
    """Yield the demands of all nodes of ``project`` at ``root``. Raises BadDefinition."""
    for name, settings in project.nodes.items():
        yield node_unit(name, settings, root)
    if project.nodes_listen is not None:
        yield listen_unit(project.nodes_listen)


def check_nodes(definition: ProjectDefinition, node: MapNode, problems: Diagnostics) -> None:
    """Report errors in the nodes of ``definition``, which was converted from ``node``."""
    for name, settings in definition.nodes.items():
        where = f"nodes.{name}"
        try:
            check_name(name)
        except NameRejected as error:
            problems.add(place_at(node, where), where, str(error), "awk ps and awk node list show this name")
        for fault in node_faults(settings):
            at = f"{where}.{fault.key}"
            problems.add(place_at(node, at), at, fault.message, fault.hint)
    if len(definition.nodes) > MOST_NODES:
        problems.add(
            place_at(node, "nodes"),
            "nodes",
            f"has more than {MOST_NODES} entries",
            "distribute them over several kernels",
        )
    if definition.nodes_listen is not None and address_of(definition.nodes_listen) is None:
        hint = "write nodes_listen: 0.0.0.0:7700, or an address of this machine"
        problems.add(place_at(node, "nodes_listen"), "nodes_listen", "is not HOST:PORT", hint)
