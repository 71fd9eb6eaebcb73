"""Stores changed cursors of all subscriptions of a broker periodically, many per transaction."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from broker_containers.subscriptions.subscription import Subscription
from broker_containers.topic_log.managed_ledger import ManagedLedger
from sulina.errors import SulinaError
from sulina.metadata.keys import cursors
from sulina.metadata.keys.cursors import CursorWrite
from sulina.metadata.store import MetadataStore
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)


class CursorWriter:
    """Stores changed cursors at an interval, and on demand."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        interval: float,
        subscriptions: Callable[[], Iterable[Subscription]],
    ) -> None:
        self._store = store
        self._clock = clock
        self.interval = interval
        """Seconds between flushes; a change applies after the current interval."""
        self._subscriptions = subscriptions
        self._flushing = asyncio.Lock()

    async def run(self) -> None:
        """Flush until cancelled. A failed flush is repeated with the next one."""
        while True:
            await self._clock.sleep(self.interval)
            try:
                await self.flush(self._subscriptions())
            except SulinaError as error:
                _log.warning("storing cursors failed; will retry: %s", error)

    async def flush(self, subscriptions: Iterable[Subscription]) -> None:
        """Store the cursors that changed; durable when this returns."""
        async with self._flushing:
            moved = [s for s in subscriptions if s.dirty and s.stored]
            now = self._clock.wall_us()
            writes: dict[Subscription, CursorWrite] = {}
            try:
                for subscription in moved:
                    subscription.dirty = False
                    writes[subscription] = _write(subscription, now)
                refused = await cursors.put_all(self._store, writes.values())
            except BaseException:
                # Also if cancelled: the broker flushes once more when it stops.
                for subscription in moved:
                    subscription.dirty = True
                raise
            for subscription, write in writes.items():
                # The topic rolled to a new ledger meanwhile, or has another owner: the next
                # flush succeeds or fails accordingly.
                if any(write is other for other in refused):
                    subscription.dirty = True


def _write(subscription: Subscription, now: int) -> CursorWrite:
    log = subscription.source.log
    assert isinstance(log, ManagedLedger)
    topic, cursor = subscription.source.name, subscription.cursor(now)
    return CursorWrite(topic, subscription.name, cursor, (log.guard,))
