"""``python -m storage_grpc.health_check``: whether the storage node of this container serves.

Asks gRPC's health service about the node's own service: a node whose disk failed takes nothing
any more until it is started again, and says so there. Exits with 0, or with 1 and a sentence.
"""

from __future__ import annotations

import os
import sys
from typing import Final

import grpc
from grpc_health.v1 import health, health_pb2

from storage_grpc.remote.wire.service import SERVICE
from storage_grpc.service.settings import load

_SECONDS: Final = 4.0
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


def main() -> int:
    """Ask once; returns the exit code of the process."""
    settings = load({}, os.environ)
    place = f"{_EVERYWHERE.get(settings.host, settings.host)}:{settings.port}"
    try:
        with grpc.insecure_channel(place) as channel:
            check = channel.unary_unary(
                f"/{health.SERVICE_NAME}/Check",
                health_pb2.HealthCheckRequest.SerializeToString,
                health_pb2.HealthCheckResponse.FromString,
            )
            request = health_pb2.HealthCheckRequest(service=SERVICE)
            answer = check(request, timeout=_SECONDS, wait_for_ready=True)
    except grpc.RpcError as error:
        sys.stderr.write(f"{place} does not answer: {error.code().name}\n")
        return 1
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        sys.stderr.write(f"{place} does not serve: its disk failed, or it is stopping\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
