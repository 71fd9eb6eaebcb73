"""The storage nodes of a cluster and their health: ``Nodes`` over gRPC.

Every node is checked periodically. A node that does not answer, says that it is not writable, or
was reported as failed is not chosen until a check succeeds again; repeated failures lengthen the
wait. A node that comes back with other data is another member: its old name is no longer known.

Where nodes are in several availability zones, copies are spread over zones.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from types import TracebackType
from typing import Self

from storage_grpc.node import Node
from storage_grpc.remote.node import RemoteNode
from storage_grpc.remote.node_monitor import NodeMonitor
from storage_grpc.remote.settings import RemoteSettings
from sulina.errors import NotFound, Refused, Unavailable
from sulina.operations.storage import StorageNodeRow, StorageNodeState
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock, Randomness
from sulina.runtime.tasks import stop_tasks

_SAME_LOAD = 1 << 20
"""Nodes whose pending bytes differ by less count as equally loaded."""


class RemoteNodes:
    """The nodes given as ``name=host:port`` or ``name=host:port/zone``. Use it with ``async with``.

    Entering raises ``Refused`` if the TLS files of the settings can't be used. Right after that no
    node is known yet: wait for ``ready``.
    """

    def __init__(
        self,
        places: Sequence[str],
        clock: Clock,
        randomness: Randomness,
        settings: RemoteSettings | None = None,
    ) -> None:
        self._clock = clock
        self._randomness = randomness
        self._settings = settings or RemoteSettings()
        parsed = list(map(_parse, places))
        self._places = {name: address for name, address, _ in parsed}
        self._zones = {name: zone for name, _, zone in parsed}
        if len(self._places) < len(places):
            raise Refused("two storage nodes have the same name: give each its own")
        self._monitors: list[NodeMonitor] = []
        self._watching: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        # Create all before starting a task: if one fails, no task is left behind.
        self._monitors = [
            NodeMonitor(name, address, self._settings, self._clock, self._changed.set)
            for name, address in self._places.items()
        ]
        self._watching = [
            asyncio.create_task(monitor.watch(), name=f"watch-{monitor.name}")
            for monitor in self._monitors
        ]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await stop_tasks(*self._watching)
        for monitor in self._monitors:
            await monitor.close()
        self._watching.clear()
        self._monitors.clear()

    async def ready(self, count: int) -> None:
        """Wait until ``count`` nodes are healthy; the caller sets the deadline."""
        while len(self._healthy()) < count:
            self._changed.clear()
            await self._changed.wait()

    async def ready_within(self, seconds: float, count: int, who: str) -> None:
        """The same with a deadline. Raises ``Unavailable`` with the problem of each node.

        ``who`` names the awaited nodes in that error.
        """
        try:
            await within(self._clock, seconds, self.ready(count))
        except TimeoutError:
            raise Unavailable(
                f"{who} did not answer within {seconds:g} s ({self.troubles})"
            ) from None

    @property
    def troubles(self) -> str:
        """The problem of each node that is not healthy, as text."""
        return "; ".join(
            f"{monitor.name}: {monitor.why}" for monitor in self._monitors if not monitor.healthy
        )

    def unhealthy(self) -> list[str]:
        """The names of the nodes that are not healthy."""
        return [monitor.name for monitor in self._monitors if not monitor.healthy]

    def get(self, member: str) -> RemoteNode | None:
        """See ``Nodes.get``."""
        for monitor in self._monitors:
            if monitor.node is not None and monitor.node.id == member:
                return monitor.node
        return None

    def choose(self, count: int, exclude: Collection[str] = ()) -> list[Node]:
        """See ``Nodes.choose``. Equally loaded nodes are in random order.

        As many zones as possible, those of healthy nodes in ``exclude`` included, have one each.
        """
        healthy = self._healthy()
        ranked = [
            (node.pending_bytes // _SAME_LOAD, self._randomness.random(), node)
            for node in healthy
            if node.id not in exclude
        ]
        ranked.sort(key=lambda rank: rank[:2])
        left = [node for _, _, node in ranked]
        if not any(self._zones.values()):
            return [*left[:count]]
        taken = Counter(self._zones[node.name] for node in healthy if node.id in exclude)
        chosen: list[Node] = []
        while left and len(chosen) < count:
            best = min(left, key=lambda node: taken[self._zones[node.name]])
            taken[self._zones[best.name]] += 1
            left.remove(best)
            chosen.append(best)
        return chosen

    def near(self, member: str) -> bool:
        """Whether a node is healthy and in the zone of this process; traffic to it is free."""
        zone = self._settings.zone
        return bool(zone) and any(
            node.id == member and self._zones[node.name] == zone for node in self._healthy()
        )

    def all(self) -> list[RemoteNode]:
        """Every node that has ever answered, healthy or not."""
        return [monitor.node for monitor in self._monitors if monitor.node is not None]

    async def rows(self) -> list[StorageNodeRow]:
        """Each node, healthy or not, for an overview; waits a second at most for their answers."""
        return list(await asyncio.gather(*map(self._row, self._monitors)))

    async def _row(self, monitor: NodeMonitor) -> StorageNodeRow:
        status = await monitor.status()
        trouble = "" if monitor.healthy else monitor.why
        return StorageNodeRow(
            node=monitor.name,
            address=self._places[monitor.name],
            zone=self._zones[monitor.name],
            healthy=monitor.healthy,
            trouble=(status.unwritable if status is not None else "") or trouble,
            pending_bytes=0 if monitor.node is None else monitor.node.pending_bytes,
            object_store="" if monitor.node is None else monitor.node.tier,
            state=None
            if status is None
            else StorageNodeState(
                version=status.version,
                writable=not status.unwritable,
                disk_bytes=status.disk_bytes,
                disk_free_bytes=status.disk_free_bytes,
                journal_bytes=status.journal_bytes,
                journal_files=status.journal_files,
                reserved_bytes=status.reserved_bytes,
                pending_bytes=status.pending_bytes,
                ledgers=status.ledgers,
                damaged_places=status.damaged_places,
                log_level=status.log_level,
            ),
        )

    async def set_log_level(self, name: str, level: str) -> str:
        """Set the level of a node's log. Raises ``NotFound``, and ``UnknownOutcome`` if it does
        not answer."""
        for monitor in self._monitors:
            if monitor.name == name:
                return await monitor.set_log_level(level)
        known = ", ".join(self._places)
        raise NotFound(f"there is no storage node {name!r}: choose from {known}")

    def with_tier(self) -> list[RemoteNode]:
        """The healthy nodes with an object store; if there is none, the unhealthy ones."""
        healthy = [node for node in self._healthy() if node.tier]
        known = [monitor.node for monitor in self._monitors if monitor.node is not None]
        return healthy or [node for node in known if node.tier]

    def failed(self, member: str) -> None:
        """See ``Nodes.failed``."""
        for monitor in self._monitors:
            if monitor.node is not None and monitor.node.id == member:
                monitor.avoid()

    def _healthy(self) -> list[RemoteNode]:
        return [
            monitor.node
            for monitor in self._monitors
            if monitor.healthy and monitor.node is not None
        ]


def _parse(place: str) -> tuple[str, str, str]:
    name, equals, rest = place.strip().partition("=")
    address, _, zone = rest.partition("/")
    host, colon, port = address.rpartition(":")
    if not (name and equals and host and colon and port.isdecimal() and 0 < int(port) < 65536):
        raise Refused(
            f"invalid storage node {place!r}: write name=host:port, or name=host:port/zone"
        )
    return name, address, zone
