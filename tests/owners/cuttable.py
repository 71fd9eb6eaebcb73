"""A broker's connection to the metadata store, which a test can cut."""

from __future__ import annotations

from collections.abc import Sequence

from sulina.errors import Unavailable
from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.lease import Lease
from sulina.metadata.store import Compare, KeyValue, Listing, Op, TxnResult
from sulina.runtime.seam import Clock
from tests.metadata.unreliable import UnreliableStore


class CuttableStore(UnreliableStore):
    """While ``cut``, nothing gets through: calls fail, watches are silent."""

    def __init__(self, store: EmbeddedStore, clock: Clock) -> None:
        super().__init__(store)
        self._embedded = store
        self._clock = clock
        self._cut = False

    def cut(self) -> None:
        """Let nothing through."""
        self._cut = self.deaf = True
        self.tell_only(0)

    def mend(self) -> None:
        """Let everything through again; watches restart."""
        self._cut = self.deaf = False
        self.lose_watches(Unavailable("the connection was lost"))

    def _check(self) -> None:
        if self._cut:
            raise Unavailable("the metadata store can't be reached")

    async def get(self, key: str) -> KeyValue | None:
        self._check()
        return await super().get(key)

    async def range(
        self,
        prefix: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        keys_only: bool = False,
    ) -> Listing:
        self._check()
        return await super().range(prefix, limit=limit, after=after, keys_only=keys_only)

    async def put(self, key: str, value: bytes, *, lease: int = 0) -> int:
        self._check()
        return await super().put(key, value, lease=lease)

    async def txn(
        self, compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op] = ()
    ) -> TxnResult:
        self._check()
        return await super().txn(compares, then, otherwise)

    async def grant(self, ttl_seconds: int) -> Lease:
        self._check()
        sent = self._clock.now()
        granted = await self._embedded.grant(ttl_seconds)
        return Lease(granted.id, granted.ttl, self, self._clock, sent)

    async def renew_lease(self, lease: int) -> bool:
        self._check()
        return await self._embedded.renew_lease(lease)

    async def revoke_lease(self, lease: int) -> None:
        self._check()
        await self._embedded.revoke_lease(lease)
