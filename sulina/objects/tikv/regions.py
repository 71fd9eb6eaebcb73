"""Where keys are: the regions of a cluster, remembered, and asked for again when they moved."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from google.protobuf.message import Message

from sulina.objects.tikv import messages_pb2 as pb
from sulina.objects.tikv.failures import LinkFailure, RegionFailure, of_region
from sulina.objects.tikv.keys import decoded, encoded
from sulina.objects.tikv.links import Links
from sulina.objects.tikv.patience import Patience
from sulina.objects.tikv.placement import Placement
from sulina.runtime.seam import Clock, Randomness

_MAX_REGIONS: Final = 20_000
"""Remembered; beyond that all are forgotten."""
_CONCURRENCY: Final = 4
"""Requests that one operation has in flight."""
_MAX_ITEMS: Final = 256
"""In one request."""


_Answer = TypeVar("_Answer", bound=Message)
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Region:
    """A range of encoded keys, and who leads it. An empty ``end`` means no end."""

    id: int
    start: bytes
    end: bytes
    conf_ver: int
    version: int
    leader: int
    store: int

    def holds(self, key: bytes) -> bool:
        """Whether the encoded key is in the region."""
        return self.start <= key and (not self.end or key < self.end)

    def cut(self, end: bytes) -> bytes:
        """``end`` of a range (not encoded), or the end of the region if that comes before."""
        return min(end, self.next_key or end)

    @property
    def next_key(self) -> bytes | None:
        """The first key, not encoded, of the region after this one; None if this is the last."""
        return decoded(self.end) if self.end else None


class RegionCache:
    """Regions in the order of their keys, none of which overlap."""

    def __init__(self) -> None:
        self._starts: list[bytes] = []
        self._regions: dict[bytes, Region] = {}

    def find(self, key: bytes) -> Region | None:
        """The region of an encoded key, if it is known."""
        at = bisect_right(self._starts, key) - 1
        found = self._regions[self._starts[at]] if at >= 0 else None
        return found if found is not None and found.holds(key) else None

    def add(self, region: Region) -> None:
        """Remember a region instead of those that it overlaps."""
        if len(self._starts) >= _MAX_REGIONS:
            self._starts, self._regions = [], {}
        kept = [
            start
            for start in self._starts
            if (end := self._regions[start].end) and end <= region.start
        ]
        before = len(kept)
        if region.end:
            kept += [start for start in self._starts[before:] if start >= region.end]
        kept.insert(before, region.start)
        self._regions = {start: self._regions[start] for start in kept if start != region.start}
        self._regions[region.start] = region
        self._starts = kept

    def drop(self, region: Region) -> None:
        """Forget a region, unless a newer one is known."""
        if self._regions.get(region.start) == region:
            del self._regions[region.start]
            self._starts.remove(region.start)


class Regions:
    """Sends requests to the leaders of regions.

    Every call may raise ``TemporaryFailure`` after a bounded number of repetitions, and the final
    errors of ``failures``.
    """

    def __init__(
        self, placement: Placement, links: Links, clock: Clock, random: Randomness
    ) -> None:
        self._placement = placement
        self._links = links
        self._clock = clock
        self._random = random
        self._cache = RegionCache()
        self._addresses: dict[int, str] = {}

    def patience(self) -> Patience:
        """Pauses between repetitions."""
        return Patience(self._clock, self._random)

    async def find(self, key: bytes) -> Region:
        """The region of a key (not encoded)."""
        wanted = encoded(key)
        found = self._cache.find(wanted)
        if found is None:
            meta, leader = await self._placement.region(wanted)
            epoch = meta.region_epoch
            found = Region(
                meta.id,
                meta.start_key,
                meta.end_key,
                epoch.conf_ver,
                epoch.version,
                leader.id,
                leader.store_id,
            )
            self._cache.add(found)
        return found

    async def at(self, key: bytes, send: Callable[[Region], Awaitable[_Item]]) -> _Item:
        """The result of ``send`` for the region of ``key``, repeated while the region moves."""
        patience = self.patience()
        while True:
            try:
                return await send(await self.find(key))
            except RegionFailure as failure:
                await patience.pause(failure, failure.pause)

    async def each(
        self,
        items: Sequence[_Item],
        key_of: Callable[[_Item], bytes],
        size_of: Callable[[_Item], int],
        most_bytes: int,
        send: Callable[[Region, Sequence[_Item]], Awaitable[None]],
    ) -> None:
        """Call ``send`` for all items, those of one region together, at most ``most_bytes`` at once
        unless one item is larger. Several calls run concurrently. Those that fail because a region
        moved are repeated; the first other error is raised, after the others were cancelled."""
        patience, slots = self.patience(), asyncio.Semaphore(_CONCURRENCY)
        pending = list(items)
        while pending:
            failed: list[_Item] = []
            failures: list[RegionFailure] = []

            async def run(
                region: Region,
                batch: Sequence[_Item],
                failed: list[_Item] = failed,
                failures: list[RegionFailure] = failures,
            ) -> None:
                async with slots:
                    try:
                        await send(region, batch)
                    except RegionFailure as failure:
                        failures.append(failure)
                        failed.extend(batch)

            groups = dict[Region, list[_Item]]()
            for item in pending:
                groups.setdefault(await self.find(key_of(item)), []).append(item)
            try:
                async with asyncio.TaskGroup() as running:
                    for region, group in groups.items():
                        for batch in _batches(group, size_of, most_bytes):
                            running.create_task(run(region, batch))
            except BaseExceptionGroup as group_error:
                raise group_error.exceptions[0] from None
            pending = failed
            if failures:
                await patience.pause(failures[0], max(each.pause for each in failures))

    async def ask(
        self, region: Region, path: str, request: Message, answer: type[_Answer]
    ) -> _Answer:
        """Send one request to the region's leader.

        Raises ``RegionFailure`` if it must be sent again, perhaps elsewhere.
        """
        context: pb.Context = request.context  # type: ignore[attr-defined]
        context.region_id = region.id
        context.region_epoch.conf_ver = region.conf_ver
        context.region_epoch.version = region.version
        context.peer.id, context.peer.store_id = region.leader, region.store
        try:
            found = await self._links.ask(await self._address(region), path, request, answer)
        except LinkFailure as failure:
            # The store may be gone, or have another address: look both up again.
            self._cache.drop(region)
            self._addresses.pop(region.store, None)
            raise RegionFailure(str(failure), stale=True) from None
        if found.HasField("region_error"):
            raise self._moved(region, found.region_error)  # type: ignore[attr-defined]
        return found

    def _moved(self, region: Region, error: pb.RegionError) -> Exception:
        failure = of_region(error)
        if isinstance(failure, RegionFailure) and failure.stale:
            self._cache.drop(region)
            leader = error.not_leader.leader
            if leader.id:  # the follower knows who leads
                self._cache.add(replace(region, leader=leader.id, store=leader.store_id))
            if error.HasField("store_not_match"):
                self._addresses.pop(region.store, None)
        return failure

    async def _address(self, region: Region) -> str:
        found = self._addresses.get(region.store)
        if found is None:
            found = await self._placement.store_address(region.store)
            self._addresses[region.store] = found
        return found


def _batches(
    items: Sequence[_Item], size_of: Callable[[_Item], int], most_bytes: int
) -> list[list[_Item]]:
    """``items`` cut into batches of at most ``most_bytes`` and 256 items."""
    batches, room = list[list[_Item]](), 0
    for item in items:
        size = size_of(item)
        if not batches or size > room or len(batches[-1]) == _MAX_ITEMS:
            batches.append([])
            room = most_bytes
        batches[-1].append(item)
        room -= size
    return batches
