"""``MetadataStore`` on etcd. The semantics are etcd's own.

Reads are linearizable and move from member to member until one answers. A write that was sent but
not answered raises ``UnknownOutcome``. An answer older than one already seen is rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from sulina.errors import Closed, NotFound, Refused
from sulina.metadata import check
from sulina.metadata.etcd.codec import EtcdCodec, deleted_by, revision_of
from sulina.metadata.etcd.failures import RevisionGone
from sulina.metadata.etcd.gateway import EtcdGateway
from sulina.metadata.etcd.listing import list_keys
from sulina.metadata.etcd.settings import EtcdSettings
from sulina.metadata.etcd.watch import EtcdWatch
from sulina.metadata.lease import Lease
from sulina.metadata.store import Compare, Get, GetPrefix, KeyValue, Listing, Op, Put, TxnResult
from sulina.runtime.seam import Clock


class EtcdStore:
    """A ``MetadataStore``, and the ``LeaseKeeper`` of its leases. Create it with ``open``."""

    def __init__(self, settings: EtcdSettings, gateway: EtcdGateway) -> None:
        self._settings = settings
        self._gateway = gateway
        self._codec = EtcdCodec(settings.root)
        self._watches: set[EtcdWatch] = set()

    @classmethod
    async def open(cls, settings: EtcdSettings, clock: Clock) -> Self:
        """A store that connects at the first call, so etcd may start later.

        Raises ``Refused`` if the TLS files cannot be read.
        """
        return cls(settings, EtcdGateway(settings, clock))

    async def silent_members(self) -> Sequence[str]:
        """The members that do not answer within a second, as ``host:port``."""
        self._gateway.check_open()
        return await self._gateway.silent_members()

    async def get(self, key: str) -> KeyValue | None:
        self._gateway.check_open()
        check.check_key(key)
        answer = await self._gateway.call("/kv/range", self._codec.one(key), repeatable=True)
        found = self._codec.items(answer.body)
        return found[0] if found else None

    async def range(
        self,
        prefix: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        keys_only: bool = False,
    ) -> Listing:
        self._gateway.check_open()
        check.check_range(prefix, after, limit)
        return await list_keys(
            self._gateway, self._codec, prefix, limit=limit, after=after, keys_only=keys_only
        )

    async def put(self, key: str, value: bytes, *, lease: int = 0) -> int:
        self._gateway.check_open()
        op = Put(key, value, lease)
        check.check_txn((), (op,), ())
        answer = await self._gateway.call("/kv/put", self._codec.put(op), repeatable=False)
        return revision_of(answer.body)

    async def delete(self, key: str) -> bool:
        self._gateway.check_open()
        check.check_key(key)
        request = self._codec.one(key)
        answer = await self._gateway.call("/kv/deleterange", request, repeatable=False)
        return deleted_by(answer.body) > 0

    async def txn(
        self, compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op] = ()
    ) -> TxnResult:
        self._gateway.check_open()
        check.check_txn(compares, then, otherwise)
        reads_only = all(isinstance(op, Get | GetPrefix) for op in (*then, *otherwise))
        request = self._codec.txn(compares, then, otherwise)
        answer = await self._gateway.call("/kv/txn", request, repeatable=reads_only)
        return self._codec.txn_result(answer.body, then, otherwise)

    async def grant(self, ttl_seconds: int) -> Lease:
        """A new lease. With its default election timeout, etcd grants at least 2 seconds."""
        self._gateway.check_open()
        check.check_ttl(ttl_seconds)
        # A lease whose grant was not answered expires by itself, so a retry is safe.
        request = {"TTL": str(ttl_seconds)}
        answer = await self._gateway.call("/lease/grant", request, repeatable=True)
        lease, ttl = int(answer.body["ID"]), int(answer.body["TTL"])
        return Lease(lease, ttl, self, self._gateway.clock, answer.sent)

    async def renew_lease(self, lease: int) -> bool:
        for _ in range(2):  # a leader that has not applied the grant yet answers 0
            request = {"ID": str(lease)}
            answer = await self._gateway.call("/lease/keepalive", request, repeatable=True)
            if int(answer.body.get("TTL", 0)) > 0:
                return True
        return False

    async def revoke_lease(self, lease: int) -> None:
        try:
            await self._gateway.call("/lease/revoke", {"ID": str(lease)}, repeatable=True)
        except NotFound:
            return

    def watch(self, prefix: str, *, from_revision: int) -> EtcdWatch:
        """Changes of keys that start with ``prefix``, from ``from_revision`` on.

        It continues through any outage of etcd. It raises ``Compacted`` and ``Closed`` like every
        watch; ``Unavailable`` if every member is behind what this process has seen; ``Refused`` if
        the user may not watch, or if TLS connections fail.
        """
        self._gateway.check_open()
        check.check_prefix(prefix)
        check.check_from_revision(from_revision)
        watch = EtcdWatch(
            self._gateway,
            self._codec,
            self._settings,
            prefix,
            from_revision,
            self._watches.discard,
        )
        self._watches.add(watch)
        return watch

    async def compact(self, revision: int) -> None:
        """Discard the history before ``revision``; does nothing if that is discarded already."""
        now = (await self.range("/", limit=1, keys_only=True)).revision
        if revision > now:
            raise Refused(f"revision {revision} does not exist yet: the store is at {now}")
        # etcd also discards deletions made by the given revision itself; ours must stay.
        if revision < 2:
            return
        request = {"revision": str(revision - 1)}
        try:
            await self._gateway.call("/kv/compaction", request, repeatable=True)
        except RevisionGone:
            return

    async def close(self) -> None:
        for watch in tuple(self._watches):
            await watch.end(Closed("the metadata store is closed"))
        await self._gateway.close()
