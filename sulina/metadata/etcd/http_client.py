"""A thin layer over etcd3-py's client for etcd's JSON gateway.

As shipped, that client connects in its constructor (and fails without a server), has no timeouts,
does not check host names, inspects signatures at every call, and loses events of streams. Here it
only builds requests and sends them through our own session; ``members`` reads the answers.
"""

from __future__ import annotations

import functools
import inspect
import ssl
from contextlib import suppress

import aiohttp
import etcd3
import etcd3.utils
import semantic_version
from etcd3.baseclient import BaseClient

from sulina.errors import Refused
from sulina.metadata.etcd.settings import EtcdEndpoint, EtcdSettings
from sulina.runtime.tls_files import TlsFiles, TlsWatch

# Its client inspects a function at each attribute lookup, which doubles to quadruples the cost.
etcd3.utils.getargspec = functools.lru_cache(maxsize=None)(inspect.getfullargspec)

_API_VERSION = semantic_version.Version("3.4.0")  # the first with the paths of all newer ones


class EtcdHttpClient(etcd3.AioClient):  # type: ignore[misc]  # it has no types
    """etcd3-py's client, used for several members in turn. Create it inside an event loop."""

    def __init__(self, settings: EtcdSettings) -> None:
        context: ssl.SSLContext | None = None
        self._tls: tuple[TlsFiles, ssl.SSLContext, TlsWatch] | None = None
        if settings.tls is not None:
            context = settings.tls.context()
            self._tls = settings.tls, context, TlsWatch(settings.tls)
        # Its own constructor would create a session without timeouts or host name checks.
        BaseClient.__init__(self, protocol="http" if context is None else "https")
        # The calls in flight and the open watches bound the connections.
        connector = aiohttp.TCPConnector(limit=0, ssl=True if context is None else context)
        self.session = aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar()
        )

    def _retrieve_version(self) -> None:
        """Overrides a blocking request."""
        self.server_version_sem = _API_VERSION

    def _renew_tls(self) -> None:
        """Use replaced certificates for new connections."""
        if self._tls is not None:
            files, context, watch = self._tls
            if watch.renewed() is not None:
                with suppress(Refused):  # they were replaced again: the next call sees it
                    files.renew(context)

    async def post(
        self,
        endpoint: EtcdEndpoint,
        rpc: str,
        body: str,
        headers: dict[str, str],
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        """Send a request to one member. Raises aiohttp's errors. The caller closes the response."""
        self._renew_tls()
        self.host, self.port = (
            endpoint.host,
            endpoint.port,
        )  # read before call_rpc awaits
        response: aiohttp.ClientResponse = await self.call_rpc(
            rpc, body, raw=True, headers=headers, timeout=timeout
        )
        return response
