"""What the console and the tools of Danube ask Prometheus, against what a broker exports.

The queries are those of danube-admin 0.15.1. Where the program ``prometheus`` is installed, it
scrapes the broker and evaluates them; everywhere, every series and label that they name must exist.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

import sulina
from sulina import Client
from sulina.errors import Refused
from sulina.metrics.histogram import Histogram
from tests.http.client import Http, running
from tests.support.prometheus import answers, running_prometheus

TOPIC, BROKER = "/default/panels", "broker-1"
CLUSTER = (
    "sum(danube_broker_topics_owned)",
    "sum(danube_topic_active_producers)",
    "sum(danube_topic_active_consumers)",
    "sum(danube_topic_active_subscriptions)",
    "count(danube_leader_election_state)",
    "sum(rate(danube_topic_messages_in_total[1m]))",
    "sum(rate(danube_consumer_messages_out_total[1m]))",
    "sum(rate(danube_topic_bytes_in_total[1m]))",
    "sum(rate(danube_consumer_bytes_out_total[1m]))",
    "max(danube_cluster_imbalance_cv)",
)
OF_BROKER = (
    'sum(danube_broker_rpc_total{broker="B"})',
    'danube_broker_topics_owned{broker="B"}',
    'sum(danube_topic_bytes_in_total{broker="B"})',
    'sum(danube_consumer_bytes_out_total{broker="B"})',
    'sum(danube_topic_active_producers{broker="B"})',
    'danube_topic_active_producers{broker="B"}',
    'danube_topic_active_consumers{broker="B"}',
    'danube_topic_active_subscriptions{broker="B"}',
)
OF_TOPIC = (
    'sum(danube_topic_messages_in_total{topic="T"})',
    'sum(danube_consumer_messages_out_total{topic="T"})',
    'sum(danube_topic_bytes_in_total{topic="T"})',
    'sum(danube_consumer_bytes_out_total{topic="T"})',
    'sum(danube_topic_active_producers{topic="T"})',
    'sum(danube_topic_active_consumers{topic="T"})',
    'sum(danube_topic_active_subscriptions{topic="T"})',
    'sum(rate(danube_topic_messages_in_total{topic="T"}[1m]))',
    'sum(danube_producer_send_total{topic="T",result="ok"})',
    'sum(danube_producer_send_total{topic="T",result="error"})',
    'sum by (error_code) (danube_producer_send_total{topic="T",result="error"})',
    'sum by (error_code) (rate(danube_producer_send_total{topic="T",result="error"}[5m]))',
    'danube_topic_message_size_bytes_sum{topic="T"}',
    'danube_topic_message_size_bytes_count{topic="T"}',
    "histogram_quantile(0.5, sum(rate("
    'danube_producer_send_latency_ms_bucket{topic="T"}[5m])) by (le))',
    'danube_producer_send_latency_ms{topic="T",quantile="0.5"}',
    'danube_producer_send_latency_ms{topic="T",quantile="0.95"}',
    'danube_producer_send_latency_ms{topic="T",quantile="0.99"}',
    'sum(danube_subscription_lag_messages{topic="T"})',
    'sum(danube_wal_append_total{topic="T"})',
    'sum(danube_wal_append_bytes_total{topic="T"})',
    'sum(danube_wal_flush_total{topic="T"})',
    'danube_wal_flush_latency_ms{topic="T",quantile="0.5"}',
    'danube_wal_flush_latency_ms{topic="T",quantile="0.95"}',
    'danube_wal_flush_latency_ms{topic="T",quantile="0.99"}',
    'sum(danube_cloud_upload_bytes_total{topic="T"})',
    'sum(danube_cloud_upload_objects_total{topic="T",result="ok"})',
)
QUERIES = [
    query.replace('"B"', f'"{BROKER}"').replace('"T"', f'"{TOPIC}"')
    for query in (*CLUSTER, *OF_BROKER, *OF_TOPIC)
]


@dataclass(frozen=True)
class Scraped:
    """A broker that had something to do, and what it exports."""

    port: int
    samples: list[Sample]

    def named(self, name: str, **labels: str) -> list[Sample]:
        return [
            each
            for each in self.samples
            if each.name == name and labels.items() <= each.labels.items()
        ]

    def value(self, name: str, **labels: str) -> float:
        [found] = self.named(name, **labels)
        return found.value


async def work(client: Client) -> None:
    """Publish five messages, one of which is refused, and deliver them."""
    await client.admin("topic.create", {"topic": TOPIC})
    await client.admin("topic.policy", {"topic": TOPIC, "max_message_size": 100})
    start = sulina.Start.earliest()
    async with (
        client.producer(TOPIC) as producer,
        client.consumer(TOPIC, "s", start=start) as taker,
    ):
        for _ in range(4):
            await (await producer.send(b"x" * 50))
        for _ in range(4):
            await taker.ack(await asyncio.wait_for(taker.receive(), 30))
        with pytest.raises(Refused, match="over the topic's limit"):
            await (await producer.send(b"x" * 101))


async def samples(http: Http) -> list[Sample]:
    answer = await http("GET", "/metrics")
    return [one for each in text_string_to_metric_families(answer.text) for one in each.samples]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def scraped(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scraped]:
    async with running(tmp_path_factory.mktemp("panels")) as broker:
        places = broker.server.addresses
        async with sulina.connect(f"sulina://127.0.0.1:{places.port}") as client:
            await work(client)
            assert places.http_port is not None
            yield Scraped(places.http_port, await samples(broker.http))


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("query", QUERIES)
async def test_every_series_and_label_that_a_query_names_exists(
    scraped: Scraped, query: str
) -> None:
    for name, matchers in re.findall(r"(danube_\w+)(?:\{([^}]*)\})?", query):
        found = scraped.named(name, **dict(re.findall(r'(\w+)="([^"]*)"', matchers)))
        assert found, f"there is no series {name}{{{matchers}}}"
        for label in re.findall(r"by \((\w+)\)", query):
            assert all(label in each.labels for each in found)


@pytest.mark.asyncio(loop_scope="module")
async def test_the_values_are_true(scraped: Scraped) -> None:
    value = scraped.value
    assert value("danube_producer_send_total", topic=TOPIC, result="ok") == 4
    failed = {"topic": TOPIC, "result": "error", "error_code": "InvalidArgument"}
    assert value("danube_producer_send_total", **failed) == 1
    assert value("danube_topic_message_size_bytes_count", topic=TOPIC) == 4
    assert 50 <= value("danube_topic_message_size_bytes_sum", topic=TOPIC) / 4 < 150
    frames = value("danube_wal_append_total", topic=TOPIC)
    assert 1 <= frames <= 4
    assert value("danube_wal_flush_total", topic=TOPIC) == frames
    assert value("danube_producer_send_latency_ms_bucket", topic=TOPIC, le="+Inf") == frames
    assert value("danube_producer_send_latency_ms", topic=TOPIC, quantile="0.99") > 0
    bytes_in = value("danube_topic_bytes_in_total", topic=TOPIC)
    assert value("danube_wal_append_bytes_total", topic=TOPIC) == bytes_in
    assert value("danube_leader_election_state", broker=BROKER) == 1
    assert value("danube_cluster_imbalance_cv") == 0
    assert all(
        each.labels["broker"] == BROKER
        for each in scraped.samples
        if each.name.startswith("danube_")
    )


def test_a_quantile_is_taken_from_the_buckets() -> None:
    seen = Histogram((1.0, 2.0, 4.0))
    assert seen.quantile(0.5) == 0
    for value in (0.5, 0.5, 1.5, 1.5):
        seen.add(value)
    assert (seen.quantile(0.5), seen.quantile(0.75), seen.quantile(1)) == (1.0, 1.5, 2.0)
    seen.add(100)
    assert seen.quantile(1) == 4.0


@pytest.mark.asyncio(loop_scope="module")
async def test_prometheus_answers_every_query(scraped: Scraped, tmp_path: Path) -> None:
    targets = [{"targets": [f"127.0.0.1:{scraped.port}"]}]
    config = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [{"job_name": "b", "static_configs": targets}],
    }
    async with (
        running_prometheus(config, tmp_path) as url,
        aiohttp.ClientSession() as session,
        asyncio.timeout(90),
    ):
        for query in QUERIES:
            while not await answers(session, url, query):
                await asyncio.sleep(0.5)  # it has not scraped twice yet
