"""A client's certificate as its identity. TLS has verified it before this reads it."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_SECOND_US: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """Whom a certificate is for, and until when it is valid."""

    principal: str
    until_us: int


def read_certificate(found: Mapping[str, Any] | None) -> ClientCertificate | None:
    """What a verified certificate, as ``ssl`` describes it, says; None without a common name."""
    for part in (found or {}).get("subject", ()):
        for name, value in part:
            if name == "commonName" and value:
                assert found is not None
                end = ssl.cert_time_to_seconds(found["notAfter"])
                return ClientCertificate(value, int(end) * _SECOND_US)
    return None
