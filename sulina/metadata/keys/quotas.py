"""Quotas: ``/quotas/{scope}/{name}``, the limits of a namespace, a principal or a broker.

The name ``*`` holds the limits of every subject of its scope that does not set its own. A quota
outlives its subject: deleting a namespace and creating it again does not reset its limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Final

from sulina.errors import Refused
from sulina.metadata.keys import record
from sulina.metadata.keys.path import name_of, part
from sulina.metadata.store import MetadataStore

QUOTAS: Final = "/quotas/"
EVERY: Final = "*"
"""In place of a name: the limits of all that do not set their own."""


class QuotaScope(StrEnum):
    """What a quota limits."""

    NAMESPACE = "namespace"
    PRINCIPAL = "principal"
    BROKER = "broker"


class WhenFull(StrEnum):
    """What happens when a namespace reaches its stored bytes or its backlog."""

    REFUSE = "refuse"
    """Its producers are refused."""
    DROP_OLDEST = "drop_oldest"
    """Its oldest closed ledgers are dropped, consumed or not."""


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits of one subject. 0 is no limit; None leaves a limit to ``*`` or to the default."""

    topics: int | None = None
    partitions: int | None = None
    subscriptions: int | None = None
    schemas: int | None = None
    producers: int | None = None
    consumers: int | None = None
    connections: int | None = None
    publish_bytes: int | None = None
    """Per second, as are the next three."""
    publish_records: int | None = None
    dispatch_bytes: int | None = None
    dispatch_records: int | None = None
    stored_bytes: int | None = None
    backlog_bytes: int | None = None
    when_full: WhenFull | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and value < 0:
                raise Refused(f"{field.name} cannot be {value}: use 0 for no limit")

    def over(self, general: Quota) -> Quota:
        """``general`` with the limits that are set here in place of its own."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return replace(general, **{name: value for name, value in values if value is not None})


_NO_RATES: Final = Quota(publish_bytes=0, publish_records=0, dispatch_bytes=0, dispatch_records=0)
DEFAULTS: Final[Mapping[QuotaScope, Quota]] = {
    QuotaScope.NAMESPACE: replace(
        _NO_RATES,
        topics=1_000,
        partitions=4_096,
        subscriptions=2_000,
        producers=5_000,
        consumers=5_000,
        stored_bytes=0,
        backlog_bytes=0,
        when_full=WhenFull.REFUSE,
    ),
    QuotaScope.PRINCIPAL: replace(
        _NO_RATES,
        topics=0,
        partitions=0,
        subscriptions=0,
        schemas=0,
        producers=2_000,
        consumers=2_000,
        connections=1_000,
    ),
    QuotaScope.BROKER: replace(
        _NO_RATES, schemas=10_000, producers=50_000, consumers=50_000, connections=0
    ),
}
"""What applies where nothing is set. A limit that is None here does not exist in that scope."""
UNLIMITED: Final = replace(
    DEFAULTS[QuotaScope.NAMESPACE],
    topics=0,
    partitions=0,
    subscriptions=0,
    producers=0,
    consumers=0,
)
"""A namespace without limits."""


def key(scope: QuotaScope, name: str) -> str:
    """The key of a quota."""
    return f"{QUOTAS}{scope}/{part(name)}"


def subject_of(rest: str) -> tuple[QuotaScope, str]:
    """The scope and name of a key after its prefix. Raises ``ValueError`` for another key."""
    scope, _, name = rest.partition("/")
    return QuotaScope(scope), name_of(name)


async def update(
    store: MetadataStore, scope: QuotaScope, name: str, changes: Mapping[str, Any]
) -> Quota:
    """Set the limits in ``changes`` and keep the others; None unsets one. Returns what is set.

    Durable when it returns. Concurrent updates of different limits all take effect. Raises
    ``Refused`` for invalid limits, and ``Overloaded`` if others keep changing the same quota.
    """
    return await record.update(
        store, Quota, key(scope, name), lambda now: replace(now or Quota(), **changes)
    )
