"""Opens a port for a gRPC server, with or without TLS."""

from __future__ import annotations

import asyncio
from typing import Final

import grpc

from sulina.client.address import Address
from sulina.errors import Refused
from sulina.runtime.grpc_log import shorten_grpc_log

UNKNOWN_CALLERS: Final = (
    # The TLS handshake and the client's first HTTP/2 frame.
    ("grpc.server_handshake_timeout_ms", 5_000),
    # Without calls; clients reconnect when they make the next one.
    ("grpc.max_connection_idle_ms", 60_000),
    # Buffer little of a message before a handler asks for it.
    ("grpc.http2.lookahead_bytes", 64 << 10),
    ("grpc.http2.bdp_probe", 0),
)
"""gRPC options that limit what callers cost before they are known."""


async def open_port(
    server: grpc.aio.Server,
    host: str,
    port: int,
    certificate: bytes | None,
    key: bytes | None,
    what: str,
    flag: str,
) -> int:
    """Make ``server`` listen; returns the port in use. Raises ``Refused`` if the port is taken.

    The error names the port's users, ``what``, and the option that changes the port, ``flag``. The
    certificate's file may contain the key.
    """
    shorten_grpc_log()
    place = str(Address(host or "::", port))
    try:
        if port:  # test it: gRPC would write the reason to standard error
            probe = await asyncio.get_running_loop().create_server(
                asyncio.Protocol, host or None, port
            )
            probe.close()
            await probe.wait_closed()
        if certificate is None:
            return server.add_insecure_port(place)
        credentials = grpc.ssl_server_credentials([(key or certificate, certificate)])
        return server.add_secure_port(place, credentials)
    except (RuntimeError, OSError) as error:
        why = getattr(error, "strerror", None) or "gRPC can't open it"
        raise Refused(
            f"can't listen on {place} for {what} ({why}): is another broker running? Choose "
            f"another port with {flag}; 0 takes one that is free"
        ) from None
