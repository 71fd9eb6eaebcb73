"""Why a connection to a storage node could not be made, as far as TLS is the cause.

gRPC tells it in the details of a call, in the words of its TLS library; people get the cause and
the remedy.
"""

from __future__ import annotations

from typing import Final

_NOT_MADE: Final = "failed to connect"
_CLOSED: Final = "Socket closed"
_CAUSES: Final = (
    (
        "certificate has expired",
        "its certificate has expired: give it a new one (tls_cert, tls_key)",
    ),
    (
        "certificate is not yet valid",
        "its certificate is not valid yet: are the clocks of both machines right?",
    ),
    (
        "Hostname Verification Check failed",
        "its certificate is for another name: give it one for the name by which it is called here, "
        "or call it by the name in its certificate",
    ),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "its certificate is of an authority that is not trusted here: name the file of the right "
        "one (a broker's --storage-ca, a storage node's tls_ca)",
    ),
    (
        "WRONG_VERSION_NUMBER",
        "it does not speak TLS: start it with tls_cert and tls_key, or leave TLS out here as well",
    ),
)
_WANTS_OURS: Final = (
    "it closed the connection while TLS began: it wants a certificate, or not the one it was shown "
    "(of an authority that it does not trust, or expired); give a good one (a broker's "
    "--storage-cert, a storage node's tls_cert)"
)
_WANTS_TLS: Final = (
    "it closed the connection at once: if it speaks TLS, name its authority (a broker's "
    "--storage-ca, a storage node's tls_ca)"
)


def why_no_connection(details: str, *, secure: bool) -> str | None:
    """A sentence, if ``details`` of a failed call say that TLS failed, or is missing."""
    if _NOT_MADE not in details:
        return None
    for sign, sentence in _CAUSES:
        if sign in details:
            return sentence
    if _CLOSED in details:
        return _WANTS_OURS if secure else _WANTS_TLS
    return None
