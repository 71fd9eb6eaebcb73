"""Types of the keyword arguments of a client's producers, consumers and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from sulina.model import Delivery, FailurePolicy, Start, SubscriptionType


class ProducerArguments(TypedDict, total=False):
    """Options of ``Client.producer``."""

    name: str | None
    delivery: Delivery | str | None
    exclusive: bool
    create: bool
    batch_bytes: int
    batch_records: int
    linger_ms: float
    max_pending_bytes: int
    send_timeout: float
    compression: str
    schema_id: int
    schema_version: int


class ConsumerArguments(TypedDict, total=False):
    """Options of ``Client.consumer``."""

    type: SubscriptionType | str
    start: Start
    name: str | None
    create: bool
    key_filters: Sequence[str]
    failure_policy: FailurePolicy | None
    queue_bytes: int
    queue_records: int | None


class TableArguments(TypedDict, total=False):
    """Options of ``Client.table``."""

    create: bool
    wait: bool
    max_bytes: int
    poll_seconds: float
