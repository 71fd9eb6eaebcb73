"""A stream reads each record once: over batches, restarts and versions of Spark, or it stops."""

from __future__ import annotations

from typing import Any

import pytest

from emr_jobs.source.batch import SlicesPartition
from emr_jobs.source.datasource import SulinaDataSource
from emr_jobs.source.stream import StreamReader
from sulina.errors import Refused
from tests.spark.lake_folder import LakeFolder, time_of

ORDERS = "/default/orders"
Offset = dict[str, Any]


class Driver:
    """Asks a reader as Spark 4.0 does, or with ``tells`` as 4.2 does, and keeps the checkpoint."""

    def __init__(self, lake: LakeFolder, *, tells: bool = False, **options: Any) -> None:
        given = {"path": lake.root, "topic": ORDERS, **options}
        self._options = {name: str(value) for name, value in given.items()}
        self._tells = tells
        self.offset: Offset | None = None
        self.planned: Offset | None = None
        self.seen: list[int] = []
        self.start()

    def start(self) -> None:
        """A new process: all that was in memory is gone."""
        source = SulinaDataSource(self._options)
        self.reader: StreamReader = source.streamReader(source.schema())
        if not self._tells and self.offset is not None:
            assert self.reader.partitions(self.offset, self.offset) == []
        if self.planned is not None:
            self._run(self.planned)

    def batch(self, *, crash: bool = False) -> int:
        """Run a batch, or end after its plan is in the checkpoint. How many records it has."""
        if self._tells:
            start = self.offset or self.reader.initialOffset()
            end = self.reader.latestOffset(start, self.reader_limit())
        else:
            end = self.reader.latestOffset()
        self.planned = end
        if crash:
            return 0
        return self._run(end)

    def reader_limit(self) -> object:
        class Limit:
            max_rows = 70

        return Limit()

    def _run(self, end: Offset) -> int:
        start = self.offset or self.reader.initialOffset()
        found = []
        for partition in self.reader.partitions(start, end):
            assert isinstance(partition, SlicesPartition)
            for batch in self.reader.read(partition):
                found += batch.column("offset").to_pylist()
        self.seen += found
        self.offset, self.planned = end, None
        return len(found)


def test_batches_follow_on_each_other_as_objects_come(lake: LakeFolder) -> None:
    lake.add(ORDERS, 100)
    driver = Driver(lake)
    assert driver.batch() == 100
    assert driver.batch() == 0
    lake.add(ORDERS, 60)
    lake.add(ORDERS, 40)
    assert driver.batch() == 100
    assert driver.seen == list(range(200))
    assert driver.offset == {ORDERS: {"0": 200}}


@pytest.mark.parametrize("tells", [False, True])
def test_a_restart_neither_repeats_nor_loses(lake: LakeFolder, tells: bool) -> None:
    for _ in range(3):
        lake.add(ORDERS, 100)
    driver = Driver(lake, tells=tells, maxRecordsPerTrigger=70)
    assert driver.batch() == 70
    driver.start()
    assert driver.batch() == 70
    driver.batch(crash=True)
    lake.add(ORDERS, 50)
    driver.start()
    while driver.batch():
        driver.start()
    assert driver.seen == list(range(350))


def test_a_crash_in_the_first_batch_does_not_lose_it(lake: LakeFolder) -> None:
    lake.add(ORDERS, 100)
    driver = Driver(lake)
    driver.batch(crash=True)
    lake.add(ORDERS, 20)
    driver.start()
    driver.batch()
    assert driver.seen == list(range(120))


def test_a_limit_is_shared_between_partitions_and_none_waits_for_ever(lake: LakeFolder) -> None:
    lake.add("/default/orders-part-0", 5)
    lake.add("/default/orders-part-1", 300)
    driver = Driver(lake, maxRecordsPerTrigger=50)
    assert driver.batch() == 50
    assert driver.offset == {ORDERS: {"0": 5, "1": 45}}
    assert driver.batch() == 50
    assert driver.offset == {ORDERS: {"0": 5, "1": 95}}


def test_a_partition_that_comes_later_is_read_from_its_beginning(lake: LakeFolder) -> None:
    lake.add("/default/orders-part-0", 10)
    driver = Driver(lake, startOffset="latest")
    assert driver.batch() == 0
    lake.add("/default/orders-part-1", 10)
    assert driver.batch() == 10
    assert driver.offset == {ORDERS: {"0": 10, "1": 10}}


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ({}, 0),
        ({"startOffset": "earliest"}, 0),
        ({"startOffset": "latest"}, 100),
        ({"startOffset": 30}, 30),
        ({"startOffset": '{"/default/orders": {"0": 40}}'}, 40),
        ({"startOffset": '{"/default/orders": 41}'}, 41),
        ({"startTime": time_of(77) / 1e6}, 77),
        ({"startTime": time_of(500) / 1e6}, 100),
        ({"startTime": time_of(77) / 1e6, "clockSkewSeconds": 3}, 77),
        ({"startTime": time_of(500) / 1e6, "clockSkewSeconds": 3}, 100),
    ],
)
def test_a_new_stream_begins_where_it_is_told(
    lake: LakeFolder, options: dict[str, Any], first: int
) -> None:
    lake.add(ORDERS, 100)
    driver = Driver(lake, **options)
    driver.batch()
    lake.add(ORDERS, 10)
    driver.batch()
    assert driver.seen == list(range(first, 110))


def test_a_gap_stops_the_stream_after_what_is_before_it(lake: LakeFolder) -> None:
    for _ in range(4):
        lake.add(ORDERS, 10)
    lake.objects()[2].unlink()
    lake.age(3600)
    driver = Driver(lake)
    assert driver.batch() == 20
    with pytest.raises(Refused, match="records 20 to 29 of /default/orders partition 0"):
        driver.batch()


def test_an_object_that_comes_out_of_order_is_waited_for(lake: LakeFolder) -> None:
    for _ in range(3):
        lake.add(ORDERS, 10)
    late = lake.objects()[1]
    data = late.read_bytes()
    late.unlink()
    driver = Driver(lake)
    assert [driver.batch(), driver.batch()] == [10, 0]
    late.write_bytes(data)
    assert driver.batch() == 20
    assert driver.seen == list(range(30))


def test_without_patience_a_gap_stops_the_stream_at_once(lake: LakeFolder) -> None:
    for _ in range(2):
        lake.add(ORDERS, 10)
    lake.objects()[0].unlink()
    with pytest.raises(Refused, match="records 0 to 9"):
        Driver(lake, gapSeconds=0, startOffset='{"/default/orders": 0}').batch()


def test_objects_deleted_before_they_were_read_stop_the_stream(lake: LakeFolder) -> None:
    lake.add(ORDERS, 10)
    driver = Driver(lake)
    driver.batch()
    for _ in range(2):
        lake.add(ORDERS, 10)
    driver.batch(crash=True)
    lake.objects()[1].unlink()
    with pytest.raises(Refused, match=r"records 10 to 19 .* are missing"):
        driver.start()


def test_objects_deleted_after_they_were_read_do_not_matter(lake: LakeFolder) -> None:
    lake.add(ORDERS, 10)
    driver = Driver(lake)
    driver.batch()
    lake.objects()[0].unlink()
    assert driver.batch() == 0
    lake.add(ORDERS, 10)
    assert driver.batch() == 10


def test_a_topic_that_was_made_anew_stops_the_stream(lake: LakeFolder) -> None:
    lake.add(ORDERS, 50)
    driver = Driver(lake)
    driver.batch()
    lake.objects()[0].unlink()
    lake.ends.clear()
    lake.add(ORDERS, 20)
    with pytest.raises(Refused, match="deleted and recreated"):
        driver.batch()


def test_available_now_ends_where_the_objects_ended_when_it_began(lake: LakeFolder) -> None:
    lake.add(ORDERS, 100)
    driver = Driver(lake, tells=True)
    driver.reader.prepareForTriggerAvailableNow()
    assert driver.batch() == 70
    lake.add(ORDERS, 100)
    assert driver.batch() == 30
    assert driver.batch() == 0


def test_what_is_no_position_is_refused(lake: LakeFolder) -> None:
    for text in ('{"/default/orders": {"0": -1}}', '{"orders": 3}', "{"):
        with pytest.raises(Refused):
            Driver(lake, startOffset=text).batch()
