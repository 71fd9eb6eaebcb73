"""A dispatcher with consumers that remember, and a clock that is moved by hand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from broker_containers.subscriptions.consumers import AttachedConsumer
from broker_containers.subscriptions.delivery_window import DeliveryWindow
from broker_containers.subscriptions.dispatcher import Dispatcher
from broker_containers.subscriptions.limits import SubscriptionLimits
from broker_containers.subscriptions.ranges import RangeSet
from broker_containers.topic_log.tail_cache import CachedFrame
from sulina.errors import SulinaError
from sulina.model import FailurePolicy, SubscriptionType
from sulina.wire import selection
from sulina.wire.encode import key_slot

PLENTY = 1 << 40
FRAME_BYTES = 1_000
POLICY = FailurePolicy(
    max_redelivery_count=2,
    ack_timeout_ms=10_000,
    base_redelivery_delay_ms=1_000,
    max_redelivery_delay_ms=60_000,
)


class Ear:
    """A consumer's end: what the subscription told it."""

    def __init__(self) -> None:
        self.active: list[bool] = []
        self.closed_for: Exception | None = None

    def deliver(self, frame: CachedFrame, selection: int | None, attempt: int) -> bool:
        raise AssertionError("the dispatcher decides, it does not send")

    def active_changed(self, active: bool) -> None:
        self.active.append(active)

    def closed(self, reason: Exception) -> None:
        assert isinstance(reason, SulinaError)
        self.closed_for = reason


@dataclass(frozen=True)
class Given:
    """One delivery, as the tests speak of it."""

    to: str
    offsets: list[int]
    attempt: int = 1


@dataclass
class Bench:
    """One subscription under test. ``limits`` and ``policy`` as the dispatcher takes them."""

    type: SubscriptionType
    policy: FailurePolicy = POLICY
    position: int = 0
    acked: Iterable[tuple[int, int]] = ()
    limits: SubscriptionLimits = field(default_factory=SubscriptionLimits)
    reliable: bool = True
    now: float = 0.0

    def __post_init__(self) -> None:
        self.dispatcher = Dispatcher(
            self.type,
            self.policy,
            DeliveryWindow(self.position, RangeSet(self.acked)),
            reliable=self.reliable,
            limits=self.limits,
        )
        self.ears: dict[str, Ear] = {}

    @property
    def window(self) -> DeliveryWindow:
        return self.dispatcher.window

    def join(
        self, name: str, records: int = PLENTY, bytes_: int = PLENTY, filters: tuple[str, ...] = ()
    ) -> AttachedConsumer:
        """A consumer comes and gives its first credit."""
        self.ears[name] = ear = Ear()
        member = self.dispatcher.join(name, ear, filters, self.now)
        if records:
            self.dispatcher.grant(member.number, records, bytes_, self.now)
        return member

    def leave(self, member: AttachedConsumer) -> None:
        self.dispatcher.leave(member.number)

    def grant(self, member: AttachedConsumer, records: int, bytes_: int = PLENTY) -> None:
        self.dispatcher.grant(member.number, records, bytes_, self.now)

    def load(self, count: int = 1, size: int = FRAME_BYTES) -> int:
        """The next frame, without keys; its base offset."""
        base = self.window.read_offset
        self.dispatcher.load(base, count, size, 0, None)
        return base

    def load_keys(self, *keys: str) -> int:
        """The next frame, a record for each key; its base offset."""
        base = self.window.read_offset
        slots = bytes(key_slot(key.encode()) for key in keys)
        text = list(keys) if self.dispatcher.needs_keys else None
        self.dispatcher.load(base, len(keys), FRAME_BYTES, slots, text)
        return base

    def hungry(self) -> bool:
        """Whether another frame is wanted."""
        return self.dispatcher.wants_more

    def one(self) -> Given | None:
        """The next delivery."""
        pick = self.dispatcher.next(self.now)
        if pick is None:
            return None
        offsets = [pick.loaded.base + index for index in selection.indices(pick.mask)]
        assert offsets, "a delivery is never empty"
        return Given(pick.member.name, offsets, pick.attempt)

    def all(self) -> list[Given]:
        """All deliveries that can be made now."""
        given: list[Given] = []
        while (delivery := self.one()) is not None:
            given.append(delivery)
        return given

    def ack(self, member: AttachedConsumer, *offsets: int) -> None:
        for offset in offsets:
            self.dispatcher.ack(member.number, offset, offset, None, self.now)

    def ack_range(
        self, member: AttachedConsumer, first: int, last: int, mask: int | None = None
    ) -> None:
        self.dispatcher.ack(member.number, first, last, mask, self.now)

    def nack(self, member: AttachedConsumer, *offsets: int, delay_ms: int = 0) -> None:
        for offset in offsets:
            self.dispatcher.nack(
                member.number, offset, offset, None, delay_ms, "could not", self.now
            )

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self.dispatcher.tick(self.now)

    def with_policy(self, **changes: object) -> Bench:
        """The same bench with another policy; call it first."""
        self.dispatcher.policy = replace(self.policy, **changes)  # type: ignore[arg-type]
        return self


def in_flight(bench: Bench, *counts: int) -> tuple[Bench, AttachedConsumer]:
    """The bench with its only consumer, a, which has frames of so many records each in flight."""
    a = bench.join("a")
    for count in counts:
        bench.load(count)
    bench.all()
    return bench, a
