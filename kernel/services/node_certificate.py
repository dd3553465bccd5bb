"""The certificate that nodes know the kernel by: made once, signed by itself, kept with its key for us alone."""

import hashlib
import os
import ssl
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from osfiles.atomic_write import replacing

FILE: Final = "certificate.pem"
NAME: Final = "agent-worker"
_FOREVER: Final = datetime(9999, 12, 31, tzinfo=UTC)
"""A node compares its SHA-256; its dates say nothing."""
_BEGIN: Final = datetime(2020, 1, 1, tzinfo=UTC)


def certificate_in(folder: Path) -> tuple[str, str]:
    """The path of the certificate with its key, and the certificate's SHA-256 in hex. Makes it where there is none.

    Blocks. A file that others can read is not believed: another one takes its place, and join words end with it.
    """
    path = folder / FILE
    found = _private_text(path)
    if found is None:
        with replacing(path, beside=path.with_suffix(".new")) as file:
            file.write(_new())
        found = path.read_text("ascii")
    body = found[found.index("-----BEGIN CERTIFICATE-----") :]
    return str(path), hashlib.sha256(ssl.PEM_cert_to_DER_cert(body)).hexdigest()


def _private_text(path: Path) -> str | None:
    try:
        info = os.lstat(path)
        if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o077:
            return None
        text = path.read_text("ascii")
    except (OSError, ValueError):
        return None
    return text if "-----BEGIN CERTIFICATE-----" in text and "PRIVATE KEY-----" in text else None


def _new() -> bytes:
    # A tenth of a second that only kernels with such nodes spend.
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_BEGIN)
        .not_valid_after(_FOREVER)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + made.public_bytes(serialization.Encoding.PEM)
