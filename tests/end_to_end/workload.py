"""The published records: a few topics that cover all variants of records.

Records are generated from a seed, in chunks, so that they need not be stored to be compared.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

CHUNK: Final = 1000
"""How many records a producer is given at once."""
_REGIONS: Final = ("eu-north-1", "eu-south-2", "us-east-2", "ap-south-1")
_STATES: Final = ("new", "paid", "packed", "sent", "returned")
_PAGES: Final = ("/", "/cart", "/search?q=lamp", "/item/1843", "/checkout", "/help/returns")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Records that are published together, one list per column."""

    payloads: list[bytes]
    keys: list[bytes | None] | None
    attributes: list[dict[str, str] | None] | None

    @property
    def bytes(self) -> int:
        """The size of all payloads."""
        return sum(map(len, self.payloads))


@dataclass(frozen=True, slots=True)
class ProofWorkload:
    """A topic and the kind of its records."""

    topic: str
    share: float
    """Share of all records."""
    partitions: int
    """0 means an unpartitioned topic."""
    compression: str

    @property
    def producer(self) -> str:
        """The name of its only producer, so that offsets equal sequence numbers."""
        return f"{self.topic.rpartition('/')[2]}-source"

    def chunks(self, records: int, seed: str) -> Iterator[Chunk]:
        """Generate ``records`` records; the same seed gives the same records."""
        rng = random.Random(f"{seed} {self.topic}")
        for start in range(0, records, CHUNK):
            yield _MAKERS[self.topic](rng, min(CHUNK, records - start))


def _orders(rng: random.Random, count: int) -> Chunk:
    """JSON with keys and, mostly, attributes: compresses well."""
    keys: list[bytes | None] = [b"customer-%d" % rng.randrange(5000) for _ in range(count)]
    payloads = [
        json.dumps(
            {
                "customer": str(key, "ascii") if key else "",
                "state": rng.choice(_STATES),
                "cents": rng.randrange(100, 90_000),
                "items": [rng.randrange(9999) for _ in range(rng.randrange(1, 5))],
                "comment": "leave it at the door, please " * rng.randrange(4),
            }
        ).encode()
        for key in keys
    ]
    attributes: list[dict[str, str] | None] = [
        {"region": rng.choice(_REGIONS), "trace": f"{rng.getrandbits(64):016x}"}
        if rng.random() < 0.8
        else None
        for _ in range(count)
    ]
    return Chunk(payloads, keys, attributes)


def _clicks(rng: random.Random, count: int) -> Chunk:
    """Short lines with keys."""
    keys: list[bytes | None] = [b"%08x" % rng.randrange(20_000) for _ in range(count)]
    payloads = [
        f"GET {rng.choice(_PAGES)} 200 {rng.randrange(9000)} agent/5.0 (compatible)".encode()
        for _ in range(count)
    ]
    return Chunk(payloads, keys, None)


def _images(rng: random.Random, count: int) -> Chunk:
    """Bytes that nothing compresses, without keys."""
    return Chunk([rng.randbytes(rng.randrange(300, 1500)) for _ in range(count)], None, None)


def _events(rng: random.Random, count: int) -> Chunk:
    """All kinds in one frame: empty and large, with and without key, text of many alphabets."""
    payloads, keys, attributes = [], list[bytes | None](), list[dict[str, str] | None]()
    for number in range(count):
        kind = number % 4
        payloads.append((b"", rng.randbytes(200), b"tick " * 60, b"\x00\xff")[kind])
        keys.append((None, b"", rng.randbytes(8), "ключ".encode())[rng.randrange(4)])
        attributes.append((None, {}, {"unité": "°C", "empty": ""})[rng.randrange(3)])
    return Chunk(payloads, keys, attributes)


ORDERS: Final = ProofWorkload("/default/orders", 0.40, 4, "none")
CLICKS: Final = ProofWorkload("/default/clicks", 0.30, 2, "zstd")
IMAGES: Final = ProofWorkload("/default/images", 0.15, 0, "none")
EVENTS: Final = ProofWorkload("/default/events", 0.15, 0, "lz4")
WORKLOADS: Final = (ORDERS, CLICKS, IMAGES, EVENTS)
_MAKERS: Final = {
    ORDERS.topic: _orders,
    CLICKS.topic: _clicks,
    IMAGES.topic: _images,
    EVENTS.topic: _events,
}


def shares(records: int) -> dict[ProofWorkload, int]:
    """How many records of each; all of them together are ``records``."""
    counts = {each: int(records * each.share) for each in WORKLOADS}
    counts[ORDERS] += records - sum(counts.values())
    return counts
