"""Invariants of the life of records: nothing goes before its time, nothing is shown after it.

What a policy allows is computed from the records, not from what ledgers and lists say of them. The
time that counts is the latest that any broker's clock has shown, except for deliveries, where it is
that of the broker that delivers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from storage_grpc.tier.tier import key_of
from sulina.errors import SulinaError
from sulina.lake.summary import ObjectHead
from sulina.metadata.keys.cursors import CursorRecord
from sulina.metadata.keys.ledger_list import CompactionState
from sulina.metadata.keys.ledgers import LedgerList, LedgerRef
from sulina.names import TopicName
from sulina.runtime.seam import Buffer
from sulina.wire.decode import Frame
from sulina.wire.header import parse_header
from tests.simulation.checker import TopicModel
from tests.simulation.life_model import Erased, LifeTopic, in_short
from tests.simulation.life_records import IS_ERASED, LifeRecord, identities, records_of
from tests.simulation.tier_checker import TierChecker, frames_of
from tests.simulation.trace import Trace


class LifeChecker(TierChecker):
    """``TierChecker`` of topics with policies."""

    now: Callable[[], float]
    latest: Callable[[], int]
    """The latest time that a broker's clock has shown."""
    grace: tuple[float, float]
    """Seconds for which what was removed is kept: ledgers without an object, and with one."""

    def __init__(
        self, trace: Trace, topics: list[TopicName], local_seconds: float, skew_us: int
    ) -> None:
        super().__init__(trace, topics)
        self.lives = {topic: LifeTopic(local_seconds, skew_us) for topic in topics}
        self.counts = dict.fromkeys(
            ("removed", "deleted", "restored", "dropped", "erased", "expired", "read"), 0
        )
        """How often something happened, to see that the run was worth it."""
        self._gone: set[int] = set()
        self._left_hot: set[int] = set()
        """Ledgers that had no object when they were removed; they may have become one since."""
        self._sent: dict[tuple[int, int], bytes] = {}
        self._known: dict[int, int] = {}
        self._model_of = {id(model): self.lives[topic] for topic, model in self.topics.items()}

    def contents(self, frame: Frame) -> list[bytes]:
        return identities(frame)

    def sent(self, ledger: int, entry: int, payload: Buffer) -> None:
        self._sent[ledger, entry] = bytes(payload)
        topic = self._topic_of.get(ledger)
        if topic is not None and entry:
            sent = self.lives[topic].sent
            sent[ledger] = sent.get(ledger, 0) + len(payload)

    def confirmed(self, owner: str, ledger: int, entry: int, payload: Buffer) -> None:
        topic = self._topic_of.get(ledger)
        if topic is not None:
            self._learn(topic, payload)
        super().confirmed(owner, ledger, entry, payload)

    def _learn(self, topic: TopicName, payload: Buffer) -> None:
        header = parse_header(payload)
        if not header.is_control:
            for step, record in enumerate(records_of(Frame(payload))):
                self.lives[topic].records.setdefault(header.base_offset + step, record)

    def _is_at(self, model: TopicModel, offset: int, content: bytes, how: str) -> None:
        if content != IS_ERASED:
            super()._is_at(model, offset, content, how)
            return
        life = self._model_of[id(model)]
        record = life.records.get(offset)
        if record is None or not life.is_erased(offset, record):
            self.fail(f"offset {offset} is erased, {how}, and nobody asked for it")

    # ---- the list of ledgers ----

    def _list_changed(self, topic: TopicName, now: LedgerList) -> None:
        before = self.topics[topic].list
        for ref in now.ledgers:
            for entry in range(self._known.get(ref.id, 0), (ref.last_entry or -1) + 1):
                # Also what was never confirmed, and found by a recovery.
                self._learn(topic, self._sent[ref.id, entry])
                self._known[ref.id] = entry + 1
        life = self.lives[topic]
        for each in life.erasures:
            if each.number in life.repeating and each.number not in now.erasures:
                each.done, each.epoch = self.now(), now.epoch
        life.repeating = set(now.erasures)
        super()._list_changed(topic, now)
        if before.compaction and now.compaction and before.compaction.until > now.compaction.until:
            self._is_compacted(topic, before.compaction)
        hidden = {ref.id for ref in before.ledgers[: before.hidden]}
        hidden_now = {ref.id for ref in now.ledgers[: now.hidden]}
        start = now.ledgers[0].first_offset if now.ledgers else 0
        for at, ref in enumerate(before.ledgers):
            if not ref.records and not self._confirmed.get(ref.id, 0):
                continue
            trimmed = ref.last_offset is not None and ref.last_offset < start
            if ref.id not in hidden and (trimmed or ref.id in hidden_now):
                self.counts["removed"] += 1
                self._may_leave(topic, ref, before.ledgers[at:])
                if ref.tiered is None:
                    self._left_hot.add(ref.id)
            if trimmed:
                self.counts["deleted"] += 1
                self._was_kept(topic, ref, before, at)
        for ref in now.visible:
            if ref.id in hidden:
                self.counts["restored"] += 1
                self._is_restored(topic, ref)
                self._left_hot.discard(ref.id)
        visible = now.visible
        if visible:
            life.highest_start = max(life.highest_start, visible[0].first_offset)
            wrong = self.lives[topic].newest_is_left(visible[0].first_offset, 1 << 62)
            if wrong is not None:
                self.fail(f"{topic}: {wrong}")

    def _is_replaced(self, ref: LedgerRef, now: LedgerList) -> bool:
        start = now.ledgers[0].first_offset if now.ledgers else 0
        trimmed = ref.last_offset is not None and ref.last_offset < start
        return trimmed or super()._is_replaced(ref, now)

    def _may_leave(self, topic: TopicName, ref: LedgerRef, kept: Sequence[LedgerRef]) -> None:
        life, wall_us = self.lives[topic], self.latest()
        policies = life.in_force(self.now())
        consumed = self._consumed(topic)
        if ref.last_offset is None or not any(
            life.may_leave(ref, kept, policy, wall_us, consumed) for policy in policies
        ):
            shown = "; or ".join(map(in_short, policies))
            self.fail(f"ledger {ref.id} of {topic} is removed before its time: {ref}: {shown}")

    def _consumed(self, topic: TopicName) -> Callable[[int, LifeRecord], bool]:
        model, life = self.topics[topic], self.lives[topic]
        wall_us, ttl = self.latest(), [p.ttl_ms for p in life.in_force(self.now())]
        subscriptions = [model.acked.get(name, set()) for name in model.cursors]

        def consumed(offset: int, record: LifeRecord) -> bool:
            if offset in life.dropped or any(record.expired(each, wall_us) for each in ttl):
                return True
            return bool(subscriptions) and all(offset in acked for acked in subscriptions)

        return consumed

    def _was_kept(self, topic: TopicName, ref: LedgerRef, before: LedgerList, at: int) -> None:
        """What leaves the list was kept for its time."""
        grace_us = self.grace[ref.id not in self._left_hot] * 1e6
        for removal in before.removed:
            if at < removal.ledgers:
                if removal.until_us > self.latest() or removal.until_us < removal.since_us:
                    self.fail(f"ledger {ref.id} of {topic} is deleted too early: {removal}")
                if removal.until_us - removal.since_us < grace_us:
                    self.fail(f"ledger {ref.id} of {topic} is not kept: {removal}")
                return
            at -= removal.ledgers
        if grace_us:
            self.fail(f"ledger {ref.id} of {topic} is deleted at once, and cannot be restored")

    def _is_restored(self, topic: TopicName, ref: LedgerRef) -> None:
        if ref.tiered is not None:
            self._is_whole(topic, ref, "is restored")
        elif ref.id in self._gone:
            self.fail(f"ledger {ref.id} of {topic} is restored, but its entries are deleted")

    def ledger_deleted(self, ledger: int) -> None:
        self._gone.add(ledger)
        topic = self._topic_of[ledger]
        ref = next((ref for ref in self.topics[topic].list.ledgers if ref.id == ledger), None)
        if ref is None:
            return  # retention removed it, which was checked
        super().ledger_deleted(ledger)
        life, consumed = self.lives[topic], self._consumed(topic)
        policies = life.in_force(self.now())
        newer = [each for each in self.topics[topic].list.ledgers if each.first_offset > _end(ref)]
        if not any(
            life.may_lose_entries(ref, newer, policy, self.latest(), consumed)
            for policy in policies
        ):
            shown = "; or ".join(map(in_short, policies))
            self.fail(f"the entries of ledger {ledger} of {topic} go before their time: {shown}")

    # ---- objects ----

    def _has_records(
        self, topic: TopicName, ref: LedgerRef, frames: Sequence[Frame], what: str
    ) -> None:
        life, model = self.lives[topic], self.topics[topic]
        found: dict[int, bytes] = {}
        for frame in frames:
            for step, content in enumerate(self.contents(frame)):
                found[frame.header.base_offset + step] = content
        epoch = model.list.epoch
        for offset, content in found.items():
            self._is_at(model, offset, content, "in the object")
            if content != IS_ERASED and life.must_be_erased(offset, epoch):
                self.fail(f"ledger {ref.id} of {topic} {what}: offset {offset} was erased")
        assert ref.last_offset is not None and ref.tiered is not None
        lacking = set(range(ref.first_offset, ref.last_offset + 1)) - found.keys()
        stated = ref.records if ref.tiered.records is None else ref.tiered.records
        if len(found) != stated:
            self.fail(f"ledger {ref.id} of {topic} {what}: {len(found)} of {stated} records")
        for offset in sorted(lacking - life.dropped):
            self.counts["dropped"] += 1
            if not life.may_drop(offset, self.latest(), self.now()):
                self.fail(f"ledger {ref.id} of {topic} {what}, and lacks offset {offset}")
            life.dropped_us[offset] = self.latest()
        life.dropped |= lacking

    def _is_compacted(self, topic: TopicName, ended: CompactionState) -> None:
        """A round that has ended left one record of each key."""
        life = self.lives[topic]
        seen: dict[bytes, int] = {}
        for offset, record in life.within(ended.start, ended.done - 1):
            if record.key is None or offset in life.dropped or life.is_erased(offset, record):
                continue
            if record.key in seen:
                self.fail(f"a round of {topic} left {record.key!r} at {seen[record.key]}, {offset}")
            seen[record.key] = offset

    def object_changed(self, key: str, data: bytes | None) -> None:
        super().object_changed(key, data)
        if data is not None:
            return
        notes = [
            noted.since_us + noted.keep_us
            for noted in self._noted.values()
            if key in {key_of(ObjectHead(TopicName.parse(noted.topic), *p)) for p in noted.objects}
        ]
        if notes and min(notes) > self.latest():
            self.fail(f"the object {key} is deleted before the time that its note says")

    # ---- consumers ----

    def _cursor_changed(self, topic: TopicName, name: str, now: CursorRecord) -> None:
        """What a cursor passes was acknowledged, has expired, or is no longer there."""
        model, life = self.topics[topic], self.lives[topic]
        before = model.cursors.get(name)
        acked = model.acked.setdefault(name, set())
        known = 0 if before is None else before.position
        wall_us, ttl = self.latest(), [p.ttl_ms for p in life.in_force(self.now())]
        offsets = set(range(known, now.position))
        for first, last in now.acked:
            offsets |= set(range(first, last + 1))
        for offset in sorted(offsets - acked):
            record = life.records.get(offset)
            if record is not None and any(record.expired(each, wall_us) for each in ttl):
                self.counts["expired"] += 1
                acked.add(offset)
            elif offset < life.highest_start or offset in life.dropped:
                acked.add(offset)
        super()._cursor_changed(topic, name, now)

    def sending(
        self, topic: TopicName, frame: Buffer, chosen: int | None, wall_us: int, epoch: int
    ) -> None:
        """Called when a broker of this epoch sends a delivery, at this time by its clock."""
        life = self.lives[topic]
        ttl = [policy.ttl_ms for policy in life.in_force(self.now())]
        base = parse_header(frame).base_offset
        for step, content in enumerate(self.contents(Frame(frame))):
            if chosen is not None and not chosen >> step & 1:
                continue
            record = life.records.get(base + step)
            if record is not None and all(record.expired(each, wall_us) for each in ttl):
                self.fail(f"offset {base + step} of {topic} is delivered after it expired")
            if content != IS_ERASED and life.must_be_erased(base + step, epoch):
                self.fail(f"offset {base + step} of {topic} is delivered after it was erased")

    # ---- operators ----

    def erasing(self, topic: TopicName, key: bytes) -> Erased:
        """Called when somebody asks to erase a key."""
        end = max(self.topics[topic].content, default=-1) + 1
        self.lives[topic].erasures.append(erased := Erased(key, end))
        return erased

    def erased(self, topic: TopicName, erased: Erased, until: int, epoch: int) -> None:
        """Called when an owner reports that a key is erased below ``until``."""
        self.trace.note(f"{topic.local}: {erased.key!r} is erased below {until}")
        self.counts["erased"] += 1
        if until < erased.end:
            self.fail(f"{erased.key!r} of {topic} is erased below {until}, not {erased.end}")
        erased.until, erased.epoch, erased.done = until, epoch, self.now()
        life = self.lives[topic]
        for ref in self.topics[topic].list.visible:
            wanted = [
                offset
                for offset, record in life.within(ref.first_offset, _end(ref))
                if record.key == erased.key and offset < until and offset not in life.dropped
            ]
            if wanted and ref.is_local and ref.id not in self._gone:
                self.fail(f"offset {wanted[0]} of {topic} is erased, but its entries are there")
            elif wanted:
                self._is_whole(topic, ref, "is searched for an erased key")

    def nowhere(self, topic: TopicName) -> None:
        """No object has an erased record any more, named or not."""
        for key, data in self.objects.items():
            try:
                frames = frames_of(data)
            except SulinaError:
                continue  # a notice
            for frame in frames:
                for step, content in enumerate(self.contents(frame)):
                    offset = frame.header.base_offset + step
                    if content != IS_ERASED and self.lives[topic].must_be_erased(offset, 1 << 62):
                        self.fail(f"offset {offset} of {topic} was erased, and is in {key[-46:]}")

    # ---- readers ----

    def read_all(
        self, topic: TopicName, seen: dict[int, bytes], start: int, end: int, missed: bool
    ) -> None:
        """Called with what a reader got from the start of a topic to ``end``.

        ``start`` is the highest that the topic had meanwhile; with ``missed``, the reader took so
        long that tombstones may have gone.
        """
        self.counts["read"] += 1
        life = self.lives[topic]
        for offset in range(start, end):
            if offset not in seen and offset not in life.dropped:
                self.fail(f"a reader of {topic} did not get offset {offset}")
        newest = life.newest_of_keys(start, end)
        for offset in sorted(seen):
            record = life.records[offset]
            last = newest.get(record.key or b"")
            if last is not None and last not in seen and offset >= start and not missed:
                self.fail(
                    f"a reader of {topic} got {record.key!r} at {offset}, and not that it changed "
                    f"at {last}"
                )

    def shown(
        self, topic: TopicName, frame: bytes, epoch: int, asked: float = 1e9
    ) -> dict[int, bytes]:
        """Called with a frame that a reader, who asked for it then, got from an owner."""
        base = parse_header(frame).base_offset
        found = dict(enumerate(self.contents(Frame(frame)), base))
        for offset, content in found.items():
            self._is_at(self.topics[topic], offset, content, "read")
            if content != IS_ERASED and self.lives[topic].must_be_erased(offset, epoch, asked):
                self.fail(f"offset {offset} of {topic} is read after it was erased")
        return found

    def final(self, topic: TopicName, frames: list[bytes]) -> None:
        seen: dict[int, bytes] = {}
        for frame in frames:
            seen |= self.shown(topic, frame, 1 << 62)
        visible = self.topics[topic].list.visible
        end = max(self.topics[topic].content, default=-1) + 1
        self.read_all(topic, seen, visible[0].first_offset if visible else end, end, missed=True)


def _end(ref: LedgerRef) -> int:
    return ref.first_offset - 1 if ref.last_offset is None else ref.last_offset
