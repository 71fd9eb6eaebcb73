"""Keeps a broker registered in the cluster: ``/cluster/register/{broker}``, bound to its lease.

It registers again when the lease is lost, because the metadata store was unreachable or the broker
was paused, and when other brokers removed it because they considered it dead. It keeps serving
meanwhile: if others took over topics, they fenced them, and the owners' records show it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace

from sulina.errors import NotFound, Refused, Retriable, SulinaError, UnknownOutcome
from sulina.metadata import cas
from sulina.metadata.keys import record
from sulina.metadata.keys.members import BrokerRecord, check_broker_id, decode, register_key
from sulina.metadata.keys.path import part
from sulina.metadata.lease import RENEWALS_PER_TTL, Lease
from sulina.metadata.store import MetadataStore, ModRevisionIs, Put
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_PAUSE = 0.5
_STOP_SECONDS = 2.0
_ANSWER_SECONDS = 1.0
"""A metadata store that takes longer to answer counts as unreachable."""


class Membership:
    """Use as ``async with``: registered when entered; leaving it revokes the lease."""

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
        self._removed = asyncio.Event()

    async def __aenter__(self) -> Membership:
        """Raises ``Refused`` if a broker with this id is registered at another address."""
        end = self._clock.now() + 2 * self._ttl + _STOP_SECONDS
        while not await self._register():
            if self._clock.now() > end:
                raise Refused(
                    f"another broker called {self.broker!r} is registered at another address: give "
                    "each broker its own --id"
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
                await within(self._clock, _STOP_SECONDS, lease.revoke())
            except (SulinaError, TimeoutError) as error:
                _log.warning("revoking the lease failed; it will expire: %s", error)

    @property
    def lease(self) -> Lease | None:
        """The lease, if it is certainly still valid."""
        return self._lease if self._lease is not None and self._lease.alive() else None

    async def in_touch(self) -> bool:
        """Whether this broker is registered and the store answers now.

        A lease alone does not say so: it outlives the connection by up to its whole time.
        """
        try:
            await within(self._clock, _ANSWER_SECONDS, self._store.get(register_key(self.broker)))
        except (SulinaError, TimeoutError):
            return False
        return self.lease is not None

    async def leave(self) -> None:
        """Announce that this broker stops: the others take over its topics, one by one."""
        self.me = replace(self.me, leaving=True)
        key, lease = register_key(self.broker), self.lease
        present = await self._store.get(key)
        if lease is not None and present is not None and present.lease == lease.id:
            value = record.encode(self.me)
            await cas.swap(self._store, key, present.mod_revision, value, lease=lease.id)

    def changed(self, rest: str, found: BrokerRecord | None) -> None:
        """Call it for every registration that changed or was removed."""
        if rest == part(self.broker) and found is None:
            self._removed.set()

    async def _register(self) -> bool:
        """False if another broker has the id."""
        key = register_key(self.broker)
        present = await self._store.get(key)
        # A previous registration with our own address is obsolete: the address is ours now.
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
        """The registration seems to be gone: if so, revoke the lease as well."""
        self._removed.clear()
        try:
            present = await self._store.get(register_key(self.broker))
        except SulinaError:
            self._removed.set()
            raise
        # The notification may be about an earlier registration.
        if present is None or present.lease != lease.id:
            await lease.revoke()

    async def _keep(self) -> None:
        while True:
            lease = self.lease
            try:
                if lease is None:
                    _log.warning("the registration of %s was lost; registering again", self.broker)
                    if not await self._register():
                        _log.error("another broker is registered as %s", self.broker)
                        await self._clock.sleep(_PAUSE)
                    continue
                if self._removed.is_set():
                    await self._look_again(lease)
                    continue
                with suppress(TimeoutError):
                    await within(self._clock, self._ttl / RENEWALS_PER_TTL, self._removed.wait())
                    continue
                await lease.keep_alive()
            except (Retriable, UnknownOutcome, NotFound) as error:
                # Not found: the lease expired while a request was in progress.
                _log.warning("renewing the lease of %s failed: %s", self.broker, error)
                await self._clock.sleep(_PAUSE)
