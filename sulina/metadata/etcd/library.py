"""What we use of etcd3-py: its client as the way to etcd's JSON gateway, without its traps.

Used as shipped it asks the server in its constructor (and fails without one), has no deadline, does
not check host names, looks at signatures at every call, and loses events of streams. Here it only
builds requests and sends them through a session of ours; answers are read by ``gateway``.
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
from sulina.metadata.etcd.settings import Endpoint, EtcdSettings
from sulina.runtime.tls_files import TlsFiles, TlsWatch

# Every attribute of its client that is looked up inspects a function: 2 to 4 times the cost.
etcd3.utils.getargspec = functools.lru_cache(maxsize=None)(inspect.getfullargspec)

_SPEAKS = semantic_version.Version("3.4.0")  # the first with the paths that all newer ones have


class Library(etcd3.AioClient):  # type: ignore[misc]  # it has no types
    """etcd3-py's client, aimed at one member after the other. Make it inside an event loop."""

    def __init__(self, settings: EtcdSettings) -> None:
        context: ssl.SSLContext | None = None
        self._tls: tuple[TlsFiles, ssl.SSLContext, TlsWatch] | None = None
        if settings.tls is not None:
            context = settings.tls.context()
            self._tls = settings.tls, context, TlsWatch(settings.tls)
        # Its own constructor would make a session without limits of time and without names checked.
        BaseClient.__init__(self, protocol="http" if context is None else "https")
        # Connections are bounded by the calls in flight and by the watches that are open.
        connector = aiohttp.TCPConnector(limit=0, ssl=True if context is None else context)
        self.session = aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar()
        )

    def _retrieve_version(self) -> None:
        """As shipped, a blocking request."""
        self.server_version_sem = _SPEAKS

    def _renew_tls(self) -> None:
        """Let new connections use certificates that were replaced."""
        if self._tls is not None:
            files, context, watch = self._tls
            if watch.renewed() is not None:
                with suppress(Refused):  # they were replaced again: the next call will see it
                    files.renew(context)

    async def post(
        self,
        endpoint: Endpoint,
        rpc: str,
        body: str,
        headers: dict[str, str],
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        """Send one request to one member. Raises what aiohttp raises; the caller releases."""
        self._renew_tls()
        self.host, self.port = endpoint.host, endpoint.port  # read before call_rpc returns
        response: aiohttp.ClientResponse = await self.call_rpc(
            rpc, body, raw=True, headers=headers, timeout=timeout
        )
        return response
