"""Clients of the brokers, by the options of the source and of the sink."""

from __future__ import annotations

import ssl

import sulina
from sulina.errors import Refused


def make_client(url: str, tls: str, token: str) -> sulina.Client:
    """A client, not connected yet. Raises ``Refused`` for certificates that cannot be read."""
    return sulina.connect(url, tls=_trusted(tls), token=token)


def _trusted(tls: str) -> ssl.SSLContext | str | None:
    """The certificates to trust: the system's, those in a file, or the text itself."""
    if not tls.startswith("-----BEGIN "):
        return tls or None
    try:
        return ssl.create_default_context(cadata=tls)
    except ssl.SSLError as error:
        raise Refused(f"the certificates of the option tls cannot be read: {error}") from None
