"""Entries for an object from wherever they are: this node first, then those that should have them.

A node may lack entries of a ledger: it was replaced in the ensemble, or lost some. Copies of an
entry are equal, and each is checked on its way, so any of them will do.
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
    """Another node, as a broker knows it."""

    address: str
    incarnation: str


class Links:
    """Connections of a node to others, made when they are needed. ``close`` them."""

    def __init__(self, settings: RemoteSettings) -> None:
        self._settings = settings
        self._links: dict[str, Link] = {}

    def to(self, address: str) -> Link:
        """The connection to an address; there is one for each node of the cluster at most."""
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = Link(address, self._settings)
        return link

    async def close(self) -> None:
        """End them all."""
        await asyncio.gather(*(link.close() for link in self._links.values()))
        self._links.clear()


class GatheredEntries:
    """The entries of one ledger: ``EntrySource`` of an offload."""

    def __init__(
        self,
        node: Node,
        links: Links,
        holders: Sequence[tuple[int, Sequence[str]]],
        peers: Mapping[str, PeerNode],
        seconds: float,
    ) -> None:
        """``holders`` are the members that have the entries from each first one on."""
        self._node = node
        self._links = links
        self._holders = holders
        self._peers = peers
        self._seconds = seconds

    async def read(
        self, ledger: int, first: int, *, max_entries: int, max_bytes: int
    ) -> list[Entry]:
        """Consecutive entries from ``first`` on. Raises ``Unavailable`` if nobody has it."""
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
        raise Unavailable(f"entry {first} of ledger {ledger} can't be read anywhere now ({why})")

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
            raise UnknownOutcome(f"{peer.address} was not understood: {damaged}") from None
        return [Entry(e.ledger, e.entry, e.lac, e.payload) for e in found]
