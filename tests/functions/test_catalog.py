"""The catalog learns of new objects: of ours, once each, and of nothing else."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote_plus

import pytest

from functions.catalog.handler import handler
from sulina.errors import Refused
from sulina.lake.layout import object_key
from sulina.names import TopicName
from tests.functions.conftest import FunctionAccount

ORDERS = object_key(TopicName.parse("/default/orders-part-3"), 0, 7)


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


def test_a_new_object_makes_its_partition_known(account: FunctionAccount) -> None:
    account.put(ORDERS)
    assert handler(event_of(account.bucket, ORDERS), None)["registered"] == [ORDERS]
    assert account.partitions() == [["default", "orders", "3"]]
    found = account.client("glue").get_partition(
        DatabaseName=account.database,
        TableName="ledgers",
        PartitionValues=["default", "orders", "3"],
    )["Partition"]["StorageDescriptor"]
    assert found["Location"] == f"s3://{account.bucket}/{ORDERS.rpartition('/')[0]}/"
    assert found["Columns"] == [{"Name": "payload", "Type": "binary"}]


def test_the_same_event_twice_and_further_objects_change_nothing(account: FunctionAccount) -> None:
    second = object_key(TopicName.parse("/default/orders-part-3"), 100, 8)
    account.put(ORDERS)
    account.put(second)
    handler(event_of(account.bucket, ORDERS), None)
    again = handler(event_of(account.bucket, ORDERS, second), None)
    assert again == {"registered": [], "known": 2, "refused": []}
    assert len(account.partitions()) == 1


@pytest.mark.parametrize(
    "key",
    [
        "ledgers/namespace=a/topic=b/partition=0/readme.txt",
        ORDERS.replace("orders", "or ders"),
        "tables/x.parquet",
    ],
)
def test_foreign_keys_are_refused(account: FunctionAccount, key: str) -> None:
    account.put(key)
    assert handler(event_of(account.bucket, key), None)["refused"] == [key]
    assert account.partitions() == []


@pytest.mark.parametrize("body", [b"", b"PAR1", b"no parquet at all"])
def test_what_is_no_parquet_is_refused(account: FunctionAccount, body: bytes) -> None:
    account.put(ORDERS, body)
    assert handler(event_of(account.bucket, ORDERS), None)["refused"] == [ORDERS]
    assert account.partitions() == []


def test_objects_of_other_buckets_and_objects_that_are_gone_are_refused(
    account: FunctionAccount,
) -> None:
    assert handler(event_of("elsewhere", ORDERS), None)["refused"] == [ORDERS]
    assert handler(event_of(account.bucket, ORDERS), None)["refused"] == [ORDERS]
    assert account.partitions() == []


def test_a_lake_below_a_prefix_is_one_too(
    account: FunctionAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SULINA_LAKE", f"s3://{account.bucket}/here")
    account.put(f"here/{ORDERS}")
    answer = handler(event_of(account.bucket, f"here/{ORDERS}", ORDERS), None)
    assert answer == {"registered": [f"here/{ORDERS}"], "known": 0, "refused": [ORDERS]}


def test_the_event_that_s3_sends_first_is_fine_and_others_are_refused(
    account: FunctionAccount,
) -> None:
    assert handler({"Service": "Amazon S3", "Event": "s3:TestEvent"}, None)["known"] == 0
    with pytest.raises(Refused, match="not an S3 notification"):
        handler({"job": "audit"}, None)


def test_a_table_that_is_missing_fails_the_call_so_that_it_is_made_again(
    account: FunctionAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SULINA_GLUE_TABLE", "missing")
    account.put(ORDERS)
    with pytest.raises(account.client("glue").exceptions.EntityNotFoundException):
        handler(event_of(account.bucket, ORDERS), None)
