"""Limits that a namespace sets for its topics and that a topic may set for itself."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from sulina.errors import Refused


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

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True, slots=True)
class PolicyOverrides:
    """What a topic sets for itself; None leaves it to the namespace."""

    max_producers_per_topic: int | None = None
    max_subscriptions_per_topic: int | None = None
    max_consumers_per_topic: int | None = None
    max_consumers_per_subscription: int | None = None
    max_message_size: int | None = None
    retention_ms: int | None = None
    retention_bytes: int | None = None
    delete_consumed: bool | None = None

    def __post_init__(self) -> None:
        _check(self)

    def over(self, policy: Policy) -> Policy:
        """``policy`` with what is set here in its place."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return replace(policy, **{name: value for name, value in values if value is not None})


def _check(policy: Policy | PolicyOverrides) -> None:
    for field in fields(policy):
        value = getattr(policy, field.name)
        if value is not None and value < 0:
            raise Refused(f"{field.name} can't be {value}: use 0 for no limit")
