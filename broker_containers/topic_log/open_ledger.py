"""The ledger being written, with its totals so far."""

from __future__ import annotations

from dataclasses import replace

from sulina.metadata.keys.ledgers import LedgerRef
from sulina.wire.header import FrameHeader


class OpenLedger:
    """Mutable, because it changes twice per frame."""

    __slots__ = ("_begun", "_first_time_us", "_last_time_us", "bytes")

    def __init__(self, begun: LedgerRef) -> None:
        self._begun = begun
        self._first_time_us = begun.first_time_us
        self._last_time_us = begun.last_time_us
        self.bytes = begun.bytes
        """Bytes of all frames written, confirmed or not."""

    @property
    def id(self) -> int:
        return self._begun.id

    @property
    def ref(self) -> LedgerRef:
        """Its current record."""
        return replace(
            self._begun,
            bytes=self.bytes,
            first_time_us=self._first_time_us,
            last_time_us=self._last_time_us,
        )

    def confirmed(self, header: FrameHeader) -> None:
        """A frame is durable: count its times."""
        self._first_time_us = self._first_time_us or header.first_time
        self._last_time_us = max(self._last_time_us, header.last_time)
