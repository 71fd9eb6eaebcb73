"""Requests to single members of etcd, each with a deadline and with its answer checked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import aiohttp

from sulina.metadata.etcd import failures
from sulina.metadata.etcd.codec import Json
from sulina.metadata.etcd.failures import BROKEN, MemberFailure
from sulina.metadata.etcd.http_client import EtcdHttpClient
from sulina.metadata.etcd.seen_revision import SeenRevision
from sulina.metadata.etcd.settings import EtcdEndpoint, EtcdSettings
from sulina.metadata.etcd.stream import MessageStream
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_LINEAR = frozenset({"/kv/range", "/kv/put", "/kv/deleterange", "/kv/txn"})
"""Calls whose answers carry a revision that is never behind one seen before."""
_HAS_LEADER = {"Grpc-Metadata-hasleader": "true"}
"""Makes a member without a leader answer with an error instead of not answering."""


class _LoginToken:
    """The token that etcd issues for a user and a password: requested once, shared by all calls."""

    def __init__(self, log_in: Callable[[], Awaitable[str]]) -> None:
        self._log_in = log_in
        self._value = ""
        self._asking = asyncio.Lock()

    async def headers(self) -> dict[str, str]:
        """The headers that a request must carry. Raises what ``log_in`` raises."""
        async with self._asking:  # one task logs in, the others wait for its token
            if not self._value:
                self._value = await self._log_in()
            return {"Authorization": self._value}

    def drop(self, headers: dict[str, str]) -> None:
        """Forget the token that was sent in ``headers``, unless it was renewed meanwhile."""
        if headers.get("Authorization") == self._value:
            self._value = ""


class EtcdMembers:
    """Sends requests to members. Raises ``MemberFailure``, and what etcd itself refuses."""

    def __init__(self, settings: EtcdSettings, clock: Clock) -> None:
        self.seen = SeenRevision()
        self._settings = settings
        self._clock = clock
        self._http = EtcdHttpClient(settings)
        self._timeout = aiohttp.ClientTimeout(
            total=settings.request_seconds, sock_connect=settings.connect_seconds
        )
        self._tokens = {
            endpoint: _LoginToken(partial(self._log_in, endpoint))
            for endpoint in (settings.endpoints if settings.user else ())
        }

    async def ask(self, endpoint: EtcdEndpoint, rpc: str, body: str) -> Json:
        """One member's answer, within ``request_seconds`` (and as long again for a token)."""
        headers = await self._headers(endpoint)
        try:
            return await self._ask(endpoint, rpc, body, headers)
        except MemberFailure as failure:
            self._drop_refused(endpoint, headers, failure)
            raise

    @asynccontextmanager
    async def stream(
        self, endpoint: EtcdEndpoint, rpc: str, body: str
    ) -> AsyncIterator[MessageStream]:
        """A stream from one member, open until the block ends."""
        headers = await self._headers(endpoint)
        timeout = aiohttp.ClientTimeout(sock_connect=self._settings.connect_seconds)
        posting = self._http.post(endpoint, rpc, body, _HAS_LEADER | headers, timeout)
        try:
            response = await within(
                self._clock,
                self._settings.request_seconds,
                posting,
                discard=aiohttp.ClientResponse.close,
            )
        except BROKEN as error:
            raise failures.of_transport(error, endpoint) from error
        try:
            if response.status != 200:
                raise await self._refusal(endpoint, response)
            yield MessageStream(endpoint, response, self.seen, self._clock)
        except MemberFailure as failure:
            self._drop_refused(endpoint, headers, failure)
            raise
        finally:
            response.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()

    async def _headers(self, endpoint: EtcdEndpoint) -> dict[str, str]:
        token = self._tokens.get(endpoint)
        if token is None:
            return {}
        try:
            return await within(self._clock, self._settings.request_seconds, token.headers())
        except TimeoutError as error:
            reason = f"etcd at {endpoint} issued no token in time"
            raise MemberFailure(reason, may_have_happened=False) from error

    def _drop_refused(
        self, endpoint: EtcdEndpoint, headers: dict[str, str], failure: MemberFailure
    ) -> None:
        token = self._tokens.get(endpoint)
        if failure.token_refused and token is not None:
            token.drop(headers)

    async def _log_in(self, endpoint: EtcdEndpoint) -> str:
        body = json.dumps({"name": self._settings.user, "password": self._settings.password})
        try:
            answer = await self._ask(endpoint, "/auth/authenticate", body, {})
        except MemberFailure as failure:
            # The request that needs the token was not sent.
            raise MemberFailure(
                failure.reason, may_have_happened=False, verdict=failure.verdict
            ) from failure
        return str(answer["token"])

    async def _ask(
        self, endpoint: EtcdEndpoint, rpc: str, body: str, headers: dict[str, str]
    ) -> Json:
        floor = self.seen.revision
        try:
            response = await self._http.post(
                endpoint, rpc, body, _HAS_LEADER | headers, self._timeout
            )
            async with response:
                status, content = response.status, await response.read()
        except BROKEN as error:
            raise failures.of_transport(error, endpoint) from error
        if status != 200:
            raise failures.of_status(status, content, endpoint)
        answer = failures.read_answer(content, endpoint)
        header = answer.get("header", {})
        if rpc in _LINEAR:
            self.seen.admit_linear(header, floor, endpoint)
        else:
            self.seen.admit(header, 0, endpoint)
        return answer

    async def _refusal(self, endpoint: EtcdEndpoint, response: aiohttp.ClientResponse) -> Exception:
        try:
            body = await within(self._clock, self._settings.request_seconds, response.read())
        except BROKEN as error:
            return failures.of_transport(error, endpoint)
        return failures.of_status(response.status, body, endpoint)
