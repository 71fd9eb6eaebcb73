"""Certificates of tests."""

from __future__ import annotations

import ssl

import trustme


def server_tls(issued: trustme.LeafCert, clients: trustme.CA | None = None) -> ssl.SSLContext:
    """The context of a gRPC port; ``clients`` issues certificates that its clients may show."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["h2"])
    issued.configure_cert(context)
    if clients is not None:
        clients.configure_trust(context)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context
