"""Certificates of test authorities, in files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme

from sulina.runtime.tls_files import TlsFiles

_LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def issue(
    authority: trustme.CA,
    folder: Path,
    name: str,
    host: str = "127.0.0.1",
    *more_hosts: str,
    expired: bool = False,
) -> TlsFiles:
    """A certificate for these hosts, good for servers and clients, and its authority.

    Files that are there already are replaced, as a rotation does.
    """
    end = _LONG_AGO + timedelta(days=1) if expired else None
    certificate = authority.issue_cert(
        host,
        *more_hosts,
        common_name=name,
        not_before=_LONG_AGO if expired else None,
        not_after=end,
    )
    files = TlsFiles(folder / "ca.pem", folder / f"{name}.pem", folder / f"{name}.key")
    assert files.ca and files.certificate and files.key
    folder.mkdir(exist_ok=True)
    files.ca.write_bytes(authority.cert_pem.bytes())
    files.certificate.write_bytes(certificate.cert_chain_pems[0].bytes())
    files.key.write_bytes(certificate.private_key_pem.bytes())
    return files
