"""A client of Danube's admin services that knows nothing of our own .proto."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.protobuf.message_factory import GetMessageClass

from tests.danube_admin import wire

_POOL = wire.pool()
_METHODS = wire.methods()
SECONDS = 60.0


class AdminClient:
    """Call it with ``Service/Method`` and the fields of the request."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel

    async def __call__(self, method: str, **fields: Any) -> Any:
        """The answer. Raises ``AioRpcError``; while a cluster elects a leader, tries again."""
        taken, given = (
            GetMessageClass(_POOL.FindMessageTypeByName(f"{wire.PACKAGE}.{name}"))
            for name in _METHODS[method]
        )
        call: Any = self.channel.unary_unary(
            f"/{wire.PACKAGE}.{method}",
            request_serializer=taken.SerializeToString,
            response_deserializer=given.FromString,
        )
        while True:
            try:
                return await call(taken(**fields), timeout=SECONDS)
            except grpc.aio.AioRpcError as error:  # on a busy machine a leader may lose its lease
                if "no leader at the moment" not in (error.details() or ""):
                    raise
            await asyncio.sleep(0.05)

    async def refused(self, status: grpc.StatusCode, method: str, **fields: Any) -> str:
        """The reason for which a call is refused."""
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await self(method, **fields)
        assert caught.value.code() is status, caught.value
        return caught.value.details() or ""

    async def raw(self, path: str, request: bytes = b"") -> bytes:
        """Any method, by its whole path."""
        call: Any = self.channel.unary_unary(path)
        answer: bytes = await call(request, timeout=SECONDS)
        return answer


@asynccontextmanager
async def admin_client(port: int) -> AsyncIterator[AdminClient]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield AdminClient(channel)
