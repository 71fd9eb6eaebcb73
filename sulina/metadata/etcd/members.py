"""One request to one member of etcd: sent, answered in time, its header looked at, or a failure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import aiohttp

from sulina.metadata.etcd import answers, failures
from sulina.metadata.etcd.codec import Json
from sulina.metadata.etcd.failures import BROKEN, Failure
from sulina.metadata.etcd.horizon import Horizon
from sulina.metadata.etcd.library import Library
from sulina.metadata.etcd.settings import Endpoint, EtcdSettings
from sulina.metadata.etcd.stream import Stream
from sulina.metadata.etcd.token import Token

_LINEAR = frozenset({"/kv/range", "/kv/put", "/kv/deleterange", "/kv/txn"})
"""Calls whose answers carry a revision that is never behind one seen before."""
_HAS_LEADER = {"Grpc-Metadata-hasleader": "true"}
"""Lets a member without a leader say so at once, instead of keeping silent."""


class Members:
    """Sends requests to members. Raises ``Failure`` and answers as ``failures`` has them."""

    def __init__(self, settings: EtcdSettings) -> None:
        self.horizon = Horizon()
        self._settings = settings
        self._library = Library(settings)
        self._timeout = aiohttp.ClientTimeout(
            total=settings.request_seconds, sock_connect=settings.connect_seconds
        )
        self._tokens = {
            endpoint: Token(partial(self._log_in, endpoint) if settings.user else None)
            for endpoint in settings.endpoints
        }

    async def ask(self, endpoint: Endpoint, rpc: str, body: str) -> Json:
        """The answer of one member, within the time for a request (and for a token before it)."""
        headers = await self._headers(endpoint)
        try:
            return await self._ask(endpoint, rpc, body, headers)
        except Failure as failure:
            if failure.token_refused:
                self._tokens[endpoint].drop(headers)
            raise

    @asynccontextmanager
    async def stream(self, endpoint: Endpoint, rpc: str, body: str) -> AsyncIterator[Stream]:
        """A stream from one member, open until the block ends."""
        headers = await self._headers(endpoint)
        timeout = aiohttp.ClientTimeout(sock_connect=self._settings.connect_seconds)
        try:
            async with asyncio.timeout(self._settings.request_seconds):
                response = await self._library.post(
                    endpoint, rpc, body, _HAS_LEADER | headers, timeout
                )
        except BROKEN as error:
            raise failures.of_transport(error, endpoint) from error
        try:
            if response.status != 200:
                raise await self._refusal(endpoint, response)
            yield Stream(endpoint, response, self.horizon)
        except Failure as failure:
            if failure.token_refused:
                self._tokens[endpoint].drop(headers)
            raise
        finally:
            response.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._library.close()

    async def _headers(self, endpoint: Endpoint) -> dict[str, str]:
        try:
            async with asyncio.timeout(self._settings.request_seconds):
                return await self._tokens[endpoint].headers()
        except TimeoutError as error:
            reason = f"etcd at {endpoint} gave no token in time"
            raise Failure(reason, may_have_happened=False) from error

    async def _log_in(self, endpoint: Endpoint) -> str:
        body = json.dumps({"name": self._settings.user, "password": self._settings.password})
        try:
            answer = await self._ask(endpoint, "/auth/authenticate", body, {})
        except Failure as failure:
            # What the token is for was not even sent.
            raise Failure(
                failure.reason, may_have_happened=False, verdict=failure.verdict
            ) from failure
        return str(answer["token"])

    async def _ask(self, endpoint: Endpoint, rpc: str, body: str, headers: dict[str, str]) -> Json:
        floor = self.horizon.revision
        try:
            response = await self._library.post(
                endpoint, rpc, body, _HAS_LEADER | headers, self._timeout
            )
            async with response:
                status, content = response.status, await response.read()
        except BROKEN as error:
            raise failures.of_transport(error, endpoint) from error
        if status != 200:
            raise failures.of_status(status, content, endpoint)
        answer = answers.read(content, endpoint)
        header = answer.get("header", {})
        if rpc in _LINEAR:
            self.horizon.admit_linear(header, floor, endpoint)
        else:
            self.horizon.admit(header, 0, endpoint)
        return answer

    async def _refusal(self, endpoint: Endpoint, response: aiohttp.ClientResponse) -> Exception:
        try:
            async with asyncio.timeout(self._settings.request_seconds):
                return failures.of_status(response.status, await response.read(), endpoint)
        except BROKEN as error:
            return failures.of_transport(error, endpoint)
