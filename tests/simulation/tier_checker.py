"""Invariants of offloading: every record is in its ledger's entries or in a verified object.

It opens an object itself whenever a list starts to name it, whenever the entries of its ledger are
deleted, and whenever a named object changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker_containers.topic_log.cleanup import new_head
from storage_grpc.tier.tier import head_of, key_of
from sulina.errors import SulinaError
from sulina.lake.decoder import NeedMore, Verifier, decode_row_group, open_footer
from sulina.lake.layout import is_notice
from sulina.lake.summary import ObjectHead
from sulina.metadata.keys import record, unreferenced_objects
from sulina.metadata.keys.ledgers import LedgerList, LedgerRef
from sulina.metadata.keys.unreferenced_objects import UnreferencedObjects
from sulina.metadata.store import KeyValue
from sulina.names import TopicName
from sulina.wire.decode import Frame
from tests.simulation.checker import Checker
from tests.simulation.trace import Trace


class TierChecker(Checker):
    """``Checker`` that also checks the object store."""

    objects: dict[str, bytes]
    replaced = 0
    """How often an object replaced others."""

    def __init__(self, trace: Trace, topics: list[TopicName]) -> None:
        super().__init__(trace, topics)
        self._noted: dict[str, UnreferencedObjects] = {}

    def _list_changed(self, topic: TopicName, now: LedgerList) -> None:
        before = {ref.id: ref for ref in self.topics[topic].list.ledgers}
        super()._list_changed(topic, now)
        for ref in now.ledgers:
            known = before.get(ref.id)
            named = None if known is None or known.tiered is None else head_of(topic, known)
            if ref.tiered is not None and head_of(topic, ref) != named:
                generation = ref.tiered.generation
                self.replaced += generation > 0
                self.trace.note(f"{topic.local} ledger {ref.id} is an object, {generation}")
                self._is_whole(topic, ref, "is named as an object")
            if known is not None and known.tiered is not None and ref.tiered is None:
                self.fail(f"the list of {topic} no longer names the object of ledger {ref.id}")

    def _is_replaced(self, ref: LedgerRef, now: LedgerList) -> bool:
        return any(
            each.tiered is not None
            and each.tiered.generation > 0
            and each.first_offset <= ref.first_offset
            and (ref.last_offset or 0) <= (each.last_offset or 0)
            for each in now.ledgers
        )

    def other_changed(self, item: KeyValue, *, deleted: bool) -> None:
        if item.key.startswith(unreferenced_objects.ROOT):
            self._noted.pop(item.key, None)
            if not deleted:
                self._noted[item.key] = record.decode(UnreferencedObjects, item)

    def left_behind(self) -> None:
        """Every object is named by a list, being written, or noted for deletion."""
        known = self._named()
        for noted in self._noted.values():
            topic = TopicName.parse(noted.topic)
            known |= {key_of(ObjectHead(topic, *place)) for place in noted.objects}
        for topic, model in self.topics.items():
            if model.list.replacing is not None:
                known.add(key_of(new_head(topic, model.list.replacing)))
        for key in self.objects:
            if key not in known and not is_notice(key):
                self.fail(f"the object {key} is neither named nor noted for deletion")

    def ledger_deleted(self, ledger: int) -> None:
        """Entries may be deleted if the topic's list names an object with all records."""
        topic = self._topic_of[ledger]
        ref = next((ref for ref in self.topics[topic].list.ledgers if ref.id == ledger), None)
        if ref is None or ref.tiered is None:
            self.fail(f"the entries of ledger {ledger} are deleted, but the list names no object")
        else:
            self._is_whole(topic, ref, "loses its entries")

    def object_changed(self, key: str, data: bytes | None) -> None:
        """Called when an object is written or deleted."""
        self.trace.note(f"object {key[-46:]} {'deleted' if data is None else 'written'}")
        for topic, model in self.topics.items():
            for ref in model.list.ledgers:
                if ref.tiered is not None and key_of(head_of(topic, ref)) == key:
                    self._is_whole(topic, ref, "had its object changed")
                    if data is not None and len(data) != ref.tiered.size:
                        self.fail(f"the object of ledger {ref.id} of {topic} was overwritten")

    def damaged(self) -> list[str]:
        """Damaged objects that no list names."""
        named = self._named()
        found = []
        for key, data in self.objects.items():
            if is_notice(key):
                continue
            try:
                frames_of(data)
            except SulinaError:
                if key not in named:
                    found.append(key)
        return found

    def _named(self) -> set[str]:
        return {
            key_of(head_of(topic, ref))
            for topic, model in self.topics.items()
            for ref in model.list.ledgers
            if ref.tiered is not None
        }

    def _is_whole(self, topic: TopicName, ref: LedgerRef, what: str) -> None:
        data = self.objects.get(key_of(head_of(topic, ref)))
        if data is None:
            self.fail(f"ledger {ref.id} of {topic} {what}, but the object does not exist")
            return
        try:
            frames = frames_of(data)
        except SulinaError as error:
            self.fail(f"ledger {ref.id} of {topic} {what}, but the object is damaged: {error}")
            return
        self._has_records(topic, ref, frames, what)

    def _has_records(
        self, topic: TopicName, ref: LedgerRef, frames: Sequence[Frame], what: str
    ) -> None:
        """Check the records of an object."""
        found = [content for frame in frames for content in self.contents(frame)]
        if len(found) != ref.records:
            self.fail(f"ledger {ref.id} of {topic} {what}: {len(found)} of {ref.records} records")
        for offset, content in enumerate(found, ref.first_offset):
            self._is_at(self.topics[topic], offset, content, "in the object")


def frames_of(data: bytes) -> list[Frame]:
    """All frames of an object. Raises ``SulinaError`` if it is damaged."""
    footer = open_footer(data, len(data))
    assert not isinstance(footer, NeedMore)
    verifier = Verifier(footer)
    found: list[Frame] = []
    for group in footer.row_groups:
        part = data[group.start : group.end]
        verifier.add(group, part)
        found += map(Frame, decode_row_group(footer, group, part))
    verifier.finish()
    return found
