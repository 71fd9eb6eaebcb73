"""Limits of topics: the brokers' settings have them for all, a namespace or a topic its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from sulina.errors import Refused

_FRESHEST_MS: Final = 1000
"""Each time that an object becomes fresh costs a few changes of the metadata."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits in force. 0 is no limit."""

    max_producers_per_topic: int = 0
    max_subscriptions_per_topic: int = 0
    max_consumers_per_topic: int = 0
    max_consumers_per_subscription: int = 0
    max_message_size: int = 10 * 1024 * 1024
    retention_ms: int = 0
    """Records older than this may be deleted, consumed or not."""
    retention_bytes: int = 0
    """A topic's oldest records beyond this size may be deleted, consumed or not."""
    delete_consumed: bool = False
    """Records that every subscription has acknowledged may be deleted."""
    ttl_ms: int = 0
    """No subscription delivers a record this long after it was published, or due if delayed."""
    local_retention_ms: int = 0
    """Entries of tiered ledgers that are older may be deleted; 0: as the brokers' settings say."""
    local_retention_bytes: int = 0
    """This much of the newest data stays as entries, too; 0: as the brokers' settings say."""
    local_delete_consumed: bool = False
    """Entries of tiered ledgers that every subscription has acknowledged may be deleted."""
    backlog_bytes: int = 0
    """How far, in bytes, the slowest subscription may be behind."""
    backlog_drop_oldest: bool = False
    """Beyond that, the oldest records are deleted; otherwise producers are refused."""
    delete_unused_ms: int = 0
    """A topic that nobody used for this long may be deleted with its data."""
    compact: bool = False
    """Of tiered records with the same key, only the newest is kept."""
    tombstone_retention_ms: int = 86_400_000
    """How long compaction keeps tombstones after it has removed what they delete; 0 keeps them for
    good."""
    freshness_ms: int = 0
    """Records are to be in an object so soon after they were published; 0: as the brokers' settings
    say."""
    merge_bytes: int = 0
    """Small objects are merged up to this size; 0: as the brokers' settings say, and with
    ``freshness_ms`` up to 128 MiB if they say nothing."""

    def __post_init__(self) -> None:
        _check(self)

    @property
    def deletes(self) -> bool:
        """Whether it ever deletes anything of a topic that nobody uses."""
        limits = self.retention_ms, self.retention_bytes, self.delete_unused_ms
        return self.delete_consumed or any(limits)

    def with_changes(self, changes: Mapping[str, Any]) -> Policy:
        """A copy with the limits in ``changes`` replaced. Raises ``Refused`` for invalid ones."""
        return replace(self, **_checked(changes, nullable=False))


@dataclass(frozen=True, slots=True)
class NamespacePolicy(Policy):
    """The limits of a namespace, as they are stored, and which of them it sets itself."""

    own: tuple[str, ...] = ()
    """Earlier versions did not store it: what differs from the defaults is the namespace's too."""

    def changed(self, changes: Mapping[str, Any]) -> NamespacePolicy:
        """A copy with the limits in ``changes``, which are the namespace's own from now on.

        None leaves a limit to the brokers' settings. Raises ``Refused`` for invalid ones.
        """
        checked = _checked(changes, nullable=True)
        own = (set(self.own) | checked.keys()) - {n for n, v in checked.items() if v is None}
        defaults = Policy()
        values = {n: getattr(defaults, n) if v is None else v for n, v in checked.items()}
        return replace(self, **values, own=tuple(sorted(own)))

    @property
    def overrides(self) -> PolicyOverrides:
        """What it sets itself."""
        defaults = Policy()
        values = {field.name: getattr(self, field.name) for field in fields(Policy)}
        return PolicyOverrides(
            **{
                name: value
                for name, value in values.items()
                if name in self.own or value != getattr(defaults, name)
            }
        )


@dataclass(frozen=True, slots=True)
class PolicyOverrides:
    """The limits that a topic or namespace sets itself; None leaves one to the next level."""

    max_producers_per_topic: int | None = None
    max_subscriptions_per_topic: int | None = None
    max_consumers_per_topic: int | None = None
    max_consumers_per_subscription: int | None = None
    max_message_size: int | None = None
    retention_ms: int | None = None
    retention_bytes: int | None = None
    delete_consumed: bool | None = None
    ttl_ms: int | None = None
    local_retention_ms: int | None = None
    local_retention_bytes: int | None = None
    local_delete_consumed: bool | None = None
    backlog_bytes: int | None = None
    backlog_drop_oldest: bool | None = None
    delete_unused_ms: int | None = None
    compact: bool | None = None
    tombstone_retention_ms: int | None = None
    freshness_ms: int | None = None
    merge_bytes: int | None = None

    def __post_init__(self) -> None:
        _check(self)

    def with_changes(self, changes: Mapping[str, Any]) -> PolicyOverrides:
        """A copy with the limits in ``changes`` replaced; None removes an override.

        Raises ``Refused`` for invalid limits.
        """
        return replace(self, **_checked(changes, nullable=True))

    def over(self, policy: Policy) -> Policy:
        """``policy`` with the limits that are set here in place of its own."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return replace(policy, **{name: value for name, value in values if value is not None})


def _checked(changes: Mapping[str, Any], *, nullable: bool) -> dict[str, Any]:
    known = {field.name: type(field.default) for field in fields(Policy)}
    for limit, value in changes.items():
        if limit not in known:
            raise Refused(f"there is no limit {limit!r}: choose from {', '.join(known)}")
        if type(value) is not known[limit] and not (nullable and value is None):
            expected = "true or false" if known[limit] is bool else "a whole number"
            raise Refused(f"{limit} must be {expected}, not {value!r}")
    return dict(changes)


def _check(policy: Policy | PolicyOverrides) -> None:
    for field in fields(Policy):
        value = getattr(policy, field.name)
        if value is not None and value < 0:
            raise Refused(f"{field.name} cannot be {value}: use 0 for no limit")
    if policy.freshness_ms and policy.freshness_ms < _FRESHEST_MS:
        raise Refused(
            f"freshness_ms cannot be {policy.freshness_ms}: use at least {_FRESHEST_MS}, or 0 for "
            "the brokers' setting"
        )


def contradictions(policy: Policy) -> list[str]:
    """What in a policy contradicts itself, each with its remedy."""
    found: list[str] = []
    if 0 < policy.retention_ms < policy.ttl_ms:
        found.append(
            f"retention is shorter than TTL: retention_ms ({policy.retention_ms}) deletes records "
            f"that ttl_ms ({policy.ttl_ms}) still delivers; raise retention_ms, or lower ttl_ms"
        )
    for name in ("retention_ms", "retention_bytes"):
        whole, local = getattr(policy, name), getattr(policy, f"local_{name}")
        if 0 < whole < local:
            found.append(
                f"local_{name} ({local}) keeps more on storage nodes than {name} ({whole}) keeps "
                f"at all; lower local_{name}, or raise {name}"
            )
    if policy.backlog_drop_oldest and not policy.backlog_bytes:
        found.append("backlog_drop_oldest does nothing without backlog_bytes; set both")
    if 0 < policy.delete_unused_ms < max(policy.retention_ms, policy.ttl_ms):
        found.append(
            f"delete_unused_ms ({policy.delete_unused_ms}) deletes topics with records that "
            "retention_ms or ttl_ms still keep; raise delete_unused_ms, or lower them"
        )
    return found


def require_consistent(policy: Policy, where: str) -> None:
    """Raises ``Refused`` if a policy contradicts itself."""
    found = contradictions(policy)
    if found:
        raise Refused(f"the policy of {where} would contradict itself: {'; '.join(found)}")
