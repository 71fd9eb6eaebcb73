"""``python -m storage_grpc.container.health_check``: checks the storage node of this container.

Queries gRPC's health service for the node's own service, which reports NOT_SERVING after a disk
failure until the node restarts. Exits with 0 if it serves, else with 1 and a sentence.

It runs every few seconds in every container, so it imports gRPC and nothing of the node.
"""

from __future__ import annotations

import os
import socket  # noqa: TID251 - a process of its own
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2

SERVICE: Final = "sulina.storage.Storage"
"""The same as in remote/wire/service.py."""
_METHOD: Final = "/grpc.health.v1.Health/Check"
_SECONDS: Final = 8.0
_ANY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


def node_address(environment: Mapping[str, str]) -> str:
    """The address that the node listens on, from the variables that it was started with."""
    host = environment.get("SULINA_STORAGE_HOST") or "127.0.0.1"
    port = environment.get("SULINA_STORAGE_PORT") or "6660"
    return f"{_ANY_ADDRESS.get(host, host)}:{port}"


def connection(environment: Mapping[str, str]) -> grpc.Channel:
    """A channel to the node, with TLS if the node has a certificate.

    The node of this container is trusted if it presents the certificate that it was started with,
    whoever signed it and whatever name it contains. Raises ``OSError`` if nothing listens.
    """
    address = node_address(environment)
    certificate = environment.get("SULINA_STORAGE_TLS_CERT")
    if not certificate:
        return grpc.insecure_channel(address)
    key = environment.get("SULINA_STORAGE_TLS_KEY") or certificate
    chain, secret = Path(certificate).read_bytes(), Path(key).read_bytes()
    credentials = grpc.ssl_channel_credentials(chain, secret, chain)
    options = [("grpc.ssl_target_name_override", _certificate_name(address, certificate))]
    return grpc.secure_channel(address, credentials, options=options)


def _certificate_name(address: str, certificate: str) -> str:
    """A name in the node's certificate: gRPC requires one to compare with."""
    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = False
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    host, _, port = address.rpartition(":")
    with (
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS) as plain,
        context.wrap_socket(plain) as secure,
    ):
        found: Any = secure.getpeercert() or {}
    names = [str(value) for kind, value in found.get("subjectAltName", ()) if kind != "email"]
    return names[0] if names else host


def main() -> int:
    """Check once; returns the exit code of the process."""
    address = node_address(os.environ)
    try:
        with connection(os.environ) as channel:
            check = channel.unary_unary(
                _METHOD,
                health_pb2.HealthCheckRequest.SerializeToString,
                health_pb2.HealthCheckResponse.FromString,
            )
            request = health_pb2.HealthCheckRequest(service=SERVICE)
            answer = check(request, timeout=_SECONDS)
    except grpc.RpcError as error:
        sys.stderr.write(f"{address} does not answer: {error.code().name}\n")
        return 1
    except OSError as error:  # including TLS errors
        sys.stderr.write(f"{address} does not answer: {error}\n")
        return 1
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        sys.stderr.write(f"{address} does not serve: its disk failed, or it is stopping\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
