"""The baseline of the server for Danube clients: a grpc.aio server that does nothing.

``python -m benchmarks.danube_bare PORT`` answers a producer's calls immediately: it parses the
request, serializes the response, and stores nothing. Event loop, gRPC options and process settings
are those of the broker's server, so that the difference is the broker's own work.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import grpc

from broker_containers.doors.danube import danube_pb2 as pb
from broker_containers.doors.danube.server import server_options
from sulina.cli.running import loop_factory
from sulina.runtime.machine import tune_for_frames


async def create(request: pb.ProducerRequest, _: Any) -> pb.ProducerResponse:
    return pb.ProducerResponse(request_id=request.request_id, producer_id=1)


async def send(request: pb.StreamMessage, _: Any) -> pb.MessageResponse:
    return pb.MessageResponse(request_id=request.request_id)


async def serve(port: int) -> None:
    """Serve until killed."""
    server = grpc.aio.server(options=server_options())
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        name: grpc.unary_unary_rpc_method_handler(
            answer,
            request_deserializer=kind.FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )
        for name, answer, kind in (
            ("CreateProducer", create, pb.ProducerRequest),
            ("SendMessage", send, pb.StreamMessage),
        )
    }
    service = grpc.method_handlers_generic_handler("danube.ProducerService", handlers)
    server.add_generic_rpc_handlers([service])
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    tune_for_frames()
    await server.wait_for_termination()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(int(sys.argv[1])))
