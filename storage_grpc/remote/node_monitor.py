"""The place of one storage node: its address, who sits there now, and how well."""

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
_LATE = 10
"""Checks in vain after which it is told that a node does not come; clusters start in any order."""


class NodeMonitor:
    """Watches one address. ``changed`` is called when a node becomes healthy."""

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
        """Whoever was met here last, healthy or not."""
        self.healthy = False
        self.why = "it has not answered yet"
        """What is wrong with it while it is not healthy."""
        self._checks = 0
        self._settings = settings
        self._clock = clock
        self._changed = changed
        self._link = Link(address, settings)
        self._avoid_until = clock.now()
        self._avoid_seconds = 0.0

    async def watch(self) -> None:
        """Ask again and again how the node is, until cancelled."""
        while True:
            asked = self._clock.now()
            try:
                await self._link.renew()
                hello = await self._link.hello(self._settings.check_timeout)
                self._check(hello)
                await self._welcome(hello)
            except SulinaError as error:
                self._unwell(str(error))
            else:
                if not hello.writable:
                    self._unwell("it takes no appends now")
                elif asked >= self._avoid_until:
                    self._well()
            await self._clock.sleep(self._settings.check_seconds)

    def avoid(self) -> None:
        """It did not do what it should: not healthy for a while, longer if it happens again."""
        settings = self._settings
        now = self._clock.now()
        if now < self._avoid_until:
            return
        if now - self._avoid_until > settings.last_avoid:
            self._avoid_seconds = 0.0
        self._avoid_seconds = min(
            max(2 * self._avoid_seconds, settings.first_avoid), settings.last_avoid
        )
        self._avoid_until = now + self._avoid_seconds
        self._unwell(f"it failed; not used for {self._avoid_seconds:g} s")

    async def close(self) -> None:
        """End the node's stream and the connection."""
        if self.node is not None:
            await self.node.close()
        await self._link.close()

    def _check(self, hello: pb.HelloReply) -> None:
        """Raise ``Unavailable`` if whoever answered is not what this place is for."""
        if hello.protocol != PROTOCOL:
            raise Unavailable(
                f"{self._link.address} speaks protocol {hello.protocol} and this is {PROTOCOL}: "
                "run the same version of Sulina on both"
            )
        if hello.id != self.name:
            raise Unavailable(
                f"the node at {self._link.address} calls itself {hello.id} and not {self.name}: "
                "check the list of storage nodes"
            )

    async def _welcome(self, hello: pb.HelloReply) -> None:
        before = self.node
        met = None if before is None else (before.incarnation, before.life)
        if met != (hello.incarnation, hello.life):
            self.node = RemoteNode(self._link, hello, self._settings, self._clock)
            if before is not None:
                _log.warning(
                    "%s is gone: %s came back in its place, in life %s",
                    before.id,
                    self.node.id,
                    hello.life,
                )
                await before.close()
        assert self.node is not None
        self.node.tier = hello.tier

    def _well(self) -> None:
        self._checks = 0
        if not self.healthy:
            self.healthy = True
            self._changed()
            _log.info("storage node %s is healthy", self.name)

    def _unwell(self, why: str) -> None:
        self.why = why
        self._checks += 1
        if self.healthy:
            self.healthy = False
            _log.warning("storage node %s is not used for now: %s", self.name, why)
        elif self._checks == _LATE:
            _log.warning("storage node %s can't be used so far: %s", self.name, why)
