"""The janitor deletes what nobody knows, when certain, and nothing else."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from functions.janitor import objects
from functions.janitor.handler import handler
from functions.shared.http_event import HttpAnswer, HttpRequest
from sulina.errors import Refused
from sulina.lake.layout import object_key, parse_key
from sulina.names import TopicName
from tests.functions.conftest import FunctionAccount
from tests.functions.lambdas import Lambdas
from tests.http.client import running

NOTHING = {
    "complete": True,
    "uploads_aborted": 0,
    "orphans": 0,
    "orphans_deleted": 0,
    "too_many_orphans": False,
    "foreign": 0,
    "unknown": 0,
    "audit": None,
}


class ReportedTopics:
    """What the brokers say about ledgers, by topic; a number instead is an error's status."""

    def __init__(self) -> None:
        self.ledgers: dict[str, list[int] | int] = {}
        self.asked = 0

    def __call__(self, event: dict[str, Any], context: Any) -> Any:
        self.asked += 1
        request = HttpRequest.from_event(event)
        _, namespace, topic, _ = request.path.rsplit("/", 3)
        found = self.ledgers.get(f"/{namespace}/{topic}", 404)
        if isinstance(found, int):
            kind = "not-found" if found == 404 else "unavailable"
            body = {"type": f"/docs#{kind}", "detail": "an error"}
            return HttpAnswer(found, {}, json.dumps(body).encode()).to_event()
        rows = [{"id": each} for each in found]
        return HttpAnswer(200, {}, json.dumps({"ledgers": rows}).encode()).to_event()


@pytest.fixture
def topics(
    account: FunctionAccount, lambdas: Lambdas, monkeypatch: pytest.MonkeyPatch
) -> ReportedTopics:
    """Every object counts as old, and there are not too many orphans to delete."""
    found = ReportedTopics()
    lambdas.functions["discovery"] = found
    lambdas.functions["analytics"] = lambda event, context: None
    monkeypatch.setenv("SULINA_DISCOVERY", "discovery")
    monkeypatch.setattr(objects, "ORPHAN_AGE", timedelta(0))
    monkeypatch.setattr(objects, "UPLOAD_AGE", timedelta(0))
    return found


def key(topic: str, ledger: int) -> str:
    return object_key(TopicName.parse(topic), ledger * 10, ledger)


def tidy(**event: Any) -> dict[str, Any]:
    return handler({"delete": True, "max_percent": 50, **event}, None)


def test_objects_that_topics_know_stay(account: FunctionAccount, topics: ReportedTopics) -> None:
    topics.ledgers = {"/default/orders": [1, 2], "/default/parts-part-0": [3]}
    keys = [key("/default/orders", 1), key("/default/orders", 2), key("/default/parts-part-0", 3)]
    for each in keys:
        account.put(each)
    assert tidy() == {**NOTHING, "objects": 3}
    assert account.listed() == sorted(keys)


def test_an_object_whose_ledger_is_not_in_the_list_and_one_without_a_topic_are_deleted(
    account: FunctionAccount, topics: ReportedTopics
) -> None:
    topics.ledgers = {"/default/orders": [1, 2, 3]}
    for ledger in (1, 2, 3, 4):
        account.put(key("/default/orders", ledger))
    account.put(key("/default/deleted", 5))
    report = tidy()
    assert (report["orphans"], report["orphans_deleted"]) == (2, 2)
    assert [parse_key(each).ledger for each in account.listed()] == [1, 2, 3]


def test_orphans_are_only_told_unless_deletion_was_asked_for(
    account: FunctionAccount, topics: ReportedTopics
) -> None:
    topics.ledgers = {"/default/orders": [1]}
    account.put(key("/default/orders", 1))
    account.put(key("/default/orders", 2))
    report = handler({"max_percent": 50}, None)
    assert (report["orphans"], report["orphans_deleted"]) == (1, 0)
    assert len(account.listed()) == 2


def test_young_objects_are_left_alone_and_nobody_is_asked(
    account: FunctionAccount, topics: ReportedTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "ORPHAN_AGE", timedelta(hours=1))
    account.put(key("/default/unknown", 1))
    assert tidy() == {**NOTHING, "objects": 1}
    assert topics.asked == 0


def test_topics_that_nothing_certain_is_said_about_are_left_alone(
    account: FunctionAccount, topics: ReportedTopics
) -> None:
    topics.ledgers = {"/default/orders": [1], "/default/busy": 503, "/default/busy-part-0": 503}
    account.put(key("/default/orders", 1))
    account.put(key("/default/busy", 2))
    report = tidy()
    assert (report["orphans"], report["unknown"]) == (0, 1)
    assert len(account.listed()) == 2


def test_what_is_known_when_asked_again_is_not_deleted(
    account: FunctionAccount, topics: ReportedTopics, lambdas: Lambdas
) -> None:
    account.put(key("/default/orders", 1))
    account.put(key("/default/orders", 2))

    def slow(event: dict[str, Any], context: Any) -> Any:
        topics.ledgers = {"/default/orders": [1] if topics.asked < 2 else [1, 2]}
        return topics(event, context)

    lambdas.functions["discovery"] = slow
    report = tidy()
    assert (report["orphans"], report["orphans_deleted"]) == (1, 0)
    assert len(account.listed()) == 2


def test_a_cluster_that_lost_its_metadata_loses_no_objects(
    account: FunctionAccount, topics: ReportedTopics
) -> None:
    account.put(key("/default/orders", 1))
    report = tidy(max_percent=10)
    assert (report["orphans"], report["too_many_orphans"]) == (1, True)
    assert report["orphans_deleted"] == 0
    assert len(account.listed()) == 1


def test_foreign_objects_are_told_and_not_touched(
    account: FunctionAccount, topics: ReportedTopics
) -> None:
    account.put("ledgers/readme.txt")
    account.put("tables/statistics/x.parquet")
    report = tidy()
    assert (report["foreign"], report["objects"]) == (1, 0)
    assert len(account.listed()) == 2


def test_an_upload_that_nobody_ends_is_ended(
    account: FunctionAccount, topics: ReportedTopics
) -> None:
    s3 = account.client("s3")
    s3.create_multipart_upload(Bucket=account.bucket, Key=key("/default/orders", 1))
    s3.create_multipart_upload(Bucket=account.bucket, Key="tables/other")
    assert tidy()["uploads_aborted"] == 1
    left = s3.list_multipart_uploads(Bucket=account.bucket).get("Uploads", [])
    assert [each["Key"] for each in left] == ["tables/other"]


def test_something_strange_asks_for_an_audit_once_a_day(
    account: FunctionAccount,
    topics: ReportedTopics,
    lambdas: Lambdas,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SULINA_ANALYTICS", "analytics")
    tidy(scheduled="2026-11-16T01:00:00Z")
    assert lambdas.asked == []
    account.put("ledgers/readme.txt")
    tidy(scheduled="2026-11-16T02:00:00Z")
    tidy(scheduled="2026-11-16T03:00:00Z")
    event = {"job": "audit", "execution": "janitor-2026-11-16"}
    assert lambdas.asked == [("analytics", event), ("analytics", event)]


def test_an_event_with_something_unknown_in_it_is_refused(account: FunctionAccount) -> None:
    with pytest.raises(
        Refused, match=r"the event has deleet: True but may only have audit \(bool\)"
    ):
        handler({"deleet": True}, None)


class LateContext:
    """Lambda's context with less than a minute left."""

    def get_remaining_time_in_millis(self) -> int:
        return 59_000


def test_a_call_that_runs_out_of_time_says_so(
    account: FunctionAccount, topics: ReportedTopics
) -> None:
    account.put(key("/default/a", 1))
    account.put(key("/default/b", 2))
    report = handler({}, LateContext())
    assert (report["complete"], report["objects"]) == (False, 1)


async def test_a_real_broker_says_which_ledgers_its_topics_have(
    account: FunctionAccount,
    topics: ReportedTopics,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(tmp_path) as broker:
        monkeypatch.delenv("SULINA_DISCOVERY")
        monkeypatch.setenv("SULINA_BROKERS", f"http://127.0.0.1:{broker.port}")
        await broker.http.ok("POST", "/api/v1/topics", {"topic": "/default/orders"})
        path = "/api/v1/topics/default/orders"
        await broker.http("POST", f"{path}/messages", data=b"one")
        [ledger] = (await broker.http.ok("GET", f"{path}/ledgers"))["ledgers"]
        known = object_key(TopicName.parse("/default/orders"), 0, ledger["id"])
        account.put(known)
        account.put(object_key(TopicName.parse("/default/orders"), 0, ledger["id"] + 1))
        event = {"delete": True, "max_percent": 50}
        report = await asyncio.to_thread(handler, event, None)
    assert (report["orphans"], report["orphans_deleted"]) == (1, 1)
    assert account.listed() == [known]
