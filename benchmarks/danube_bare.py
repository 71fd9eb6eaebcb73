"""The baseline of the server for Danube clients: a grpc.aio server that only writes and syncs.

``python -m benchmarks.danube_bare PORT FILE`` answers SendMessage with one 4 KiB write and its
fdatasync, in turn, and does nothing else: it neither parses the message nor keeps it. So a call is
a bare unary call plus one fdatasync. The file is preallocated, like a journal.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import grpc

from benchmarks.yardsticks import SYNC_SIZE
from broker_containers.doors.danube import danube_pb2 as pb
from sulina.cli.running import loop_factory
from sulina.runtime.machine import tune_for_frames

_LENGTH = 64 << 20
_ANSWER = pb.MessageResponse(request_id=1).SerializeToString()


async def serve(port: int, path: str) -> None:
    """Serve until killed."""
    file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    os.posix_fallocate(file, 0, _LENGTH)
    os.fsync(file)
    block = os.urandom(SYNC_SIZE)
    position = 0

    async def send(_request: bytes, _context: Any) -> bytes:
        nonlocal position
        os.pwrite(file, block, position)
        os.fdatasync(file)
        position = (position + SYNC_SIZE) % _LENGTH
        return _ANSWER

    server = grpc.aio.server()
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "SendMessage": grpc.unary_unary_rpc_method_handler(send)
    }
    service = grpc.method_handlers_generic_handler("danube.ProducerService", handlers)
    server.add_generic_rpc_handlers([service])
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    tune_for_frames()
    await server.wait_for_termination()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(int(sys.argv[1]), sys.argv[2]))
