"""Checks whether spans would reach the collector of the project file: trust, header fields, and a connection."""

import socket
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from kernel.agents.sections import header_fields, host_of, otel_unit
from kernel.agents.trust import GrantSource, missing_grants
from protocol.inspection import DoctorRow
from protocol.project import OtelSettings

CHECK: Final = "traces"
CONNECT_SECONDS: Final = 2.0


def collector_rows(settings: OtelSettings, environ: Mapping[str, str], kept: GrantSource) -> Iterator[DoctorRow]:
    """Return reasons why the collector cannot be reached, each with a fix. Connects without sending data."""
    host, fields = host_of(settings.endpoint), header_fields(settings, environ)
    if environ.get("AGENT_WORKER_TRUST") != "1" and missing_grants((otel_unit(settings),), kept):
        yield DoctorRow(
            check=CHECK,
            ok=False,
            detail=f"{host} is not trusted, so no spans are sent",
            fix="review and grant it: awk trust",
        )
    if isinstance(fields, str):
        yield DoctorRow(check=CHECK, ok=False, detail=f"{host}: {fields}", fix="set it, then restart the kernel")
    parts = urlsplit(settings.endpoint)
    try:
        address = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        socket.create_connection(address, timeout=CONNECT_SECONDS).close()
    except OSError as error:
        yield DoctorRow(
            check=CHECK,
            ok=False,
            detail=f"no connection to {host}: {error}",
            fix="start the collector, or correct otel.endpoint in the project file",
        )
    else:
        yield DoctorRow(check=CHECK, ok=True, detail=f"{host} accepts connections")
