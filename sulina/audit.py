"""The records of the audit trail: their form, the hash chain that links them, and its verification.

Every broker writes a chain of its own: its records are numbered from 1, and each has the SHA-256 of
the one before it. The records of all brokers are in one topic. Everything here is pure.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final, get_type_hints

TOPIC: Final = "/system/audit"
"""Where the records are. Brokers write it; nobody can publish to it, change it or delete it."""
TRIM: Final = "audit.trim"
"""The operation of records that say before which offset retention deleted the trail."""
ERASED: Final = "ledger.erased"
"""The operation of records that say what an erasure did when it ended."""
NO_HASH: Final = "0" * 64
"""What the first record of a chain has in place of the hash of the one before."""
_MOST_TEXT: Final = 255
_MOST_DETAIL: Final = 1000
_MOST_PROBLEMS: Final = 1000
_MOST_REPEATED: Final = 1024


class AuditEvent(StrEnum):
    """What a record is about."""

    ACT = "act"
    """An administrative change: written before it begins."""
    OUTCOME = "outcome"
    """How that change ended."""
    SIGN_IN = "sign_in"
    REFUSAL = "refusal"
    FORWARDED = "forwarded"
    """A change that another broker forwarded, and recorded under the name of its caller."""


class AuditOutcome(StrEnum):
    """How it ended."""

    STARTED = "started"
    DONE = "done"
    FAILED = "failed"
    """Nothing was changed, or not everything."""
    UNKNOWN = "unknown"
    """It was interrupted: it may have been done or not."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """What happened, before it has a place in a chain."""

    time_us: int
    event: AuditEvent
    outcome: AuditOutcome
    principal: str
    address: str
    """Where the caller is."""
    door: str
    operation: str
    resource: str = ""
    allowed: bool = True
    detail: str = ""
    """The arguments of an act, or the text of an error."""
    act: int = 0
    """Of an outcome: the sequence of its act."""
    count: int = 1
    """How many equal events this record stands for."""
    last_us: int = 0
    """When the last of them happened, if there are several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord(AuditEntry):
    """An entry in the chain of a broker."""

    broker: str
    sequence: int
    previous: str
    """The hash of the record before it in the chain."""
    hash: str = ""

    @property
    def head(self) -> ChainHead:
        """The end of a chain whose last record this is."""
        return ChainHead(self.broker, self.sequence, self.hash)


@dataclass(frozen=True, slots=True)
class ChainHead:
    """The end of a broker's chain."""

    broker: str
    sequence: int = 0
    hash: str = NO_HASH
    offset: int = -1
    """Where it is in the topic; -1 if that is not known."""

    def next(self, entry: AuditEntry) -> AuditRecord:
        """The record that continues the chain. Long texts are cut."""
        values = {each.name: _shortened(each.name, getattr(entry, each.name)) for each in _ENTRY}
        values |= {"broker": self.broker, "sequence": self.sequence + 1, "previous": self.hash}
        return AuditRecord(**values, hash=hash_of(AuditRecord(**values)))


@dataclass(frozen=True, slots=True)
class TrailStart:
    """Where the trail begins once retention has deleted what was before an offset.

    Brokers store it in the metadata, and its digest in the record of the deletion, so that it
    can't be changed without breaking a chain.
    """

    offset: int
    ends: tuple[ChainHead, ...] = ()
    """The last record of each chain that is gone, by broker."""

    @property
    def digest(self) -> str:
        """A SHA-256 of all of it."""
        ends = [[each.broker, each.sequence, each.hash] for each in self.ends]
        return hashlib.sha256(_json({"offset": self.offset, "ends": sorted(ends)})).hexdigest()


def _shortened(name: str, value: Any) -> Any:
    if type(value) is not str:
        return value
    most = _MOST_DETAIL if name == "detail" else _MOST_TEXT
    cut = value if len(value) <= most else value[: most - 1] + "…"
    return cut.encode(errors="replace").decode()


def hash_of(record: AuditRecord) -> str:
    """The SHA-256 of everything that a record says, except of its own hash."""
    return hashlib.sha256(_json({**_values(record), "hash": None})).hexdigest()


def encode(record: AuditRecord) -> bytes:
    """A record as it is stored: JSON. Fields with their default value are left out."""
    return _json(_values(record))


def decode(payload: bytes) -> AuditRecord:
    """The stored record. Raises ``ValueError`` for anything that a broker does not write."""
    try:
        values = json.loads(payload)
        record = AuditRecord(
            **{
                **values,
                "event": AuditEvent(values["event"]),
                "outcome": AuditOutcome(values["outcome"]),
            }
        )
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"not an audit record: {error}") from None
    typed = all(type(getattr(record, name)) is kind for name, kind in _TYPES.items())
    if not typed or encode(record) != payload:
        raise ValueError("not an audit record: it was not written by a broker")
    return record


def _values(record: AuditRecord) -> dict[str, Any]:
    pairs = ((each, getattr(record, each.name)) for each in _RECORD)
    return {each.name: value for each, value in pairs if value != each.default}


def _json(values: dict[str, Any]) -> bytes:
    return json.dumps(values, sort_keys=True, separators=(",", ":")).encode()


_ENTRY: Final = fields(AuditEntry)
_RECORD: Final = fields(AuditRecord)
_TYPES: Final = get_type_hints(AuditRecord)


@dataclass(frozen=True, slots=True)
class AuditProblem:
    """Something wrong with the trail. ``offset`` is -1 if it is about the end of a chain."""

    offset: int
    text: str


class ChainVerifier:
    """Checks records, added in the order of their offsets; ``problems`` has what was found.

    A record that is missing, altered, out of order or from another chain is found. A record that
    is repeated unchanged is not a problem: a broker that does not learn whether its record was
    stored writes the same one again.
    """

    def __init__(
        self,
        heads: Iterable[ChainHead] = (),
        *,
        first: int = 0,
        starts: Iterable[TrailStart] = (),
    ) -> None:
        """``heads`` are ends of chains that were known before reading began. ``first`` is the
        offset at which the trail begins; not 0 if retention deleted what was before. ``starts``
        are what the brokers stored before they deleted."""
        self._heads = {each.broker: each for each in heads}
        self._first = first
        self._start = next((each for each in starts if first and each.offset == first), None)
        self._trimmed = 0
        self._digest = ""
        """Of the start, as the record of the deletion has it."""
        self.anchors: list[ChainHead] = [] if self._start is None else list(self._start.ends)
        """The last record of each chain before those that were added. If no start is stored, as
        before version 0.2, its hash is the one that the first record found has."""
        self._ends = {each.broker: each for each in self.anchors}
        self._recent: OrderedDict[tuple[str, int], str] = OrderedDict()
        self.records = 0
        self.problems: list[AuditProblem] = []

    @property
    def ends(self) -> list[ChainHead]:
        """The last record found of each chain."""
        return [each for each in self._ends.values() if each not in self.anchors]

    def add(self, offset: int, record: AuditRecord | None) -> None:
        """Check the next record; None for one that can't be decoded."""
        self.records += 1
        if record is None:
            self._wrong(offset, f"the record at offset {offset} can't be read: it was altered")
            return
        where = f"record {record.sequence} of {record.broker} (offset {offset})"
        if record.hash != hash_of(record):
            self._wrong(offset, f"{where} was altered: its hash does not match")
        key = record.broker, record.sequence
        if self._recent.get(key) == record.hash:
            return
        end = self._ends.get(record.broker)
        expected = 1 if end is None else end.sequence + 1
        self._note_trim(record)
        if end is None and self._first and self._start is None and record.sequence > 1:
            # The chain begins before the first record that was read.
            self.anchors.append(ChainHead(record.broker, record.sequence - 1, record.previous))
        elif record.sequence > expected:
            gap = _span(expected, record.sequence - 1)
            self._wrong(offset, f"{gap} of {record.broker} missing before offset {offset}")
        elif record.sequence < expected:
            self._wrong(offset, f"{where} is out of order: record {expected} should follow")
            return
        elif record.previous != (NO_HASH if end is None else end.hash):
            before = record.sequence - 1
            self._wrong(
                offset,
                f"{where} does not continue record {before}: one of the two was replaced",
            )
        self._ends[record.broker] = record.head
        self._recent[key] = record.hash
        if len(self._recent) > _MOST_REPEATED:
            self._recent.popitem(last=False)

    def finish(self) -> None:
        """All records were added: check that no chain ends too early."""
        if self._trimmed < self._first:
            self._wrong(
                -1,
                f"the records before offset {self._first} are missing, and no record says that "
                "retention deleted them",
            )
        elif self._digest != ("" if self._start is None else self._start.digest):
            self._wrong(
                -1,
                f"what the metadata has about the records before offset {self._first} was altered: "
                "it is not what the record of their deletion says",
            )
        for head in self._heads.values():
            if head.broker not in self._ends and 0 <= head.offset < self._first:
                continue  # retention deleted all of it
            end = self._ends.get(head.broker, ChainHead(head.broker))
            if end.sequence < head.sequence:
                gap = _span(end.sequence + 1, head.sequence)
                self._wrong(-1, f"{gap} of {head.broker} missing at the end")
            elif end.sequence == head.sequence and end.hash != head.hash:
                self._wrong(-1, f"record {end.sequence}, the last of {head.broker}, was replaced")

    def _note_trim(self, record: AuditRecord) -> None:
        """Take what a record says about the deletion of old ones, if that is what it is about."""
        if record.operation != TRIM or record.event is not AuditEvent.ACT:
            return
        try:
            said = json.loads(record.detail)
            before = int(said["before"])
        except (ValueError, LookupError, TypeError):
            return
        self._trimmed = max(self._trimmed, before)
        if before == self._first:
            self._digest = str(said.get("ends", ""))

    def _wrong(self, offset: int, text: str) -> None:
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(AuditProblem(offset, text))


def _span(first: int, last: int) -> str:
    return f"record {first}" if first == last else f"records {first} to {last}"
