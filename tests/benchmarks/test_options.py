"""The command line, and what is planned from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.options import parse
from benchmarks.run import plan
from benchmarks.systems import SYSTEMS
from benchmarks.yardsticks import join, take


def test_without_options_everything_is_measured_three_times_for_five_seconds() -> None:
    options = parse([])
    assert options.systems == tuple(SYSTEMS)
    assert {"kafka", "kafka-3", "nats", "redis", "rabbitmq"} < set(options.systems)
    assert options.sizes == (100, 1024, 16384)
    assert (options.seconds, options.repeat, options.rate) == (5.0, 3, 5000)


def test_quick_is_one_second_once_unless_told_otherwise() -> None:
    assert (parse(["--quick"]).seconds, parse(["--quick"]).repeat) == (1.0, 1)
    assert parse(["--quick", "--repeat", "2"]).repeat == 2


def test_sulina_comes_first_in_whatever_order_systems_are_named() -> None:
    assert parse(["--systems", "redis,sulina"]).systems == ("sulina", "redis")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--systems", "zeromq"], "unknown system zeromq"),
        (["--loads", "fast"], "unknown load fast"),
        (["--sizes", "3"], "at least 16 bytes"),
        (["--sizes", "big"], "is not a size"),
        (["--seconds", "0"], "is not a positive number"),
    ],
)
def test_a_mistake_is_told_as_a_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(arguments)
    assert sentence in capsys.readouterr().err


def test_systems_take_turns_within_a_size_and_a_load() -> None:
    options = parse(["--sizes", "100,1k"])
    cells = plan(options, [SYSTEMS["sulina"], SYSTEMS["redis"]])
    assert [cell.key for cell in cells] == [
        "sulina-throughput-100",
        "redis-throughput-100",
        "sulina-throughput-1024",
        "redis-throughput-1024",
        "sulina-latency-1024",
        "redis-latency-1024",
        "sulina-loop-100",
        "redis-loop-100",
    ]


def test_a_rabbitmq_batch_fits_into_one_protocol_frame() -> None:
    for size in (100, 1024, 16384, 1 << 20):
        assert SYSTEMS["rabbitmq"].batch(size) * size <= 1 << 20


def test_the_yardsticks_measure_something_and_leave_nothing_behind(tmp_path: Path) -> None:
    reading = take(tmp_path, seconds=0.02, rate=1000, max_bytes=4 << 20)
    joined = join([reading, reading])
    assert joined.sequential_mb_per_s > 0
    assert joined.sync.samples == 2 * len(reading.sync_ms) > 0
    assert list(tmp_path.iterdir()) == []
