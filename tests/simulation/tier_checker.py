"""What must hold where ledgers become objects: no record is anywhere less than somewhere.

It looks at every object itself, whenever a list begins to name one, whenever a ledger's entries go,
and whenever an object that a list names changes.
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
    """``Checker`` with an eye on the object store."""

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
                self.fail(f"ledger {ref.id} of {topic} was an object, and is none")

    def ledger_deleted(self, ledger: int) -> None:
        """Its entries may go if the topic's list names the object, and it has all records."""
        topic = self._topic_of[ledger]
        ref = next((ref for ref in self.topics[topic].list.ledgers if ref.id == ledger), None)
        if ref is None or ref.tiered is None:
            self.fail(f"the entries of ledger {ledger} go, and the list knows of no object")
        else:
            self._is_whole(topic, ref, "loses its entries")

    def object_changed(self, key: str, data: bytes | None) -> None:
        """The object store has an object, or has it no more."""
        self.trace.note(f"object {key[-46:]} {'is gone' if data is None else 'is put'}")
        for topic, model in self.topics.items():
            for ref in model.list.ledgers:
                if ref.tiered is not None and key_of(head_of(topic, ref)) == key:
                    self._is_whole(topic, ref, "has an object that changes")
                    if data is not None and len(data) != ref.tiered.size:
                        self.fail(f"the object of ledger {ref.id} of {topic} is another one now")

    def damaged(self) -> list[str]:
        """Objects that no list names and nobody can read."""
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
            self.fail(f"ledger {ref.id} of {topic} {what}, and there is no object")
            return
        try:
            found = _payloads(data)
        except SulinaError as error:
            self.fail(f"ledger {ref.id} of {topic} {what}, and the object is damaged: {error}")
            return
        if len(found) != ref.records:
            self.fail(f"ledger {ref.id} of {topic} {what}: {len(found)} of {ref.records} records")
        for offset, content in enumerate(found, ref.first_offset):
            self._is_at(self.topics[topic], offset, content, "in the object")


def _payloads(data: bytes) -> list[bytes]:
    """All records of an object. Raises ``SulinaError`` if it is not as it was made."""
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
