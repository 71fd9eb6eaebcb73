"""The consumers of a subscription: their credit, and what they were sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from broker_containers.quotas.quotas import Held
from broker_containers.topic_log.tail_cache import CachedFrame


class ConsumerSink(Protocol):
    """The consumer's connection, over any protocol."""

    def deliver(self, frame: CachedFrame, selection: int | None, attempt: int) -> bool:
        """Send a frame or the selected part of it. False: send no more until it is writable."""
        ...

    def active_changed(self, active: bool) -> None:
        """Failover: this consumer became active, or is no longer."""
        ...

    def closed(self, reason: Exception) -> None:
        """The subscription disconnects the consumer; nothing more is delivered."""
        ...


@dataclass(slots=True, eq=False)
class AttachedConsumer:
    """One consumer of a subscription."""

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
    """Records sent to it in total."""
    returned: int = 0
    """Records whose credit was returned: the application received them."""
    progress: float = 0.0
    """When it last returned credit or acknowledged something."""
    granted: int = field(default=0, repr=False)
    held: Held | None = field(default=None, repr=False)
    """Its share of the quotas, released when it leaves."""

    @property
    def can_take(self) -> bool:
        return self.records > 0 and self.bytes > 0 and self.writable

    def grant(self, records: int, bytes_: int, now: float) -> None:
        """Add credit. After the first grant, credit means that the application received records."""
        if self.granted == 0:
            self.granted = records
        else:
            self.returned += records
        self.records += records
        self.bytes += bytes_
        self.progress = now
