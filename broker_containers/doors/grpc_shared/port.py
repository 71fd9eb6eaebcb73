"""Opens a port for a gRPC server, with TLS or without, and says why it can't."""

from __future__ import annotations

import asyncio

import grpc

from sulina.client.address import Address
from sulina.errors import Refused


async def open_port(
    server: grpc.aio.Server,
    host: str,
    port: int,
    certificate: bytes | None,
    key: bytes | None,
    what: str,
    flag: str,
) -> int:
    """Let ``server`` listen; the port in use. Raises ``Refused``, with ``flag`` as the remedy.

    ``what`` is whom the port is for. The key may be in the certificate's file.
    """
    place = str(Address(host or "::", port))
    try:
        if port:  # gRPC would write the reason to standard error
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
        why = getattr(error, "strerror", None) or "gRPC can't have it"
        raise Refused(
            f"can't listen on {place} for {what} ({why}): is another broker running? Choose "
            f"another port with {flag}; 0 takes one that is free"
        ) from None
