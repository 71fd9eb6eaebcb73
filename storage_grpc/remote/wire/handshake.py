"""Explains why a TLS connection to a storage node failed.

gRPC reports the error of its TLS library in the details of a call; this turns it into a sentence
with cause and remedy.
"""

from __future__ import annotations

from typing import Final

_NOT_CONNECTED: Final = "failed to connect"
_CLOSED: Final = "Socket closed"
_CAUSES: Final = (
    (
        "certificate has expired",
        "its certificate has expired: install a new one (tls_cert, tls_key)",
    ),
    (
        "certificate is not yet valid",
        "its certificate is not valid yet: check the clocks of both machines",
    ),
    (
        "Hostname Verification Check failed",
        "its certificate is for another name: use a certificate for the configured address, or "
        "configure the name in the certificate",
    ),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "its certificate is signed by an authority that is not trusted: configure the right "
        "authority (a broker's --storage-ca, a storage node's tls_ca)",
    ),
    (
        "WRONG_VERSION_NUMBER",
        "it does not use TLS: start it with tls_cert and tls_key, or connect without TLS",
    ),
)
_CERTIFICATE_REFUSED: Final = (
    "it closed the connection during the TLS handshake: it requires a client certificate that is "
    "valid and signed by an authority it trusts; configure one (a broker's --storage-cert, a "
    "storage node's tls_cert)"
)
_TLS_EXPECTED: Final = (
    "it closed the connection immediately: if it uses TLS, configure its authority (a broker's "
    "--storage-ca, a storage node's tls_ca)"
)


def why_no_connection(details: str, *, secure: bool) -> str | None:
    """The explanation, if the ``details`` of a failed call show a problem with TLS."""
    if _NOT_CONNECTED not in details:
        return None
    for sign, sentence in _CAUSES:
        if sign in details:
            return sentence
    if _CLOSED in details:
        return _CERTIFICATE_REFUSED if secure else _TLS_EXPECTED
    return None
