"""Keeps a broker registered in the cluster: ``/cluster/register/{broker}``, bound to its lease.

When the lease is lost, because the metadata store could not be reached or the broker was paused,
it registers anew; so it does when others have struck it out because they took it for dead. What it
serves goes on meanwhile: if others took topics over they have fenced them, and the owners' records,
which it follows, say so.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace

from sulina.errors import NotFound, Refused, Retriable, SulinaError, UnknownOutcome
from sulina.metadata.keys import record
from sulina.metadata.keys.members import BrokerRecord, check_broker_id, decode, register_key
from sulina.metadata.keys.path import part
from sulina.metadata.lease import RENEWALS_PER_TTL, Lease
from sulina.metadata.store import MetadataStore, ModRevisionIs, Put
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_PAUSE = 0.5
_GOODBYE_SECONDS = 2.0


class Membership:
    """Use as ``async with``: registered when entered; leaving it ends the lease at once."""

    def __init__(
        self, store: MetadataStore, clock: Clock, broker: str, me: BrokerRecord, ttl: int
    ) -> None:
        self._store = store
        self._clock = clock
        self.broker = check_broker_id(broker)
        self.me = me
        self._ttl = ttl
        self._lease: Lease | None = None
        self._task: asyncio.Task[None] | None = None
        self._struck = asyncio.Event()

    async def __aenter__(self) -> Membership:
        """Raises ``Refused`` if another broker with this id lives, at another address."""
        end = self._clock.now() + 2 * self._ttl + _GOODBYE_SECONDS
        while not await self._register():
            if self._clock.now() > end:
                raise Refused(
                    f"another broker called {self.broker!r} lives at another address: give each "
                    "broker its own --id"
                )
            await self._clock.sleep(_PAUSE)
        self._task = asyncio.create_task(self._keep(), name="membership")
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        lease, self._lease = self._lease, None
        if lease is not None:
            try:
                await within(self._clock, _GOODBYE_SECONDS, lease.revoke())
            except (SulinaError, TimeoutError) as error:
                _log.warning("the lease was not given back and will run out: %s", error)

    @property
    def lease(self) -> Lease | None:
        """The lease, if it is certainly still held."""
        return self._lease if self._lease is not None and self._lease.alive() else None

    async def leave(self) -> None:
        """Tell the others that this broker stops: they take its topics over, one by one."""
        self.me = replace(self.me, leaving=True)
        if self.lease is not None:
            await self._store.put(
                register_key(self.broker), record.encode(self.me), lease=self.lease.id
            )

    def changed(self, rest: str, found: BrokerRecord | None) -> None:
        """To be told of every registration that changed, or is gone."""
        if rest == part(self.broker) and found is None:
            self._struck.set()

    async def _register(self) -> bool:
        """False if somebody else has the name."""
        key = register_key(self.broker)
        present = await self._store.get(key)
        # Whoever was registered with this very address is gone: the address is ours now.
        if present is not None and decode(present).url != self.me.url:
            return False
        lease = await self._store.grant(self._ttl)
        result = await self._store.txn(
            [ModRevisionIs(key, 0 if present is None else present.mod_revision)],
            [Put(key, record.encode(self.me), lease.id)],
        )
        if not result.succeeded:
            await lease.revoke()
            return False
        self._lease = lease
        return True

    async def _look_again(self, lease: Lease) -> None:
        """The registration was told to be gone: give the lease up too if that is so."""
        self._struck.clear()
        try:
            present = await self._store.get(register_key(self.broker))
        except SulinaError:
            self._struck.set()
            raise
        # What was told may have been the end of a registration before this one.
        if present is None or present.lease != lease.id:
            await lease.revoke()

    async def _keep(self) -> None:
        while True:
            lease = self.lease
            try:
                if lease is None:
                    _log.warning("the registration of %s was lost, making it again", self.broker)
                    if not await self._register():
                        _log.error("another broker is registered as %s", self.broker)
                        await self._clock.sleep(_PAUSE)
                    continue
                if self._struck.is_set():
                    await self._look_again(lease)
                    continue
                with suppress(TimeoutError):
                    await within(self._clock, self._ttl / RENEWALS_PER_TTL, self._struck.wait())
                    continue
                await lease.keep_alive()
            except (Retriable, UnknownOutcome, NotFound) as error:
                # Not found: a lease that the store gave up while a request was on its way.
                _log.warning("the lease of %s was not renewed: %s", self.broker, error)
                await self._clock.sleep(_PAUSE)
