"""Invariants of offloading: every record is in its ledger's entries or in a verified object.

It opens an object itself whenever a list starts to name it, whenever the entries of its ledger are
deleted, and whenever a named object changes.
"""

from __future__ import annotations

from storage_grpc.tier.tier import head_of, key_of
from sulina.errors import SulinaError
from sulina.lake.decoder import NeedMore, Verifier, decode_row_group, open_footer
from sulina.metadata.keys.ledgers import LedgerList, LedgerRef
from sulina.names import TopicName
from sulina.wire.decode import Frame
from tests.simulation.checker import Checker


class TierChecker(Checker):
    """``Checker`` that also checks the object store."""

    objects: dict[str, bytes]

    def _list_changed(self, topic: TopicName, now: LedgerList) -> None:
        before = {ref.id: ref for ref in self.topics[topic].list.ledgers}
        super()._list_changed(topic, now)
        for ref in now.ledgers:
            known = before.get(ref.id)
            if ref.tiered is not None and (known is None or known.tiered is None):
                self.trace.note(f"{topic.local} ledger {ref.id} is an object")
                self._is_whole(topic, ref, "is named as an object")
            if known is not None and known.tiered is not None and ref.tiered is None:
                self.fail(f"the list of {topic} no longer names the object of ledger {ref.id}")

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
                    self._is_whole(topic, ref, "has an object that changes")
                    if data is not None and len(data) != ref.tiered.size:
                        self.fail(f"the object of ledger {ref.id} of {topic} was overwritten")

    def damaged(self) -> list[str]:
        """Damaged objects that no list names."""
        named = {
            key_of(head_of(topic, ref))
            for topic, model in self.topics.items()
            for ref in model.list.ledgers
            if ref.tiered is not None
        }
        found = []
        for key, data in self.objects.items():
            try:
                _payloads(data)
            except SulinaError:
                if key not in named:
                    found.append(key)
        return found

    def _is_whole(self, topic: TopicName, ref: LedgerRef, what: str) -> None:
        data = self.objects.get(key_of(head_of(topic, ref)))
        if data is None:
            self.fail(f"ledger {ref.id} of {topic} {what}, but there is no object")
            return
        try:
            found = _payloads(data)
        except SulinaError as error:
            self.fail(f"ledger {ref.id} of {topic} {what}, but the object is damaged: {error}")
            return
        if len(found) != ref.records:
            self.fail(f"ledger {ref.id} of {topic} {what}: {len(found)} of {ref.records} records")
        for offset, content in enumerate(found, ref.first_offset):
            self._is_at(self.topics[topic], offset, content, "in the object")


def _payloads(data: bytes) -> list[bytes]:
    """All records of an object. Raises ``SulinaError`` if it is damaged."""
    footer = open_footer(data, len(data))
    assert not isinstance(footer, NeedMore)
    verifier = Verifier(footer)
    found: list[bytes] = []
    for group in footer.row_groups:
        part = data[group.start : group.end]
        verifier.add(group, part)
        for frame in decode_row_group(footer, group, part):
            found += map(bytes, Frame(frame).payloads)
    verifier.finish()
    return found
