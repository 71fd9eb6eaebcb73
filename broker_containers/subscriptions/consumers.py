"""The consumers of a subscription: their credit, and what they were given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from sulina.runtime.seam import Buffer


class ConsumerSink(Protocol):
    """The consumer's end of a connection, whichever door it came through."""

    def deliver(self, frame: Buffer, selection: int | None, attempt: int) -> bool:
        """Send a frame, or the selected part of it. False: no more until ``writable_again``."""
        ...

    def active_changed(self, active: bool) -> None:
        """Failover: this consumer receives from now on, or no longer."""
        ...

    def closed(self, reason: Exception) -> None:
        """The subscription lets the consumer go; nothing is delivered any more."""
        ...


@dataclass(slots=True, eq=False)
class AttachedConsumer:
    """One consumer, as the dispatcher sees it."""

    number: int
    name: str
    sink: ConsumerSink
    key_filters: tuple[str, ...] = ()
    records: int = 0
    """Credit in records; deliveries stop at zero or below."""
    bytes: int = 0
    """Credit in bytes; one frame may overshoot it."""
    writable: bool = True
    sent: int = 0
    """Records sent to it, ever."""
    returned: int = 0
    """Records whose credit came back: the application took them."""
    progress: float = 0.0
    """When it last returned credit or acknowledged something."""
    granted: int = field(default=0, repr=False)

    @property
    def can_take(self) -> bool:
        return self.records > 0 and self.bytes > 0 and self.writable

    def grant(self, records: int, bytes_: int, now: float) -> None:
        """More credit. What exceeds the first grant is credit for what the application took."""
        if self.granted == 0:
            self.granted = records
        else:
            self.returned += records
        self.records += records
        self.bytes += bytes_
        self.progress = now
