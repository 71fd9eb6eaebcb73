"""A lake in a folder, made of real frames by the real encoder, for tests of who reads it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sulina.lake.decoder import Footer, decode_row_group, open_footer
from sulina.lake.encoder import EncoderSettings, LedgerEncoder
from sulina.lake.layout import object_key
from sulina.lake.summary import ObjectHead, ObjectSummary
from sulina.lake.typed.table import TableSchema
from sulina.names import TopicName
from sulina.wire.encode import Origin, encode_frame
from sulina.wire.header import assign, parse_header

NOON = 1_777_636_800_000_000
"""2026-05-01T12:00:00Z in microseconds."""
FRAME = 50


@dataclass
class LakeFolder:
    """Objects of topics, ledger by ledger. A record's offset decides its time, key and payload."""

    root: Path
    row_group_bytes: int = 4 << 10
    ends: dict[str, int] = field(default_factory=dict)
    ledgers: int = 100

    def add(
        self,
        topic: str,
        count: int,
        *,
        payloads: Sequence[bytes] | None = None,
        time_us: int | Callable[[int], int] | None = None,
        schema: tuple[int, int] = (0, 0),
        plain: bool = False,
        table: TableSchema | None = None,
        attributes: Sequence[Mapping[str, str] | None] | None = None,
    ) -> ObjectSummary:
        """One more ledger of ``count`` records, a second apart from noon on.

        ``time_us`` is the time of all, or gives it for an offset.

        Those of a ``plain`` one have neither keys nor attributes. With a ``table``, the object has
        its typed columns.
        """
        name = TopicName.parse(topic)
        times = time_us if callable(time_us) else time_of
        first = self.ends.get(topic, 0)
        self.ledgers += 1
        encoder = LedgerEncoder(
            ObjectHead(name, self.ledgers, first), EncoderSettings(self.row_group_bytes), table
        )
        chunks: list[bytes] = []
        for start in range(first, first + count, FRAME):
            offsets = range(start, min(start + FRAME, first + count))
            bodies = (
                [payload_of(offset) for offset in offsets]
                if payloads is None
                else list(payloads[start - first : start - first + len(offsets)])
            )
            frame = bytearray(
                encode_frame(
                    Origin(f"p{start // FRAME % 2}", *schema),
                    start,
                    bodies,
                    [time_us if isinstance(time_us, int) else times(offset) for offset in offsets],
                    keys=None if plain else [key_of(offset) for offset in offsets],
                    attributes=None
                    if plain
                    else [
                        attributes_of(offset) if attributes is None else attributes[offset - first]
                        for offset in offsets
                    ],
                )
            )
            assign(frame, start, 1)
            chunks += encoder.add([bytes(frame)])
        last, summary = encoder.finish()
        self.put(object_key(name, first, self.ledgers), b"".join([*chunks, *last]))
        self.ends[topic] = first + count
        return summary

    def replace(
        self,
        old: Sequence[Path],
        generation: int,
        table: TableSchema | None = None,
        without: range = range(0),
    ) -> Path:
        """One object with the records of ``old``, which stay, as a storage node makes it.

        Frames that begin at an offset in ``without`` are left out.
        """
        footers = [open_footer(path.read_bytes(), path.stat().st_size) for path in old]
        first, last = footers[0], footers[-1]
        assert isinstance(first, Footer) and isinstance(last, Footer)
        start, end = first.summary, last.summary
        head = ObjectHead(end.topic, end.ledger, start.first_offset, generation, end.last_offset)
        settings = EncoderSettings(self.row_group_bytes)
        encoder = LedgerEncoder(head, settings, table, sparse=True)
        chunks: list[bytes] = []
        for path, footer in zip(old, footers, strict=True):
            assert isinstance(footer, Footer)
            for group in footer.row_groups:
                data = path.read_bytes()[group.start : group.end]
                frames = decode_row_group(footer, group, data)
                kept = [each for each in frames if parse_header(each).base_offset not in without]
                chunks += encoder.add(kept)
        rest, _ = encoder.finish()
        place = head.first_offset, head.ledger, generation, head.last_offset
        key = object_key(head.topic, *place)
        self.put(key, b"".join([*chunks, *rest]))
        return self.root / key

    def put(self, key: str, data: bytes) -> None:
        """An object, there as a whole at once."""
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name("." + path.name)
        part.write_bytes(data)
        part.rename(path)

    def age(self, seconds: float) -> None:
        """Make all objects look as if they had been written so long ago."""
        for path in self.objects():
            then = path.stat().st_mtime - seconds
            os.utime(path, (then, then))

    def objects(self, topic: str = "") -> list[Path]:
        """All objects, or those of a topic, in the order of their offsets."""
        return sorted(self.root.glob(f"ledgers/*/topic={topic or '*'}/*/*.parquet"))


def time_of(offset: int) -> int:
    """Microseconds."""
    return NOON + offset * 1_000_000


def payload_of(offset: int) -> bytes:
    """A small JSON text."""
    return json.dumps({"id": offset, "amount": offset / 4, "note": f"n{offset}"}).encode()


def key_of(offset: int) -> bytes | None:
    """Every tenth record has no key."""
    return None if offset % 10 == 9 else b"k%d" % (offset % 7)


def attributes_of(offset: int) -> Mapping[str, str] | None:
    """Every third record has some."""
    return {"source": "web", "n": str(offset)} if offset % 3 == 0 else None
