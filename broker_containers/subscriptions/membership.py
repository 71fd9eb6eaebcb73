"""The consumers of a subscription: who joined, who receives, who was replaced."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

from broker_containers.quotas.quotas import Held
from broker_containers.subscriptions.consumers import AttachedConsumer, ConsumerSink
from broker_containers.subscriptions.key_shared import KeySharedSelector
from broker_containers.subscriptions.selectors import (
    Selector,
    SharedSelector,
    SingleConsumerSelector,
)
from sulina.errors import Refused
from sulina.model import SubscriptionType


@dataclass(slots=True, eq=False)
class Membership:
    """The members, and the rule by which they share the records. Never waits."""

    type: SubscriptionType
    members: dict[int, AttachedConsumer] = field(init=False, default_factory=dict)
    _selector: Selector = field(init=False)
    _next_number: int = field(init=False, default=1)

    def __post_init__(self) -> None:
        match self.type:
            case SubscriptionType.SHARED:
                self._selector = SharedSelector()
            case SubscriptionType.KEY_SHARED:
                self._selector = KeySharedSelector()
            case SubscriptionType.EXCLUSIVE | SubscriptionType.FAILOVER:
                self._selector = SingleConsumerSelector(self.type)
            case _:
                assert_never(self.type)

    def join(
        self,
        name: str,
        sink: ConsumerSink,
        key_filters: tuple[str, ...],
        now: float,
        held: Held | None = None,
    ) -> AttachedConsumer:
        """Add a consumer. One with the same name replaces the previous one."""
        if key_filters and self.type is not SubscriptionType.KEY_SHARED:
            raise Refused("key filters need a key_shared subscription")
        member = AttachedConsumer(
            self._next_number, name, sink, key_filters, progress=now, held=held
        )
        before = next((m for m in self.members.values() if m.name == name), None)
        if before is not None:
            before.sink.closed(Refused(f"another consumer named {name!r} took over"))
            self._remove(before)
        self._selector.join(member, before)
        self._next_number += 1
        self.members[member.number] = member
        return member

    def leave(self, number: int) -> None:
        """Remove a consumer. What it had in flight can be redelivered immediately."""
        member = self.members.get(number)
        if member is None:
            return
        was_active = self._selector.is_active(member)
        self._remove(member)
        self._selector.leave(member)
        if was_active and self.type is SubscriptionType.FAILOVER:
            for other in self.members.values():
                if self._selector.is_active(other):
                    other.sink.active_changed(True)

    def _remove(self, member: AttachedConsumer) -> None:
        self.members.pop(member.number, None)
        if member.held is not None:
            member.held.release()
        self._removed(member)

    def _removed(self, member: AttachedConsumer) -> None:
        """A member is gone: whoever tracks deliveries takes back what it had in flight."""

    def grant(self, number: int, records: int, bytes_: int, now: float) -> None:
        """Add credit."""
        member = self.members.get(number)
        if member is not None:
            member.grant(records, bytes_, now)

    def is_active(self, member: AttachedConsumer) -> bool:
        return self._selector.is_active(member)

    @property
    def needs_keys(self) -> bool:
        """Whether frames must be loaded with their records' keys."""
        return isinstance(self._selector, KeySharedSelector) and self._selector.has_filters

    @property
    def _someone_takes(self) -> bool:
        for member in self.members.values():
            if member.can_take and self._selector.is_active(member):
                return True
        return False

    def _progress(self, number: int, now: float) -> None:
        member = self.members.get(number)
        if member is not None:
            member.progress = now
