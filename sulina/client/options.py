"""Validated settings of a client, a producer and a consumer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeVar

from sulina.errors import Refused
from sulina.model import Delivery, FailurePolicy, Start, SubscriptionType
from sulina.wire.compression import Compression, compress
from sulina.wire.limits import MAX_RECORDS

TokenSource = str | Callable[[], str | Awaitable[str]]
"""A token, or a function that returns one for each connection; it may be asynchronous."""
_E = TypeVar("_E", bound=Enum)
ORDERED_TYPES: Final = (SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER)
_QUEUE_RECORDS_ORDERED: Final = 50_000
_QUEUE_RECORDS_SHARED: Final = 1_000
_MOST_QUEUE_RECORDS: Final = 1 << 30


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise Refused(f"{name} must be greater than 0, not {value}")


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """See ``sulina.connect``."""

    name: str
    token: TokenSource = ""
    """Sent with each connection; a function is called for each connection."""
    connect_timeout: float = 10.0
    operation_timeout: float = 30.0
    reconnect_timeout: float = 300.0
    ping_interval: float = 3.0

    def __post_init__(self) -> None:
        _positive(
            connect_timeout=self.connect_timeout,
            operation_timeout=self.operation_timeout,
            reconnect_timeout=self.reconnect_timeout,
            ping_interval=self.ping_interval,
        )


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """See ``Client.producer``."""

    topic: str
    name: str
    delivery: Delivery | None
    exclusive: bool
    create: bool
    batch_bytes: int
    batch_records: int
    linger: float
    max_pending_bytes: int
    send_timeout: float
    compression: Compression
    schema_id: int
    schema_version: int
    subject: str = ""
    """The schema subject; the first producer that names one binds the topic to it."""

    def __post_init__(self) -> None:
        _positive(
            batch_bytes=self.batch_bytes,
            batch_records=self.batch_records,
            max_pending_bytes=self.max_pending_bytes,
            send_timeout=self.send_timeout,
        )
        if self.batch_records > MAX_RECORDS:
            raise Refused(f"batch_records must be at most {MAX_RECORDS}, not {self.batch_records}")
        if self.linger < 0:
            raise Refused("linger_ms cannot be negative: use 0 to send without waiting")
        if not 0 <= self.schema_id < 1 << 64 or not 0 <= self.schema_version < 1 << 32:
            raise Refused(
                "schema_id must be an unsigned 64-bit integer and schema_version a 32-bit one"
            )
        compress(self.compression, b"")  # fails here, not at a send, if the package is missing


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """See ``Client.consumer``."""

    topic: str
    subscription: str
    type: SubscriptionType
    start: Start
    name: str
    create: bool
    key_filters: tuple[str, ...]
    failure_policy: FailurePolicy | None
    queue_bytes: int
    queue_records: int

    def __post_init__(self) -> None:
        _positive(queue_bytes=self.queue_bytes, queue_records=self.queue_records)
        if self.queue_records > _MOST_QUEUE_RECORDS:
            raise Refused(f"queue_records must be at most {_MOST_QUEUE_RECORDS}")

    @property
    def ordered(self) -> bool:
        """Whether one consumer receives everything in order, so that acks can be cumulative."""
        return self.type in ORDERED_TYPES


def default_queue_records(type_: SubscriptionType) -> int:
    """Few for shared types: another consumer could process what is buffered here."""
    return _QUEUE_RECORDS_ORDERED if type_ in ORDERED_TYPES else _QUEUE_RECORDS_SHARED


def choice(kind: type[_E], what: str, value: str) -> _E:
    """The member of ``kind`` with this name, such as ``zstd``. Raises ``Refused`` for any other."""
    try:
        return kind[str(value).upper()]
    except KeyError:
        names = ", ".join(member.name.lower() for member in kind)
        raise Refused(f"{what} must be one of {names}, not {value!r}") from None
