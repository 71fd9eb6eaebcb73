"""When a certificate ends, told by the standard library alone.

It decodes a certificate only for who has just been shown it: so it is shown, from memory to memory.
"""

from __future__ import annotations

import ssl
from typing import Any, Final

_STEPS: Final = 8
"""Of a handshake, which takes three or four."""


def seconds_of_end(certificate: str, key: str) -> float:
    """When the certificate in a PEM file ends, in seconds of the epoch; 0 if it has ended.

    Raises ``OSError`` (``ssl.SSLError`` is one) if the files can't be used.
    """
    shows = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shows.load_cert_chain(certificate, key)
    looks = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    looks.check_hostname = False
    # The certificate itself is what is trusted, whoever signed it.
    looks.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    looks.load_verify_locations(certificate)
    here, there = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = shows.wrap_bio(here, there, server_side=True)
    client = looks.wrap_bio(there, here)
    try:
        for _ in range(_STEPS):
            for side in (client, server):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
    except ssl.SSLCertVerificationError as error:
        if error.verify_code == _EXPIRED:
            return 0.0
        raise
    found: Any = client.getpeercert() or {}
    return float(ssl.cert_time_to_seconds(found["notAfter"]))


_EXPIRED: Final = 10
"""OpenSSL's X509_V_ERR_CERT_HAS_EXPIRED."""
