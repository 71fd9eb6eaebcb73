"""What can be set about the work of the cold tier."""

from __future__ import annotations

from dataclasses import dataclass

from sulina.errors import Refused


@dataclass(frozen=True, slots=True)
class TierSettings:
    """Bounds of whoever reads and writes objects: a storage node, or a broker that is alone."""

    offloads: int = 2
    """Ledgers that become objects at the same time; further ones wait."""
    waiting: int = 64
    """How many may wait; beyond, an offload fails with ``Overloaded``."""
    read_bytes: int = 4 << 20
    """Entries read at once for an object."""
    row_group_bytes: int = 16 << 20
    """Bytes of frames in a row group: what a replay fetches at once."""
    cache_bytes: int = 128 << 20
    """Frames of objects kept in memory for those who replay."""
    fetches: int = 8
    """Row groups that are fetched at the same time."""
    ahead: int = 2
    """Row groups that are fetched before a replay asks for them: one is on its way while the one
    before it is decoded."""
    footers: int = 4096
    """Objects whose footer is kept in memory."""

    def __post_init__(self) -> None:
        if min(self.offloads, self.fetches, self.footers, self.read_bytes) < 1:
            raise Refused("offloads, fetches, footers and read_bytes must be at least 1")
