"""Calls that a broker forwards to another one, which leaves the cluster meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
import pytest_asyncio

from broker_containers.doors.danube import danube_pb2 as pb
from broker_containers.doors.danube.forwarding import Forwarder
from sulina.errors import Unavailable

METHOD = "/danube.ConsumerService/ReceiveMessages"
CONTEXT: Any = SimpleNamespace(invocation_metadata=tuple)


class Peer(grpc.GenericRpcHandler):
    """Another broker, which never replies."""

    def __init__(self) -> None:
        self.called = asyncio.Event()
        self.server = grpc.aio.server()
        self.server.add_generic_rpc_handlers((self,))
        self.url = f"http://127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"

    def service(self, handler_call_details: Any) -> Any:
        if handler_call_details.method == METHOD:
            return grpc.unary_stream_rpc_method_handler(self._stream)
        return grpc.unary_unary_rpc_method_handler(self._wait)

    async def _wait(self, request: bytes, context: Any) -> bytes:
        self.called.set()
        await asyncio.Event().wait()
        return b""

    async def _stream(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield await self._wait(request, context)


class Cluster:
    """Two other brokers, the first of which leaves."""

    def __init__(self) -> None:
        self.first, self.second = Peer(), Peer()
        self.members = [self.first.url, self.second.url]
        self.forwarder = Forwarder(lambda: self.members)

    def call(self, peer: Peer) -> asyncio.Task[pb.AckResponse]:
        work = self.forwarder.unary(peer.url, "/x/y", pb.AckRequest(), pb.AckResponse, CONTEXT)
        return asyncio.create_task(work)

    async def leave(self) -> None:
        """The first broker leaves in the middle of a call, and the other is called."""
        await self.first.called.wait()
        self.members = [self.second.url]
        call = self.call(self.second)
        await self.second.called.wait()
        call.cancel()
        await asyncio.wait((call,))


@pytest_asyncio.fixture(loop_scope="session")
async def cluster() -> AsyncIterator[Cluster]:
    found = Cluster()
    for peer in (found.first, found.second):
        await peer.server.start()
    yield found
    await found.forwarder.close()
    for peer in (found.first, found.second):
        await peer.server.stop(0)


async def test_a_stream_ends_when_the_other_broker_leaves(cluster: Cluster) -> None:
    """gRPC reports it as a cancellation; passed on, it left the client's call open forever."""
    leaving = asyncio.create_task(cluster.leave())
    messages = cluster.forwarder.stream(cluster.first.url, METHOD, pb.ReceiveRequest(), CONTEXT)
    with pytest.raises(Unavailable):
        await anext(messages)
    await leaving


async def test_a_call_fails_as_retriable_when_the_other_broker_leaves(cluster: Cluster) -> None:
    call = cluster.call(cluster.first)
    await cluster.leave()
    with pytest.raises(Unavailable):
        await call


async def test_a_caller_that_leaves_cancels_the_call(cluster: Cluster) -> None:
    call = cluster.call(cluster.first)
    await cluster.first.called.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
