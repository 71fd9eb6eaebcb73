"""The checker: a model of what was promised, compared with everything that is observed.

It observes what nodes store, what writers confirm, how the metadata changes, what is acknowledged
to producers and what consumers receive; it uses nothing else of the code that it checks. The first
observation that contradicts a promise is the violation of the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sulina.metadata.keys import cursors, ledger_metadata, ledger_pages, ledgers, record
from sulina.metadata.keys.cursors import CursorRecord
from sulina.metadata.keys.ledger_metadata import LedgerMetadata, LedgerPhase
from sulina.metadata.keys.ledgers import LedgerList, LedgerRef, LedgerState
from sulina.metadata.store import KeyValue
from sulina.names import TopicName
from sulina.runtime.seam import Buffer
from sulina.wire.decode import Frame
from sulina.wire.header import parse_header, read_due
from tests.simulation.trace import Trace, Violation


@dataclass(slots=True)
class TopicModel:
    """What was observed of one topic."""

    content: dict[int, bytes] = field(default_factory=dict)
    """The record at each offset, as first confirmed or delivered."""
    offsets: dict[bytes, int] = field(default_factory=dict)
    """The offset of each record: all records of the workload are different."""
    acknowledged: dict[bytes, int] = field(default_factory=dict)
    """Records acknowledged to a producer, with their offsets (-1: as a duplicate)."""
    owners: dict[int, str] = field(default_factory=dict)
    """The broker that confirmed entries in each epoch."""
    newest_epoch: int = 0
    """The latest epoch in which an entry was confirmed."""
    list: LedgerList = field(default_factory=LedgerList)
    acked: dict[str, set[int]] = field(default_factory=dict)
    """Offsets acknowledged by consumers, per subscription."""
    cursors: dict[str, CursorRecord] = field(default_factory=dict)


class Checker:
    """Never raises in the code under test: ``violation`` has the first finding."""

    def __init__(self, trace: Trace, topics: list[TopicName]) -> None:
        self.trace = trace
        self.violation: str | None = None
        self.topics = {topic: TopicModel() for topic in topics}
        self.records_confirmed = 0
        self._lists = {ledgers.key(topic): topic for topic in topics}
        self._cursor_roots = {cursors.root(topic): topic for topic in topics}
        self._stored: dict[str, set[tuple[int, int]]] = {}
        self._confirmed: dict[int, int] = {}
        self._metadata: dict[int, LedgerMetadata] = {}
        self._topic_of: dict[int, TopicName] = {}
        self._pages: dict[str, KeyValue] = {}

    def fail(self, what: str) -> None:
        self.trace.note(f"VIOLATION {what}")
        if self.violation is None:
            self.violation = what

    def check(self) -> None:
        """Raise ``Violation`` if there is one."""
        if self.violation is not None:
            raise Violation(self.violation)

    # ---- storage ----

    def node_stored(self, member: str, ledger: int, entry: int) -> None:
        """Called when a node acknowledges an entry."""
        self._stored.setdefault(member, set()).add((ledger, entry))

    def appending(self, ledger: int) -> int:
        """Called when a writer sends an entry; returns the newest epoch of its topic."""
        topic = self._topic_of.get(ledger)
        return 0 if topic is None else self.topics[topic].newest_epoch

    def sent(self, ledger: int, entry: int, payload: Buffer) -> None:
        """Called when a writer sends an entry, which may never be confirmed."""

    def in_time(self, owner: str, ledger: int, payload: Buffer, newest: int) -> None:
        """Called when a writer confirms an entry that it sent when ``newest`` was the newest epoch.

        An entry sent before a takeover may be confirmed after it, if the takeover found it.
        """
        epoch = parse_header(payload).epoch
        if epoch < newest:
            self.fail(
                f"{owner} confirms an entry of ledger {ledger} in epoch {epoch}, sent after epoch "
                f"{newest} was served"
            )

    def confirmed(self, owner: str, ledger: int, entry: int, payload: Buffer) -> None:
        """Called when a writer confirms an entry."""
        metadata = self._metadata.get(ledger)
        header = parse_header(payload)
        self.trace.note(f"{owner} confirms {ledger}/{entry} offset {header.base_offset}")
        if metadata is None:
            self.fail(
                f"entry {entry} of ledger {ledger} is confirmed, but the ledger has no metadata"
            )
            return
        if entry != self._confirmed.get(ledger, -1) + 1:
            self.fail(f"entry {entry} of ledger {ledger} is confirmed out of order")
        self._confirmed[ledger] = max(entry, self._confirmed.get(ledger, -1))
        if metadata.last_entry is not None and entry > metadata.last_entry:
            self.fail(
                f"{owner} confirms entry {entry} of ledger {ledger}, "
                f"which is closed at {metadata.last_entry}"
            )
        self._has_quorum(ledger, metadata, entry, "confirmed")
        topic = self._topic_of.get(ledger)
        if topic is None:
            self.fail(f"entry {entry} is confirmed in ledger {ledger}, which is in no topic's list")
            return
        if header.is_control:
            return
        model = self.topics[topic]
        if all(ref.id != ledger for ref in model.list.ledgers):
            self.fail(
                f"entry {entry} is confirmed in ledger {ledger}, which was removed from the list"
            )
        model.newest_epoch = max(model.newest_epoch, header.epoch)
        serving = model.owners.setdefault(header.epoch, owner)
        if serving != owner:
            self.fail(f"{serving} and {owner} both serve {topic} in epoch {header.epoch}")
        for step, content in enumerate(self.contents(Frame(payload))):
            self.records_confirmed += 1
            self._is_at(model, header.base_offset + step, content, f"confirmed by {owner}")

    def _has_quorum(self, ledger: int, metadata: LedgerMetadata, entry: int, what: str) -> None:
        ensemble = metadata.ensemble_of(entry)
        have = [member for member in ensemble if (ledger, entry) in self._stored.get(member, ())]
        if len(have) < metadata.ack_quorum:
            self.fail(
                f"entry {entry} of ledger {ledger} is {what}, but of its ensemble {ensemble} "
                f"only {have} have it"
            )

    def contents(self, frame: Frame) -> list[bytes]:
        """What each record of a frame is known by; all records of a run are different."""
        return list(map(bytes, frame.payloads))

    def _is_at(self, model: TopicModel, offset: int, content: bytes, how: str) -> None:
        known = model.content.setdefault(offset, content)
        if known != content:
            self.fail(f"offset {offset} is {_short(content)}, {how}, and was {_short(known)}")
        where = model.offsets.setdefault(content, offset)
        if where != offset:
            self.fail(f"{_short(content)} is at offset {offset}, {how}, and at {where} too")

    # ---- metadata ----

    def metadata_changed(self, key: str, value: bytes | None, revision: int) -> None:
        """Called when a change of the metadata becomes visible."""
        item = KeyValue(key, value or b"", 0, revision, 0, 0)
        if "/ledger-pages/" in key:
            self._pages[key] = item
        elif key in self._lists:
            if value is not None:
                topic, head = self._lists[key], record.decode(LedgerList, item)
                whole = ledger_pages.join(topic, head, list(self._pages.values()))
                if whole is None:
                    self.fail(f"the list of {topic} names a page that does not exist")
                else:
                    self._list_changed(topic, whole)
        elif key.endswith("/metadata") and key.startswith(ledger_metadata.ROOT):
            ledger = int(key.split("/")[2])
            if value is not None:
                self._ledger_changed(ledger, record.decode(LedgerMetadata, item))
            elif self._confirmed.get(ledger, 0) > 0:
                self.ledger_deleted(ledger)
        elif "/cursors/" in key and value is not None:
            root, _, name = key.rpartition("/")
            topic = self._cursor_roots[root + "/"]
            self._cursor_changed(topic, name, record.decode(CursorRecord, item))
        else:
            self.other_changed(item, deleted=value is None)

    def ledger_deleted(self, ledger: int) -> None:
        """Called when a ledger with confirmed records is deleted."""
        self.fail(f"ledger {ledger} is deleted, but has confirmed records")

    def other_changed(self, item: KeyValue, *, deleted: bool) -> None:
        """Called for changes that are not about the data of topics."""

    def _ledger_changed(self, ledger: int, now: LedgerMetadata) -> None:
        before = self._metadata.get(ledger)
        self._metadata[ledger] = now
        fragments = " ".join(f"{f.first_entry}:{','.join(f.ensemble)}" for f in now.fragments)
        self.trace.note(f"ledger {ledger} {now.state} last {now.last_entry} [{fragments}]")
        confirmed = self._confirmed.get(ledger, -1)
        if before is not None:
            order = list(LedgerPhase)
            if order.index(now.state) < order.index(before.state):
                self.fail(f"ledger {ledger} changed from {before.state} to {now.state}")
            if before.last_entry is not None:
                self.fail(
                    f"ledger {ledger} was closed at {before.last_entry}, "
                    f"and is closed again: {now.last_entry}"
                )
        if now.last_entry is None:
            return
        for entry in range(now.last_entry + 1):
            self._has_quorum(ledger, now, entry, "within a closed ledger")
        if now.last_entry < confirmed:
            self.fail(
                f"ledger {ledger} is closed at {now.last_entry}, but {confirmed} is confirmed"
            )

    def _list_changed(self, topic: TopicName, now: LedgerList) -> None:
        model = self.topics[topic]
        before, model.list = model.list, now
        shown = " ".join(f"{r.id}@{r.first_offset}..{r.last_offset}" for r in now.ledgers)
        self.trace.note(f"{topic.local} epoch {now.epoch}: {shown}")
        if now.epoch < before.epoch:
            self.fail(f"{topic} goes from epoch {before.epoch} back to {now.epoch}")
        there = {ref.id: ref for ref in now.ledgers}
        for ref in before.ledgers:
            after = there.get(ref.id)
            if after is None:
                # Its control frame may be confirmed; records may not.
                if self._confirmed.get(ref.id, -1) > 0 and not self._is_replaced(ref, now):
                    self.fail(
                        f"ledger {ref.id} of {topic} has records, but was removed from the list"
                    )
            elif ref.state is LedgerState.CLOSED and (after.last_offset, after.last_entry) != (
                ref.last_offset,
                ref.last_entry,
            ):
                self.fail(f"the end of ledger {ref.id} of {topic} changed from {ref} to {after}")
        for ref in now.ledgers:
            self._topic_of[ref.id] = topic
            metadata = self._metadata.get(ref.id)
            if metadata is not None and ref.last_entry not in (None, metadata.last_entry):
                self.fail(
                    f"ledger {ref.id} ends at {ref.last_entry} in the list of {topic}, "
                    f"but at {metadata.last_entry} in its metadata"
                )

    def _is_replaced(self, ref: LedgerRef, now: LedgerList) -> bool:
        """Whether another ledger of the list has the records of ``ref`` now."""
        return False

    def _cursor_changed(self, topic: TopicName, name: str, now: CursorRecord) -> None:
        model = self.topics[topic]
        before = model.cursors.get(name)
        model.cursors[name] = now
        self.trace.note(f"cursor {topic.local}/{name} {now.position} {list(now.acked)}")
        acked = model.acked.setdefault(name, set())
        known = 0 if before is None else before.position
        passed = [offset for offset in range(known, now.position) if offset not in acked]
        if passed:
            self.fail(f"the cursor {name} of {topic} passed unacknowledged offsets {passed[:5]}")
        for first, last in now.acked:
            if any(offset not in acked for offset in range(first, last + 1)):
                self.fail(
                    f"the cursor {name} of {topic} has unacknowledged offsets {first} to {last}"
                )
        if before is not None and now.position < before.position:
            self.fail(
                f"the cursor {name} of {topic} went back from {before.position} to {now.position}"
            )

    # ---- clients ----

    def published(self, topic: TopicName, contents: list[bytes], base: int) -> None:
        """Called when records are acknowledged at ``base`` (-1: as duplicates)."""
        self.trace.note(f"published {_short(contents[0])} +{len(contents) - 1} at {base}")
        model = self.topics[topic]
        for step, content in enumerate(contents):
            where = base + step if base >= 0 else -1
            model.acknowledged[content] = where
            at = model.offsets.get(content)
            if base >= 0 and at != where:
                self.fail(f"{_short(content)} is acknowledged at {where}, but confirmed at {at}")

    def handed_over(self, topic: TopicName, frame: Buffer, latest_us: int) -> None:
        """Called when a broker whose clock has shown at most ``latest_us`` delivers a frame."""
        header = parse_header(frame)
        due_us = read_due(frame, header)
        if due_us is not None and due_us > latest_us:
            early = (due_us - latest_us) / 1e6
            self.fail(f"offset {header.base_offset} of {topic} is delivered {early:g} s too early")

    def delivered(self, topic: TopicName, frame: bytes, chosen: int | None) -> list[int]:
        """Called when a consumer receives a frame, or chosen records of it. Returns the offsets."""
        header = parse_header(frame)
        offsets = []
        for step, content in enumerate(self.contents(Frame(frame))):
            if chosen is None or chosen >> step & 1:
                offset = header.base_offset + step
                offsets.append(offset)
                self._is_at(self.topics[topic], offset, content, "delivered")
        return offsets

    def acking(self, topic: TopicName, subscription: str, offsets: list[int]) -> None:
        """Called before a consumer acknowledges."""
        self.topics[topic].acked.setdefault(subscription, set()).update(offsets)

    # ---- the end ----

    def final(self, topic: TopicName, frames: list[bytes]) -> None:
        """Called with the whole topic, as read by its last owner."""
        model = self.topics[topic]
        offset = 0
        last: dict[bytes, int] = {}
        there: dict[bytes, int] = {}
        for frame in frames:
            header = parse_header(frame)
            if header.base_offset != offset:
                self.fail(f"{topic} has a gap: offset {header.base_offset} follows {offset - 1}")
                return
            for content in map(bytes, Frame(frame).payloads):
                self._is_at(model, offset, content, "read at the end")
                _, producer, sequence = content.split(b"|")[:3]
                if int(sequence) != last.get(producer, -1) + 1:
                    self.fail(
                        f"{_short(content)} of {topic} follows number {last.get(producer, -1)}"
                    )
                last[producer] = int(sequence)
                there[content] = offset
                offset += 1
        for content, where in model.acknowledged.items():
            if content not in there:
                self.fail(
                    f"{_short(content)} was acknowledged at {where}, but is missing in {topic}"
                )
        for where, content in model.content.items():
            if content not in there:
                self.fail(
                    f"{_short(content)} was confirmed or delivered at {where}, but is missing"
                )


def _short(content: bytes) -> str:
    """A record without its padding."""
    return content.rstrip(b"x").decode(errors="replace")
