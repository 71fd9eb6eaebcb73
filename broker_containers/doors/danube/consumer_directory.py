"""What consumer is meant by a number, kept where every broker finds it.

A help for clients that come to another broker, or to one that restarted, with nothing but a number;
never needed by those who subscribe. So a failure to note one is not an error.
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
from sulina.names import TopicName
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_SECONDS: Final = 2.0
_TOPICS: Final = 65_536


class ConsumerDirectory:
    """The consumers that this broker noted, and those it was asked for."""

    def __init__(self, store: MetadataStore, clock: Clock, seconds: int) -> None:
        """``seconds``: for how long they are known when this broker is gone."""
        self._store = store
        self._clock = clock
        self._seconds = seconds
        self._lease: Lease | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._granting = asyncio.Lock()
        self._noted: dict[int, tuple[ConsumerRecord, int, int]] = {}
        """Number -> the record, the lease and the revision of it."""
        self._topics: OrderedDict[int, TopicName] = OrderedDict()

    async def note(self, number: int, record: ConsumerRecord) -> None:
        """Let others know a consumer of this broker, if they can be told."""
        noted = self._noted.get(number)
        alive = self._lease is not None and self._lease.alive()
        if alive and noted is not None and noted[:2] == (record, self._lease and self._lease.id):
            return
        try:
            await within(self._clock, _SECONDS, self._note(number, record))
        except (SulinaError, TimeoutError) as error:
            _log.info("consumer %d is known to this broker alone: %s", number, error)

    async def _note(self, number: int, record: ConsumerRecord) -> None:
        lease = await self._live_lease()
        try:
            revision = await danube_consumers.put(self._store, number, record, lease.id)
        except NotFound:
            self._lease = None  # gone before its time: the next consumer makes another
            raise
        self._noted[number] = record, lease.id, revision

    async def _live_lease(self) -> Lease:
        async with self._granting:
            if self._lease is None or not self._lease.alive():
                self._lease = await self._store.grant(self._seconds)
                if self._keeping is not None:
                    self._keeping.cancel()
                self._keeping = asyncio.create_task(keep(self._lease, self._clock))
            return self._lease

    async def find(self, number: int) -> ConsumerRecord | None:
        """Who that is. Raises ``Retriable`` if it can't be found out now."""
        try:
            found = await within(self._clock, _SECONDS, danube_consumers.get(self._store, number))
        except TimeoutError:
            raise Retriable("the metadata store does not answer: try again") from None
        if found is not None:
            self._topics[number] = TopicName.parse(found.topic)
            if len(self._topics) > _TOPICS:
                self._topics.popitem(last=False)
        return found

    async def topic_of(self, number: int) -> TopicName | None:
        """The topic it consumes, which never changes. Raises ``Retriable``."""
        if number not in self._topics:
            await self.find(number)
        return self._topics.get(number)

    async def forget(self, number: int) -> None:
        """A consumer is gone, unless it is with another broker by now."""
        self._topics.pop(number, None)
        noted = self._noted.pop(number, None)
        if noted is not None:
            try:
                await within(
                    self._clock,
                    _SECONDS,
                    danube_consumers.delete(self._store, number, noted[2]),
                )
            except (SulinaError, TimeoutError) as error:
                _log.info("consumer %d stays known until a lease runs out: %s", number, error)

    async def close(self) -> None:
        """Stop renewing. The lease stays: whoever comes next shall find the consumers."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait((self._keeping,))
