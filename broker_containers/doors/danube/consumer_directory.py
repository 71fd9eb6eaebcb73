"""Maps consumer numbers to consumers, in the metadata store where every broker can read them.

Clients that reconnect to another broker, or to a restarted one, send only their number. Clients
that subscribe again do not need this, so failing to store an entry is not an error.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import Final

from sulina.errors import NotFound, Retriable, SulinaError
from sulina.metadata.keys import danube_consumers
from sulina.metadata.keys.danube_consumers import ConsumerRecord
from sulina.metadata.lease import Lease, keep
from sulina.metadata.store import MetadataStore
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_SECONDS: Final = 2.0
_LEASE_SECONDS: Final = 600
"""How long entries outlive their broker."""
_MOST_READ: Final = 65_536


class ConsumerDirectory:
    """The entries that this broker wrote, and a cache of those it read."""

    def __init__(self, store: MetadataStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lease: Lease | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._granting = asyncio.Lock()
        self._noted: dict[int, tuple[ConsumerRecord, int, int]] = {}
        """Number -> the record, the lease and the revision of it."""
        self._read: OrderedDict[int, ConsumerRecord] = OrderedDict()

    async def note(self, number: int, record: ConsumerRecord) -> None:
        """Store the entry of a consumer of this broker; failures are logged only."""
        noted = self._noted.get(number)
        alive = self._lease is not None and self._lease.alive()
        if alive and noted is not None and noted[:2] == (record, self._lease and self._lease.id):
            return
        try:
            await within(self._clock, _SECONDS, self._note(number, record))
        except (SulinaError, TimeoutError) as error:
            _log.info("consumer %d could not be stored for other brokers: %s", number, error)

    async def _note(self, number: int, record: ConsumerRecord) -> None:
        lease = await self._live_lease()
        try:
            revision = await danube_consumers.put(self._store, number, record, lease.id)
        except NotFound:
            self._lease = None  # expired early: the next consumer gets a new one
            raise
        self._noted[number] = record, lease.id, revision

    async def _live_lease(self) -> Lease:
        async with self._granting:
            if self._lease is None or not self._lease.alive():
                self._lease = await self._store.grant(_LEASE_SECONDS)
                if self._keeping is not None:
                    self._keeping.cancel()
                self._keeping = asyncio.create_task(keep(self._lease, self._clock))
            return self._lease

    async def find(self, number: int) -> ConsumerRecord | None:
        """The consumer with this number, or None. Raises ``Retriable``."""
        try:
            found = await within(self._clock, _SECONDS, danube_consumers.get(self._store, number))
        except TimeoutError:
            raise Retriable("the metadata store does not answer: try again") from None
        if found is not None:
            self._read[number] = found
            if len(self._read) > _MOST_READ:
                self._read.popitem(last=False)
        return found

    async def record_of(self, number: int) -> ConsumerRecord | None:
        """As ``find``, from memory if possible: topic and subscription never change."""
        return self._read.get(number) or await self.find(number)

    async def forget(self, number: int) -> None:
        """Delete an entry, unless another broker has replaced it."""
        self._read.pop(number, None)
        noted = self._noted.pop(number, None)
        if noted is not None:
            try:
                await within(
                    self._clock,
                    _SECONDS,
                    danube_consumers.delete(self._store, number, noted[2]),
                )
            except (SulinaError, TimeoutError) as error:
                _log.info("consumer %d stays stored until its lease expires: %s", number, error)

    async def close(self) -> None:
        """Stop renewing the lease, but keep it: the next owners need the entries for a while."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait((self._keeping,))
