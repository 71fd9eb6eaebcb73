"""Parts that need no broker: positions, sizes, histograms, lines from a pipe."""

from __future__ import annotations

import os
from datetime import datetime

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_containers.commands.serving import recovery_summary
from storage_grpc.journal.recover import RecoveryReport
from sulina.cli.bench.histogram import LatencyHistogram
from sulina.cli.messages.sources import Pacer
from sulina.cli.output import moment, plural, readable_limits, size, words
from sulina.cli.params import limit, position
from sulina.cli.pipes import lines_of
from sulina.metadata.keys.policy import Policy
from sulina.model import Start


def test_a_position_is_a_word_an_offset_or_a_time() -> None:
    assert position("latest") == Start.latest()
    assert position("earliest") == Start.earliest()
    assert position("1200") == Start.offset(1200)
    assert position("1970-01-01T00:00:01.5Z") == Start.time(1_500_000)
    assert position("1970-01-01T01:00:01+01:00") == Start.time(1_000_000)
    local = datetime(2026, 5, 1, 12, 30).astimezone()
    assert position("2026-05-01T12:30") == Start.time(int(local.timestamp()) * 1_000_000)
    with pytest.raises(click.BadParameter, match="is not a position"):
        position("-5")


def test_values_are_printed_for_people() -> None:
    assert [words(value) for value in (None, True, 12345, "", [1, "a"], 0.5)] == [
        "-",
        "yes",
        "12,345",
        "-",
        "1, a",
        "0.50",
    ]
    assert (plural(1, "message"), plural(1000, "message")) == ("1 message", "1,000 messages")
    assert [size(count) for count in (7, 1_500, 2_000_000, 5e12)] == [
        "7 B",
        "1.5 kB",
        "2.0 MB",
        "5000.0 GB",
    ]
    assert moment(1_500_000) == "1970-01-01T00:00:01.500000Z"
    assert moment(1 << 62) == str(1 << 62)


@given(st.lists(st.integers(0, 1 << 50), min_size=1), st.floats(0.1, 100))
def test_a_percentile_is_within_a_bucket_of_the_true_one(values: list[int], share: float) -> None:
    histogram = LatencyHistogram()
    for value in values:
        histogram.add(value)
    again = LatencyHistogram(histogram.buckets())
    assert len(again) == len(values)
    found = again.percentile(share)
    assert found is not None
    true = next(
        value
        for place, value in enumerate(sorted(values), start=1)
        if place >= len(values) * share / 100
    )
    assert true * 31 / 32 <= found <= true


def test_an_empty_histogram_has_no_percentile() -> None:
    assert LatencyHistogram().percentile(50) is None


@given(st.lists(st.binary(max_size=50).filter(lambda line: b"\n" not in line)))
async def test_lines_come_out_as_they_went_in(lines: list[bytes]) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"".join(line + b"\n" for line in lines))
    os.close(writing)
    counted = 0

    def count(read: int) -> None:
        nonlocal counted
        counted += read

    try:
        got = [line async for batch in lines_of(reading, count) for line in batch]
    finally:
        os.close(reading)
    assert got == lines
    assert counted == sum(len(line) + 1 for line in lines)


async def test_reading_waits_until_the_lines_were_taken() -> None:
    reading, writing = os.pipe()
    batches = lines_of(reading, lambda _: None)
    os.write(writing, b"one\n")
    assert await anext(batches) == [b"one"]
    os.write(writing, b"two\n")
    assert os.read(reading, 100) == b"two\n"  # still in the pipe, for nobody asked
    os.close(writing)
    assert [batch async for batch in batches] == []
    os.close(reading)


async def test_a_pacer_changes_neither_messages_nor_order() -> None:
    messages = [str(number).encode() for number in range(100)]

    async def batches() -> object:
        yield messages[:70]
        yield messages[70:]

    for rate in (None, 10_000.0):
        paced = Pacer(rate).paced(batches())  # type: ignore[arg-type]  # a generator, in short
        assert [message async for batch in paced for message in batch] == messages


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"files": 0, "records": 0}, "empty folder"),
        ({}, "1,000 records in 2 journal files (5.0 MB), checked in 0.25 s"),
        ({"cut_bytes": 10, "stopped": False}, "cut off 10 B of incomplete, unacknowledged writes"),
        ({"stopped": False}, "the last stop was not clean"),
        ({"corrupt_records": 1, "stopped": False}, "DAMAGED in 1 place"),
    ],
)
def test_the_recovery_summary_is_one_line(changes: dict[str, object], expected: str) -> None:
    fields: dict[str, object] = {
        "stopped": True,
        "files": 2,
        "scanned_files": 1,
        "records": 1000,
        "bytes": 5_000_000,
        "cut_bytes": 0,
        "corrupt_records": 0,
        "damaged": (),
        "seconds": 0.25,
    }
    line = recovery_summary(RecoveryReport(**{**fields, **changes}))  # type: ignore[arg-type]  # by name
    assert expected in line and "\n" not in line


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("retention_ms=7d", ("retention_ms", 604_800_000)),
        ("retention_ms=1500", ("retention_ms", 1500)),
        ("retention_bytes=10GB", ("retention_bytes", 10**10)),
        ("max_message_size=2MiB", ("max_message_size", 2 << 20)),
        ("compact=true", ("compact", True)),
        ("ttl_ms=default", ("ttl_ms", None)),
    ],
)
def test_limits_take_units(given: str, found: tuple[str, object]) -> None:
    assert limit(given) == found


@pytest.mark.parametrize("given", ["retention_ms=7GB", "max_producers=3d", "compact=", "=7d", "7d"])
def test_a_limit_that_makes_no_sense_is_explained(given: str) -> None:
    with pytest.raises(click.BadParameter, match="write NAME=VALUE, as in retention_ms=7d"):
        limit(given)


def test_limits_are_shown_with_units_and_with_what_0_means() -> None:
    shown = readable_limits(Policy(ttl_ms=5_400_000, tombstone_retention_ms=0))
    assert shown["ttl_ms"] == "5,400,000 (90 m)"
    assert shown["max_message_size"] == "10,485,760 (10.5 MB)"
    assert (shown["retention_ms"], shown["tombstone_retention_ms"]) == ("no limit", "for good")
    assert (shown["local_retention_ms"], shown["compact"]) == ("as tier.local_seconds says", False)
