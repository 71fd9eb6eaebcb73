"""The function catalog: each object is in its topic's table once, whatever becomes of events."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest
from pyiceberg.table import Table

from functions.catalog import handler as function
from functions.catalog.handler import handler
from sulina.errors import Refused, Unavailable
from sulina.lake.layout import notice_key
from sulina.names import TopicName
from sulina.runtime.real_clock import RealClock
from sulina.tables import tables as topic_tables
from sulina.tables.catalogs import open_catalog
from sulina.tables.iceberg import find_table
from sulina.tables.objects import LakePlace
from tests.functions.conftest import FunctionAccount
from tests.spark.lake_folder import LakeFolder

ORDERS = TopicName.parse("/default/orders")
SCHEDULED = {"scheduled": "2026-11-16T01:00:00Z", "execution": "one"}


def event_of(bucket: str, *keys: str) -> dict[str, Any]:
    """As S3 sends it."""
    return {
        "Records": [
            {
                "eventVersion": "2.1",
                "eventSource": "aws:s3",
                "eventName": "ObjectCreated:Put",
                "s3": {
                    "bucket": {"name": bucket},
                    "object": {"key": quote_plus(key, safe="/"), "size": 9},
                },
            }
            for key in keys
        ]
    }


@pytest.fixture
def lake(tmp_path: Path) -> LakeFolder:
    """Objects that are not in the bucket yet."""
    return LakeFolder(tmp_path / "lake")


def table_of(account: FunctionAccount, topic: TopicName = ORDERS) -> Table:
    place = LakePlace.parse(f"s3://{account.bucket}")
    return find_table(open_catalog("glue:us-east-1", place), account.database, topic)


def offsets(account: FunctionAccount, topic: TopicName = ORDERS) -> list[int]:
    found = table_of(account, topic).scan(selected_fields=("offset",)).to_arrow()
    return sorted(found.column("offset").to_pylist())


def test_new_objects_are_in_their_tables_after_the_event(
    account: FunctionAccount, lake: LakeFolder
) -> None:
    lake.add("/default/orders-part-0", 10)
    lake.add("/default/orders-part-3", 5)
    lake.add("/default/clicks", 7)
    keys = account.put_lake(lake)
    report = handler(event_of(account.bucket, *keys), None)
    assert (report["topics"], report["objects"], report["records"]) == (2, 3, 22)
    assert offsets(account) == sorted([*range(10), *range(5)])
    assert offsets(account, TopicName.parse("/default/clicks")) == list(range(7))
    entry = account.client("glue").get_table(DatabaseName=account.database, Name="default__orders")
    assert entry["Table"]["Parameters"]["table_type"].upper() == "ICEBERG"
    counted = account.client("cloudwatch").list_metrics(
        Namespace="Sulina", Dimensions=[{"Name": "Cluster", "Value": account.bucket}]
    )
    assert {each["MetricName"] for each in counted["Metrics"]} >= {"TableCommits", "TableGaps"}
    assert table_of(account).location() == f"s3://{account.bucket}/iceberg/default__orders"


def test_lost_doubled_and_late_events_of_many_calls_at_once_add_each_object_once(
    account: FunctionAccount, lake: LakeFolder
) -> None:
    for _ in range(6):
        lake.add(str(ORDERS), 6)
    keys = account.put_lake(lake)
    heard = [key for at, key in enumerate(keys) if at % 3]  # the others are lost
    heard += heard[::2]
    random.Random(7).shuffle(heard)
    failures: list[BaseException] = []

    def call(key: str) -> None:
        try:
            handler(event_of(account.bucket, key), None)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=call, args=(key,)) for key in heard]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each for each in failures if not isinstance(each, Unavailable)] == []
    handler(SCHEDULED, None)
    assert offsets(account) == list(range(36))


def test_the_schedule_adds_what_events_missed_and_removes_what_retention_deleted(
    account: FunctionAccount, lake: LakeFolder
) -> None:
    assert handler(SCHEDULED, None)["topics"] == 0  # nothing was tiered yet
    for _ in range(3):
        lake.add(str(ORDERS), 10)
    lake.add("/default/clicks", 7)
    keys = account.put_lake(lake)
    handler(event_of(account.bucket, keys[1]), None)
    assert handler(SCHEDULED, None)["records"] > 0
    assert offsets(account) == list(range(30))
    for key in account.listed():
        if key in (keys[0], keys[1]):
            account.client("s3").delete_object(Bucket=account.bucket, Key=key)
    handler(SCHEDULED, None)
    assert offsets(account) == list(range(10, 30))
    assert offsets(account, TopicName.parse("/default/clicks")) == []
    assert handler(SCHEDULED, None)["commits"] == 0


def test_the_schedule_forgets_old_snapshots_and_too_many_of_them(
    account: FunctionAccount, lake: LakeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        lake.add(str(ORDERS), 5)
        account.put_lake(lake)
        handler(SCHEDULED, None)
    assert len(table_of(account).snapshots()) == 3
    monkeypatch.setattr(topic_tables, "SNAPSHOTS_KEPT", 2)
    assert handler(SCHEDULED, None)["expired"] == 1
    later = RealClock().wall_us() + 8 * 86_400_000_000
    monkeypatch.setattr(RealClock, "wall_us", lambda self: later)
    assert handler(SCHEDULED, None)["expired"] == 1
    assert len(table_of(account).snapshots()) == 1
    assert offsets(account) == list(range(15))


class Countdown:
    """Lambda's context: a minute is left after so many questions."""

    def __init__(self, questions: int) -> None:
        self._left = questions

    def get_remaining_time_in_millis(self) -> int:
        self._left -= 1
        return 61_000 if self._left >= 0 else 59_000


def test_a_call_that_runs_out_of_time_keeps_what_it_committed(
    account: FunctionAccount, lake: LakeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(function, "_OBJECTS", 1)
    for _ in range(3):
        lake.add(str(ORDERS), 10)
    keys = account.put_lake(lake)
    report = handler(event_of(account.bucket, *keys), Countdown(3))
    assert (report["complete"], report["objects"]) == (False, 2)
    assert offsets(account) == list(range(20))
    assert handler(SCHEDULED, None)["complete"]
    assert offsets(account) == list(range(30))


@pytest.mark.parametrize(
    "key",
    [
        "ledgers/namespace=a/topic=b/partition=0/readme.txt",
        "ledgers/namespace=a/topic=or ders/partition=0/"
        "00000000000000000000-00000000000000000007.parquet",
        "tables/x.parquet",
    ],
)
def test_foreign_keys_are_refused(account: FunctionAccount, key: str) -> None:
    account.put(key)
    assert handler(event_of(account.bucket, key), None)["refused"] == [key]


@pytest.mark.parametrize("body", [b"", b"not Parquet at all"])
def test_a_damaged_object_holds_up_its_own_table_only(
    account: FunctionAccount, lake: LakeFolder, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    lake.add("/default/clicks", 7)
    lake.add(str(ORDERS), 5)
    clicks, orders = account.put_lake(lake)
    account.put(clicks, body)
    report = handler(event_of(account.bucket, clicks, orders), None)
    assert (report["topics"], report["refused"]) == (1, ["/default/clicks"])
    assert "the table of /default/clicks is not up to date" in caplog.text
    assert offsets(account) == list(range(5))


def test_objects_of_other_buckets_and_objects_that_are_gone_add_nothing(
    account: FunctionAccount, lake: LakeFolder
) -> None:
    lake.add(str(ORDERS), 5)
    [key] = account.put_lake(lake)
    assert handler(event_of("elsewhere", key), None)["refused"] == [key]
    account.client("s3").delete_object(Bucket=account.bucket, Key=key)
    account.put("ledgers/readme.txt")
    assert handler(event_of(account.bucket, key), None)["objects"] == 0
    assert account.client("glue").get_tables(DatabaseName=account.database)["TableList"] == []


def test_a_lake_below_a_prefix_is_one_too(
    account: FunctionAccount, lake: LakeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SULINA_LAKE", f"s3://{account.bucket}/here?region=us-east-1")
    lake.add(str(ORDERS), 5)
    [key] = account.put_lake(lake, "here/")
    outside = key.removeprefix("here/")
    report = handler(event_of(account.bucket, key, outside), None)
    assert (report["objects"], report["refused"]) == (1, [outside])


def test_a_notice_to_plain_readers_is_passed_over(account: FunctionAccount) -> None:
    key = notice_key(ORDERS, 7, 1)
    account.put(key)
    report = handler(event_of(account.bucket, key), None)
    assert (report["topics"], report["refused"]) == (0, [])


def test_the_event_that_s3_sends_first_is_fine_and_others_are_refused(
    account: FunctionAccount,
) -> None:
    assert handler({"Service": "Amazon S3", "Event": "s3:TestEvent"}, None)["topics"] == 0
    with pytest.raises(Refused, match="neither an S3 notification nor a call of the schedule"):
        handler({"job": "audit"}, None)


def test_a_catalog_that_does_not_answer_fails_the_call_so_that_it_is_made_again(
    account: FunctionAccount, lake: LakeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.add(str(ORDERS), 5)
    keys = account.put_lake(lake)
    monkeypatch.setenv("SULINA_CATALOG", "http://127.0.0.1:1")
    with pytest.raises(Unavailable, match=r"could not be (read|opened)"):
        handler(event_of(account.bucket, *keys), None)
