"""The ``otel`` key of the project file: what is wrong with it, what it demands of the user, and where spans go.

What agents did leaves the machine by it, with a value of the environment in its header fields, so it needs trust as a
webhook does.
"""

import ipaddress
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from kernel.agents.definition import place_at
from kernel.agents.webhooks import url_fault
from kernel.policy.webhooks import is_public
from kernel.source.diagnostics import Diagnostics
from kernel.source.yaml_tree import MapNode
from protocol.project import OtelSettings, ProjectDefinition
from protocol.trust import TrustUnit, unit

TRACES: Final = "/v1/traces"
MOST_HEADERS: Final = 20
_HEADER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", re.ASCII)
_VARIABLE: Final = re.compile(r"\$[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_OURS: Final = frozenset({"host", "connection", "content-length", "content-type", "transfer-encoding", "user-agent"})


def otel_unit(settings: OtelSettings) -> TrustUnit:
    """The demand of a collector. Its digest is what it is known by: another address or choice is another collector."""
    content = " with what models and tools said" if settings.content else ""
    private = ", also on this machine and in its networks" if settings.allow_private else ""
    signed = ", ".join(f"{name}: {value}" for name, value in sorted(settings.headers.items()))
    fields = f", with the header fields {signed}" if signed else ""
    return unit("otel", (f"spans of all work{content} are told to {traces_url(settings)}{private}{fields}",))


def otel_units(project: ProjectDefinition) -> tuple[TrustUnit, ...]:
    """The demands of the ``otel`` key."""
    return () if project.otel is None else (otel_unit(project.otel),)


def traces_url(settings: OtelSettings) -> str:
    """The address that spans are posted to."""
    parts = urlsplit(settings.endpoint)
    path = parts.path.rstrip("/")
    return urlunsplit(parts._replace(path=path if path.endswith(TRACES) else path + TRACES))


def header_fields(settings: OtelSettings, environ: Mapping[str, str]) -> dict[str, str] | str:
    """The header fields with their values, or what keeps these from being sent. Values are in no text of ours."""
    found: dict[str, str] = {}
    for name, variable in settings.headers.items():
        value = environ.get(variable[1:])
        if value is None:
            return f"{variable} is not in the environment of the kernel"
        value = value.strip()
        if not value.isascii() or not value.isprintable():
            return f"{variable} has characters that no header field can have"
        found[name] = value
    return found


def may_reach(settings: OtelSettings, address: str) -> bool:
    """Return whether spans may go to ``address``: what was written as an address was trusted as that."""
    host = urlsplit(settings.endpoint).hostname or ""
    try:
        written = host == "localhost" or bool(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        written = False
    return written or settings.allow_private or is_public(address)


def check_otel(definition: ProjectDefinition, node: MapNode, problems: Diagnostics) -> None:
    """Note what is wrong with the ``otel`` key of ``definition``, which was converted from ``node``."""
    settings = definition.otel
    if settings is None:
        return
    fault = url_fault(settings.endpoint)
    if fault is not None:
        place = place_at(node, "otel.endpoint")
        problems.add(place, "otel.endpoint", fault, "write endpoint: http://localhost:4318, or https://HOST")
    if len(settings.headers) > MOST_HEADERS:
        problems.add(place_at(node, "otel.headers"), "otel.headers", f"has more than {MOST_HEADERS}", "send fewer")
    for name, value in settings.headers.items():
        where = f"otel.headers.{name[:60]}"
        place = place_at(node, "otel.headers")
        if _HEADER.fullmatch(name) is None or name.lower() in _OURS:
            problems.add(
                place, where, "is no header field that can be sent", "write the one that your collector asks for"
            )
        elif _VARIABLE.fullmatch(value) is None:
            hint = "keep its value in the environment of the kernel, and write $NAME"
            problems.add(place, where, "needs the name of a variable", hint)
