"""Reads the entries of an offload from this node, or from others that should have them.

A node may lack entries of a ledger: it was replaced in the ensemble, or lost some. All copies of an
entry are equal and are verified in transit, so any copy will do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from storage_grpc import storage_pb2 as pb
from storage_grpc.entries import Entry
from storage_grpc.node import Node
from storage_grpc.remote.link import Link
from storage_grpc.remote.settings import RemoteSettings
from storage_grpc.remote.wire.layout import DamagedMessage, unpack_entries
from sulina.errors import SulinaError, Unavailable, UnknownOutcome


@dataclass(frozen=True, slots=True)
class PeerNode:
    """Another node: where it is, and which incarnation is expected."""

    address: str
    incarnation: str


class Links:
    """Connections to other nodes, created on first use. ``close`` them."""

    def __init__(self, settings: RemoteSettings) -> None:
        self._settings = settings
        self._links: dict[str, Link] = {}

    def to(self, address: str) -> Link:
        """The connection to an address; at most one per node of the cluster."""
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = Link(address, self._settings)
        return link

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(link.close() for link in self._links.values()))
        self._links.clear()


class GatheredEntries:
    """``EntrySource`` of one offload."""

    def __init__(
        self,
        node: Node,
        links: Links,
        holders: Sequence[tuple[int, Sequence[str]]],
        peers: Mapping[str, PeerNode],
        seconds: float,
    ) -> None:
        """``holders``: from which entry on, and the members that have the entries from there."""
        self._node = node
        self._links = links
        self._holders = holders
        self._peers = peers
        self._seconds = seconds

    async def read(
        self, ledger: int, first: int, *, max_entries: int, max_bytes: int
    ) -> list[Entry]:
        """See ``EntrySource.read``. Raises ``Unavailable`` if no node returns the entry."""
        errors: list[SulinaError] = []
        try:
            return await self._node.read(
                ledger, first, max_entries=max_entries, max_bytes=max_bytes
            )
        except SulinaError as error:
            errors.append(error)
        ends = [start for start, _ in self._holders if start > first]
        request = pb.ReadRequest(
            ledger=ledger,
            first=first,
            max_entries=min([max_entries, *(end - first for end in ends)]),
            max_bytes=max_bytes,
        )
        for member in self._members(first):
            peer = self._peers.get(member)
            if peer is not None:
                try:
                    return await self._ask(peer, request)
                except SulinaError as error:
                    errors.append(error)
        why = "; ".join(map(str, errors))
        raise Unavailable(
            f"no node can read entry {first} of ledger {ledger}, try again later ({why})"
        )

    def _members(self, entry: int) -> Sequence[str]:
        found = [members for start, members in self._holders if start <= entry]
        return found[-1] if found else ()

    async def _ask(self, peer: PeerNode, request: pb.ReadRequest) -> list[Entry]:
        link = self._links.to(peer.address)
        await link.renew()
        message = await link.ask_raw("Read", request, peer.incarnation, self._seconds)
        try:
            found = unpack_entries(message)
        except DamagedMessage as damaged:
            raise UnknownOutcome(f"the answer of {peer.address} is damaged: {damaged}") from None
        return [Entry(e.ledger, e.entry, e.lac, e.payload) for e in found]
