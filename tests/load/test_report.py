"""Reports: bounded, compact, and readable by other versions."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_containers.load.report import COLUMNS, LoadReport, TopicLoad
from sulina.errors import Refused
from sulina.runtime.resources import Resources, Usage
from tests.load.clusters import PATIENT

RESOURCES = Resources(
    cpu=Usage(1.5, 4), memory=Usage(1e9, 8e9), network_in=Usage(1e6), network_out=Usage(2e6, 1e9)
)
RATES = st.integers(0, 10**9).map(float)
TOPICS = st.builds(
    TopicLoad, st.uuids().map(lambda name: f"/d/{name}"), RATES, RATES, RATES, RATES,
    st.integers(0, 99), st.integers(0, 99), st.integers(0, 10**15),
)  # fmt: skip


@PATIENT
@given(st.lists(TOPICS, max_size=5), st.integers(0, 2**53), st.integers(0, 10**6))
def test_a_report_survives_the_way_to_bytes_and_back(
    topics: list[TopicLoad], wall_us: int, connections: int
) -> None:
    report = LoadReport.bounded("b-1", wall_us, RESOURCES, topics, connections=connections)
    assert LoadReport.from_bytes(report.to_bytes()) == report


def test_ten_thousand_topics_fit_and_their_sum_is_kept() -> None:
    topics = [TopicLoad(f"/default/{n:0200d}", n, n * 100.0, n, n, 1, 2, n) for n in range(10_000)]
    report = LoadReport.bounded("b-1", 1, RESOURCES, topics)
    assert len(report.to_bytes()) < 512 * 1024
    assert report.topic_count == 10_000
    assert len(report.topics) == 1_000
    assert {topic.records_in for topic in report.topics} == set(range(9_000, 10_000))
    for column in COLUMNS:
        told = sum(getattr(topic, column) for topic in report.topics)
        assert told + getattr(report.rest, column) == sum(getattr(one, column) for one in topics)


def test_long_names_make_the_detail_shorter_and_not_the_report_larger() -> None:
    long = "\U00010400" * 240
    topics = [TopicLoad(f"/ns/{long}{n}", records_in=n) for n in range(1_000)]
    report = LoadReport.bounded("b-1", 1, RESOURCES, topics)
    assert len(report.to_bytes()) < 512 * 1024
    assert 0 < len(report.topics) < 500
    assert report.topic_count == 1_000
    assert min(one.records_in for one in report.topics) == 1_000 - len(report.topics)


def test_unknown_fields_are_skipped_and_missing_ones_have_defaults() -> None:
    document = json.loads(LoadReport("b-1", 7, RESOURCES, (TopicLoad("/d/1", 5),)).to_bytes())
    document["temperature"] = 40
    document["topics"]["colour"] = ["blue"]
    document["resources"]["gpu"] = [1, 2]
    del document["topics"]["backlog"], document["connections"]
    report = LoadReport.from_bytes(json.dumps(document).encode())
    assert report == LoadReport("b-1", 7, RESOURCES, (TopicLoad("/d/1", 5),))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense",
        b"[]",
        b"\xff\xfe",
        b'{"broker":"b"}',
        b'{"broker":"","wall_us":1}',
        b'{"broker":"b","wall_us":1,"topics":{"name":["/d/1"],"backlog":[1,2]}}',
        b'{"broker":"b","wall_us":1,"topics":{"name":["/d/1"],"backlog":[-1]}}',
        b'{"broker":"b","wall_us":1,"latency_ms":NaN}',
        b'{"broker":"b","wall_us":1,"latency_ms":1e999}',
        b'{"broker":"b","wall_us":1,"resources":{"cpu":[1]}}',
        b'{"broker":"b","wall_us":1,"resources":7}',
    ],
)
def test_what_is_not_a_report_is_refused_in_a_sentence(data: bytes) -> None:
    with pytest.raises(Refused, match="not a load report"):
        LoadReport.from_bytes(data)


@PATIENT
@given(st.binary(max_size=60))
def test_any_bytes_are_a_report_or_refused(data: bytes) -> None:
    with pytest.raises(Refused):
        LoadReport.from_bytes(data)
