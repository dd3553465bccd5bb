"""Checks whether spans would reach the collector of the project file: trust, header fields, and a connection."""

import socket
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from kernel.agents.sections import header_fields, host_of, otel_unit
from kernel.agents.trust import GrantSource, missing_grants
from protocol.inspection import DoctorRow, fault, fine
from protocol.project import OtelSettings

CHECK: Final = "traces"
CONNECT_SECONDS: Final = 2.0


def collector_rows(settings: OtelSettings, environ: Mapping[str, str], kept: GrantSource) -> Iterator[DoctorRow]:
    """Return reasons why the collector cannot be reached, each with a fix. Connects without sending data."""
    host, fields = host_of(settings.endpoint), header_fields(settings, environ)
    if environ.get("AGENT_WORKER_TRUST") != "1" and missing_grants((otel_unit(settings),), kept):
        yield fault(CHECK, f"{host} is not trusted, so no spans are sent", "review and grant it: awk trust")
    if isinstance(fields, str):
        yield fault(CHECK, f"{host}: {fields}", "set it, then restart the kernel")
    parts = urlsplit(settings.endpoint)
    try:
        address = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        socket.create_connection(address, timeout=CONNECT_SECONDS).close()
    except OSError as error:
        fix = "start the collector, or correct otel.endpoint in the project file"
        yield fault(CHECK, f"no connection to {host}: {error}", fix)
    else:
        yield fine(CHECK, f"{host} accepts connections")
