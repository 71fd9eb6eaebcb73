"""Checks the storage node at one address and keeps track of its health."""

from __future__ import annotations

import logging
from collections.abc import Callable

from storage_grpc import storage_pb2 as pb
from storage_grpc.remote.link import Link
from storage_grpc.remote.node import RemoteNode
from storage_grpc.remote.settings import RemoteSettings
from storage_grpc.remote.wire.service import PROTOCOL
from sulina.errors import SulinaError, Unavailable
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_CHECK_TIMEOUT = 1.0
"""A node that takes longer to answer is not healthy."""
_CHANGE_TIMEOUT = 10.0
_MAX_AVOID_SECONDS = 60.0
_CHECKS_BEFORE_WARNING = 10
"""Nodes and brokers start in any order: earlier failures of a new node are not logged."""


class NodeMonitor:
    """Checks one address. ``changed`` is called when the node becomes healthy."""

    def __init__(
        self,
        name: str,
        address: str,
        settings: RemoteSettings,
        clock: Clock,
        changed: Callable[[], None],
    ) -> None:
        self.name = name
        self.node: RemoteNode | None = None
        """The node that answered last, healthy or not."""
        self.healthy = False
        self.why = "it has not answered yet"
        """The problem while it is not healthy."""
        self._failed_checks = 0
        self._settings = settings
        self._clock = clock
        self._changed = changed
        self._link = Link(address, settings)
        self._avoid_until = clock.now()
        self._avoid_seconds = 0.0

    async def watch(self) -> None:
        """Check the node periodically, until cancelled."""
        while True:
            asked = self._clock.now()
            try:
                await self._link.renew()
                hello = await self._link.hello(_CHECK_TIMEOUT)
                self._check(hello)
                await self._accept(hello)
            except SulinaError as error:
                self._unhealthy(str(error))
            else:
                if not hello.writable:
                    self._unhealthy("it takes no appends")
                elif asked >= self._avoid_until:
                    self._healthy()
            await self._clock.sleep(self._settings.check_seconds)

    def avoid(self) -> None:
        """Treat the node as unhealthy for a while, twice as long if it failed recently."""
        now = self._clock.now()
        if now < self._avoid_until:
            return
        if now - self._avoid_until > _MAX_AVOID_SECONDS:
            self._avoid_seconds = 0.0
        longer = max(2 * self._avoid_seconds, self._settings.first_avoid)
        self._avoid_seconds = min(longer, _MAX_AVOID_SECONDS)
        self._avoid_until = now + self._avoid_seconds
        self._unhealthy(f"it failed; not used for {self._avoid_seconds:g} s")

    async def status(self) -> pb.StatusReply | None:
        """Its disk and its journal; None if it does not answer within a second, or is too old."""
        try:
            return await self._link.ask(
                "Status", pb.StatusRequest(), pb.StatusReply, timeout=_CHECK_TIMEOUT
            )
        except SulinaError:
            return None

    async def set_log_level(self, level: str) -> str:
        """Set the level of its log, as it was started if empty; returns the level."""
        request = pb.LogLevelRequest(level=level)
        reply = await self._link.ask(
            "SetLogLevel", request, pb.LogLevelReply, timeout=_CHANGE_TIMEOUT
        )
        return reply.level

    async def close(self) -> None:
        """Cancel the node's calls and close the connection."""
        if self.node is not None:
            await self.node.close()
        await self._link.close()

    def _check(self, hello: pb.HelloReply) -> None:
        """Raise ``Unavailable`` if another node or another protocol version answered."""
        if hello.protocol != PROTOCOL:
            raise Unavailable(
                f"{self._link.address} speaks protocol {hello.protocol}, not {PROTOCOL}: run the "
                "same version of Sulina on brokers and storage nodes"
            )
        if hello.id != self.name:
            raise Unavailable(
                f"the node at {self._link.address} is {hello.id}, not {self.name}: check the list "
                "of storage nodes"
            )

    async def _accept(self, hello: pb.HelloReply) -> None:
        before = self.node
        known = None if before is None else (before.incarnation, before.life)
        if known != (hello.incarnation, hello.life):
            self.node = RemoteNode(self._link, hello, self._settings, self._clock)
            if before is not None:
                _log.warning(
                    "storage node %s restarted as %s in life %s, and may have lost data",
                    before.id,
                    self.node.id,
                    hello.life,
                )
                await before.close()
        assert self.node is not None
        self.node.tier = hello.tier

    def _healthy(self) -> None:
        self._failed_checks = 0
        if not self.healthy:
            self.healthy = True
            self._changed()
            _log.info("storage node %s is healthy", self.name)

    def _unhealthy(self, why: str) -> None:
        self.why = why
        self._failed_checks += 1
        if self.healthy:
            self.healthy = False
            _log.warning("storage node %s is unhealthy and not used: %s", self.name, why)
        elif self._failed_checks == _CHECKS_BEFORE_WARNING:
            _log.warning("storage node %s is still not available: %s", self.name, why)
