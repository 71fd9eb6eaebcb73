"""``python -m storage_grpc.health_check``: whether the storage node of this container serves.

Asks gRPC's health service about the node's own service: a node whose disk failed takes nothing
any more until it is started again, and says so there. Exits with 0, or with 1 and a sentence.

It is run every few seconds in every container, so it loads gRPC and nothing of the node.
"""

from __future__ import annotations

import os
import socket  # noqa: TID251 - a process of its own, which only asks
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2

SERVICE: Final = "sulina.storage.Storage"
"""The node's own, as remote/wire/service.py has it."""
_METHOD: Final = "/grpc.health.v1.Health/Check"
_SECONDS: Final = 8.0
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


def place(environment: Mapping[str, str]) -> str:
    """Where the node listens, by the variables that it was started with."""
    host = environment.get("SULINA_STORAGE_HOST") or "127.0.0.1"
    port = environment.get("SULINA_STORAGE_PORT") or "6660"
    return f"{_EVERYWHERE.get(host, host)}:{port}"


def connection(environment: Mapping[str, str]) -> grpc.Channel:
    """To the node, with TLS if it was started so. Raises ``OSError`` if nobody is there.

    A node on this machine is who it shows to be if it shows the certificate that it was given,
    whoever signed that and whatever name is in it.
    """
    asked = place(environment)
    certificate = environment.get("SULINA_STORAGE_TLS_CERT")
    if not certificate:
        return grpc.insecure_channel(asked)
    key = environment.get("SULINA_STORAGE_TLS_KEY") or certificate
    shown, secret = Path(certificate).read_bytes(), Path(key).read_bytes()
    credentials = grpc.ssl_channel_credentials(shown, secret, shown)
    options = [("grpc.ssl_target_name_override", _name(asked, certificate))]
    return grpc.secure_channel(asked, credentials, options=options)


def _name(asked: str, certificate: str) -> str:
    """A name that is in the node's certificate, since gRPC insists on one."""
    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = False
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    host, _, port = asked.rpartition(":")
    with (
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS) as plain,
        context.wrap_socket(plain) as secure,
    ):
        found: Any = secure.getpeercert() or {}
    names = [str(value) for kind, value in found.get("subjectAltName", ()) if kind != "email"]
    return names[0] if names else host


def main() -> int:
    """Ask once; returns the exit code of the process."""
    asked = place(os.environ)
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
        sys.stderr.write(f"{asked} does not answer: {error.code().name}\n")
        return 1
    except OSError as error:  # TLS among them
        sys.stderr.write(f"{asked} does not answer: {error}\n")
        return 1
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        sys.stderr.write(f"{asked} does not serve: its disk failed, or it is stopping\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
