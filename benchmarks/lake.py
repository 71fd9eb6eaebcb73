"""``python -m benchmarks.lake``: how fast ledgers are encoded as Parquet and decoded.

Uses one core and no object store: encodes a ledger's frames, decodes the object to frames, and
verifies it as after an upload (every byte, every frame, the digest). Rates are bytes of
uncompressed frames per CPU time, which other work on the machine affects least. The baseline is
pyarrow alone, writing the same columns.

Then the typed columns of topics with a schema: orders of 200 bytes in each format, encoded with
and without them in turns.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from random import Random
from statistics import median
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks.lake_orders import OrderFormat, formats, make_orders
from benchmarks.program import OutputOptions, option, parse, table_of, write_document
from sulina.lake.arrow import frames_to_batch
from sulina.lake.decoder import Footer, NeedMore, Verifier, decode_row_group, open_footer
from sulina.lake.encoder import LedgerEncoder
from sulina.lake.schema import VALUE, VALUE_ERROR, WRITER_OPTIONS
from sulina.lake.summary import ObjectHead
from sulina.lake.typed.columns import PayloadDecoder
from sulina.lake.typed.table import TableSchema
from sulina.lake.typed_object import TypedObject
from sulina.names import TopicName
from sulina.wire.compression import Compression
from sulina.wire.encode import Origin, encode_frame
from sulina.wire.header import assign

GOAL_ENCODE = 150.0
"""MB/s per core, for frames as large as those of a busy producer."""
_AT_ONCE = 1024
"""How many frames the encoder gets at once, as from a storage node."""
_PAYLOADS = 50_000
"""Different payloads in a ledger: too many for a compressor to see one twice."""
_PRODUCERS = 8
_START_US = 1_750_000_000_000_000
_ORDER_BYTES = 200
_ORDERS_A_FRAME = 1000


@dataclass(frozen=True, slots=True)
class FrameProfile:
    """The properties of a ledger's frames."""

    name: str
    records: int
    """Records per frame."""
    size: int
    """Bytes per payload."""
    keys: bool = False
    attributes: bool = False
    noise: bool = False
    """Incompressible payloads instead of JSON."""
    compression: Compression = Compression.NONE


KINDS = (
    FrameProfile("100 B", 1000, 100),
    FrameProfile("200 B, keys", 1000, 200, keys=True),
    FrameProfile("200 B, keys, lz4 frames", 1000, 200, keys=True, compression=Compression.LZ4),
    FrameProfile("200 B, keys, attributes", 1000, 200, keys=True, attributes=True),
    FrameProfile("1 KiB of noise", 200, 1024, noise=True),
    FrameProfile("100 B, one record a frame", 1, 100),
    FrameProfile("1 KiB, keys, one record a frame", 1, 1024, keys=True),
)


@dataclass(frozen=True, slots=True)
class LakeRates:
    """Rates in MB/s of uncompressed frames, the best of all repetitions."""

    name: str
    frames: int
    records: int
    frame_bytes: int
    object_bytes: int
    encode: float
    decode: float
    verify: float
    parquet: float

    @property
    def microseconds_a_frame(self) -> float:
        return self.frame_bytes / self.frames / self.encode


@dataclass(frozen=True, slots=True)
class TypedRates:
    """Encoding with typed columns, compared with encoding without."""

    name: str
    payload_bytes: float
    """Per record."""
    untyped: float
    """Records per second of CPU time, the best of all repetitions."""
    typed: float
    ratio: float
    """Typed to untyped: the median of the repetitions' ratios."""
    wall_ratio: float
    """The same by the clock."""
    may_cost: float
    """What typed columns could take to meet the goal, in nanoseconds of CPU a record."""
    decode: float
    """What decoding the payloads takes, likewise."""
    write: float
    """What writing the columns takes, without the others."""
    write_plain: float
    """The same without compression."""
    overhead: float
    """By how much the object is larger, as a share of the object without typed columns."""
    bytes_a_record: float
    """The typed columns in the object."""


@dataclass(frozen=True, slots=True)
class LakeOptions(OutputOptions):
    """The command line's options."""

    megabytes: int = option(40, "MB of payload per ledger")
    repeat: int = option(3, "number of repetitions, of which the best counts")


def main() -> int:
    """Run the benchmark; exits with 1 if encoding misses its goal."""
    options = parse(LakeOptions, "lake", __doc__, None)
    console = Console(stderr=options.json)
    results = [measure(kind, options.megabytes * 1_000_000, options.repeat) for kind in KINDS]
    console.print(_table(results, options.megabytes))
    size = options.megabytes * 1_000_000
    typed = [measure_typed(each, words, size, options.repeat) for each, words in formats()]
    console.print(_typed_table(typed))
    console.print(_cost_table(typed))
    measured = [*map(asdict, results), *map(asdict, typed)]
    document = json.dumps(measured, indent=1)
    write_document(document, options.out / "lake.json", show=options.json)
    busy = [result for result, kind in zip(results, KINDS, strict=True) if kind.records > 1]
    return 0 if all(result.encode >= GOAL_ENCODE for result in busy) else 1


def measure(kind: FrameProfile, size: int, repeat: int) -> LakeRates:
    """The rates for a ledger of about ``size`` bytes of payload."""
    frames = make_frames(kind, max(size // (kind.records * kind.size), 1))
    data = _encode(frames)
    footer = _footer(data)
    batch = frames_to_batch(frames)
    inflated = sum(map(len, _decode(footer, data)))

    def rate(work: Callable[[], object]) -> float:
        return inflated / min(_seconds(work).cpu for _ in range(repeat)) / 1e6

    return LakeRates(
        name=kind.name,
        frames=len(frames),
        records=footer.summary.records,
        frame_bytes=inflated,
        object_bytes=len(data),
        encode=rate(lambda: _encode(frames)),
        decode=rate(lambda: _decode(footer, data)),
        verify=rate(lambda: _verify(footer, data)),
        parquet=rate(lambda: _write(batch, WRITER_OPTIONS)),
    )


def measure_typed(format_: OrderFormat, words: int, size: int, repeat: int) -> TypedRates:
    """The rates for orders of one format, about ``size`` bytes of them."""
    count = max(size // _ORDER_BYTES, _ORDERS_A_FRAME)
    payloads = [format_.encode(order) for order in make_orders(count, words)]
    frames = []
    for first in range(0, count, _ORDERS_A_FRAME):
        some = payloads[first : first + _ORDERS_A_FRAME]
        times = [_START_US + 50 * (first + place) for place in range(len(some))]
        keys = [b"customer-%d" % (place % 1000) for place in range(len(some))]
        origin = Origin(f"producer-{first % _PRODUCERS}", 1, 1)
        frame = bytearray(encode_frame(origin, first, some, times, keys=keys))
        assign(frame, first, 1)
        frames.append(bytes(frame))
    table = format_.table
    batch = frames_to_batch(frames)
    decoder, typed = PayloadDecoder(table), TypedObject(table)
    whole, _ = typed.add_to(batch, decoder)
    alone = whole.select([VALUE, VALUE_ERROR])
    options = typed.writer_options(whole)
    plain = {**options, "compression": "none", "compression_level": None}
    without, with_ = len(_encode(frames)), len(_encode(frames, table))
    pairs = [
        (_seconds(lambda: _encode(frames)), _seconds(lambda: _encode(frames, table)))
        for _ in range(repeat)
    ]
    untyped = min(one.cpu for one, _ in pairs) / count

    def nanoseconds(work: Callable[[], object]) -> float:
        return 1e9 * min(_seconds(work).cpu for _ in range(repeat)) / count

    return TypedRates(
        name=format_.name,
        payload_bytes=sum(map(len, payloads)) / count,
        untyped=1 / untyped,
        typed=count / min(other.cpu for _, other in pairs),
        ratio=median(one.cpu / other.cpu for one, other in pairs),
        wall_ratio=median(one.wall / other.wall for one, other in pairs),
        may_cost=1e9 * untyped * (1 / format_.goal - 1),
        decode=nanoseconds(lambda: typed.add_to(batch, decoder)),
        write=nanoseconds(lambda: _write(alone, options)),
        write_plain=nanoseconds(lambda: _write(alone, plain)),
        overhead=with_ / without - 1,
        bytes_a_record=(with_ - without) / count,
    )


def make_frames(kind: FrameProfile, count: int) -> list[bytes]:
    """Frames as brokers store them; the same in each run."""
    random = Random(1)
    payloads = [_payload(kind, random) for _ in range(min(count * kind.records, _PAYLOADS))]
    keys = [b"customer-%d" % number for number in range(1000)]
    attributes = [{"region": f"r-{number}", "trace": f"{number:016x}"} for number in range(50)]
    frames: list[bytes] = []
    for number in range(count):
        first = number * kind.records
        frame = bytearray(
            encode_frame(
                Origin(f"producer-{number % _PRODUCERS}", 1, 1),
                first,
                random.choices(payloads, k=kind.records),
                [_START_US + 50 * (first + place) for place in range(kind.records)],
                keys=random.choices(keys, k=kind.records) if kind.keys else None,
                attributes=random.choices(attributes, k=kind.records) if kind.attributes else None,
                compression=kind.compression,
            )
        )
        assign(frame, first, 1)
        frames.append(bytes(frame))
    return frames


def _payload(kind: FrameProfile, random: Random) -> bytes:
    if kind.noise:
        return random.randbytes(kind.size)
    text = ""
    while len(text) < kind.size:
        event = {
            "order": random.randrange(10**8),
            "state": random.choice(["new", "paid", "packed", "sent"]),
            "amount": random.randrange(10**5) / 100,
        }
        text += json.dumps(event)
    return text[: kind.size].encode()


def _encode(frames: Sequence[bytes], table: TableSchema | None = None) -> bytes:
    encoder = LedgerEncoder(ObjectHead(TopicName("default", "orders"), 1, 0), table=table)
    chunks: list[bytes] = []
    for start in range(0, len(frames), _AT_ONCE):
        chunks += encoder.add(frames[start : start + _AT_ONCE])
    last, _ = encoder.finish()
    return b"".join(chunks + last)


def _footer(data: bytes) -> Footer:
    footer = open_footer(data, len(data))
    assert not isinstance(footer, NeedMore)
    return footer


def _decode(footer: Footer, data: bytes) -> list[bytes]:
    frames: list[bytes] = []
    for group in footer.row_groups:
        frames += decode_row_group(footer, group, data[group.start : group.end])
    return frames


def _verify(footer: Footer, data: bytes) -> None:
    verifier = Verifier(footer)
    for group in footer.row_groups:
        verifier.add(group, data[group.start : group.end])
    verifier.finish()


def _write(batch: pa.RecordBatch, options: dict[str, Any]) -> None:
    with pq.ParquetWriter(pa.BufferOutputStream(), batch.schema, **options) as writer:
        writer.write_batch(batch)


class _Seconds(NamedTuple):
    cpu: float
    wall: float


def _seconds(work: Callable[[], object]) -> _Seconds:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return _Seconds(time.process_time() - cpu, time.perf_counter() - wall)


def _table(results: Sequence[LakeRates], megabytes: int) -> Table:
    table = table_of(
        f"ledgers of {megabytes:,} MB of payload to Parquet and back, on one core",
        *("payload", "encode", "us a frame", "decode", "verify", "pyarrow alone", "object"),
        caption=f"MB/s of frames by CPU time; goal: encode at {GOAL_ENCODE:g} or more "
        "where producers pack records together",
    )
    for result in results:
        table.add_row(
            result.name,
            f"{result.encode:.0f}",
            f"{result.microseconds_a_frame:.1f}",
            f"{result.decode:.0f}",
            f"{result.verify:.0f}",
            f"{result.parquet:.0f}",
            f"{result.object_bytes / result.frame_bytes:.0%}",
        )
    return table


def _typed_table(results: Sequence[TypedRates]) -> Table:
    table = table_of(
        "orders with typed columns, on one core",
        *("format", "payload", "untyped", "typed", "ratio", "by the clock", "larger", "columns"),
        caption="thousand records/s by CPU time; goal: a ratio of 60 % for JSON, 80 % for others",
    )
    for result in results:
        table.add_row(
            result.name,
            f"{result.payload_bytes:.0f} B",
            *(f"{rate / 1000:,.0f}" for rate in (result.untyped, result.typed)),
            f"{result.ratio:.0%}",
            f"{result.wall_ratio:.0%}",
            f"{result.overhead:.0%}",
            f"{result.bytes_a_record:.0f} B a record",
        )
    return table


def _cost_table(results: Sequence[TypedRates]) -> Table:
    table = table_of(
        "what typed columns may cost for these goals, and what their parts cost",
        *("format", "may cost", "decode", "write", "write uncompressed"),
        caption="nanoseconds of CPU a record",
    )
    for result in results:
        costs = (result.may_cost, result.decode, result.write, result.write_plain)
        table.add_row(result.name, *(f"{each:,.0f}" for each in costs))
    return table


if __name__ == "__main__":
    sys.exit(main())
