"""Metrics and health: true, bounded, readable by Prometheus; what is not ready says why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as open_metrics
from prometheus_client.parser import text_string_to_metric_families

import sulina
from broker_containers.assembly.running import DoorSettings
from broker_containers.assembly.single import run_on_storage_nodes
from broker_containers.broker.settings import HttpSettings
from broker_containers.doors.http.health import Health
from broker_containers.doors.listen import Listen
from storage_grpc.quorum.settings import QuorumSettings
from sulina.errors import Unavailable
from sulina.metrics.exposition import Exposition
from sulina.metrics.histogram import Histogram
from sulina.operations.overview import PartState
from tests.http.client import Http, http_client, running
from tests.metadata.manual_clock import ManualClock
from tests.storage_service.process import storage_processes

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


Families = Callable[[str], Iterable[Metric]]
OPEN_METRICS: Families = open_metrics.text_string_to_metric_families
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)


def parse(text: str, families: Families = text_string_to_metric_families) -> Samples:
    """All samples by name and labels, as Prometheus reads them."""
    found: Samples = {}
    for family in families(text):
        assert family.documentation
        assert family.type in ("counter", "gauge", "histogram", "summary", "unknown")
        for sample in family.samples:
            if sample.name.startswith("danube_"):
                assert sample.labels.pop("broker") == "broker-1"
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found, "a sample stands twice"
            found[key] = sample.value
    return found


async def scrape(http: Http) -> Samples:
    answer = await http("GET", "/metrics")
    assert answer.status == 200
    assert answer.type.startswith("text/plain; version=0.0.4")
    return parse(answer.text)


async def test_messages_in_and_out_are_counted(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        topic = "/default/t"
        odd = 'a "name"\\ of {mine}'
        url = f"sulina://127.0.0.1:{broker.server.addresses.port}"
        async with sulina.connect(url) as client, client.producer(topic) as producer:
            start = sulina.Start.earliest()
            await producer.send_many([b"one", b"two", b"three"])
            await producer.flush()
            async with client.consumer(topic, odd, start=start) as consumer:
                message = await asyncio.wait_for(consumer.receive(), 30)
                found = await scrape(broker.http)
                await consumer.ack(message)
        here = (("topic", topic),)
        there = (("subscription", odd), ("topic", topic))
        assert found["danube_topic_messages_in_total", here] == 3
        assert found["danube_topic_bytes_in_total", here] > 11
        assert found["danube_topic_active_producers", here] == 1
        assert found["danube_topic_active_consumers", here] == 1
        assert found["danube_topic_active_subscriptions", here] == 1
        assert found["danube_subscription_active_consumers", there] == 1
        assert found["danube_subscription_lag_messages", there] == 3
        assert found["danube_consumer_messages_out_total", there] == 3
        bytes_in = found["danube_topic_bytes_in_total", here]
        assert found["danube_consumer_bytes_out_total", there] == bytes_in
        assert found["danube_broker_topics_owned", ()] == 1
        assert found["sulina_publish_latency_ms_count", ()] >= 1
        assert found["danube_producer_send_latency_ms_count", here] >= 1
        assert found["sulina_connections", (("door", "binary"),)] >= 1
        assert found["sulina_connections", (("door", "http"),)] == 1
        assert found["sulina_journal_bytes", ()] > 0


async def test_open_metrics_has_the_same_series_and_the_trace_of_a_publish(tmp_path: Path) -> None:
    trace, ignored = "4bf92f3577b34da6a3ce929d0e0e4736", "0" * 31 + "1"
    async with running(tmp_path) as broker:
        for parent in (f"00-{ignored}-00f067aa0ba902b7-00", f"00-{trace}-00f067aa0ba902b7-01"):
            # Frames are looked at five times per second at most; others stay without an exemplar.
            while True:
                path, headers = "/api/v1/topics/default/t/messages", {"traceparent": parent}
                await broker.http.ok("POST", path, data=b"x", headers=headers)
                answer = await broker.http("GET", "/metrics", headers={"Accept": PROMETHEUS})
                assert answer.type.startswith("application/openmetrics-text; version=1.0.0")
                exemplars = {
                    one.exemplar.labels["trace_id"]
                    for family in OPEN_METRICS(answer.text)
                    for one in family.samples
                    if one.exemplar
                }
                if exemplars or parent.endswith("-00"):
                    break
        assert exemplars == {trace}
        plain, rich = await scrape(broker.http), parse(answer.text, OPEN_METRICS)
        assert plain.keys() == rich.keys()
        assert "trace_id" not in (await broker.http("GET", "/metrics")).text


async def test_the_process_and_its_event_loop_are_measured(http: Http) -> None:
    found = await scrape(http)
    for name in ("process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"):
        assert found[name, ()] > 0
    assert ("sulina_event_loop_lag_seconds_count", ()) in found


async def test_requests_are_counted_by_operation_and_outcome(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await broker.http("GET", "/api/v1/topics")
        await broker.http("GET", "/api/v1/topics/default/none")
        await broker.http("GET", "/no/such/path/1")
        await broker.http("GET", "/no/such/path/2")
        found = await scrape(broker.http)

    def count(method: str, result: str) -> float:
        labels = (("method", method), ("result", result), ("service", "http"))
        return found["danube_broker_rpc_total", labels]

    assert count("topic.list", "ok") == 1
    assert count("topic.describe", "error") == 1
    assert count("none", "error") == 2


async def test_topics_beyond_the_limit_are_only_in_the_sums(tmp_path: Path) -> None:
    async with running(tmp_path, HttpSettings(metrics_topics=2)) as broker:
        for number in range(5):
            topic = f"/api/v1/topics/default/t{number}"
            await broker.http.ok("POST", f"{topic}/messages", data=b"x")
            await broker.http.ok("POST", f"{topic}/subscriptions", {"subscription": "s"})
        found = await scrape(broker.http)
        assert await scrape(broker.http) != {}
        shown = [key for key in found if key[0] == "danube_topic_messages_in_total"]
        assert shown == [
            ("danube_topic_messages_in_total", (("topic", f"/default/t{number}"),))
            for number in range(2)
        ]
        assert found["sulina_metrics_left_out", (("what", "topics"),)] == 3
        assert found["sulina_metrics_left_out", (("what", "subscriptions"),)] == 3
        assert found["sulina_broker_messages_in_total", ()] == 5
        assert found["sulina_broker_subscriptions", ()] == 5


async def test_sums_do_not_decrease_when_a_topic_is_deleted(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        name = "sulina_broker_messages_in_total", ()
        await broker.http.ok("POST", "/api/v1/topics/default/a/messages", data=b"x")
        assert (await scrape(broker.http))[name] == 1
        await broker.http.ok("POST", "/api/v1/topics/default/a/messages", data=b"x")
        await broker.http.ok("DELETE", "/api/v1/topics/default/a")
        for _ in range(3):
            assert (await scrape(broker.http))[name] == 2
        await broker.http.ok("POST", "/api/v1/topics/default/a/messages", data=b"x")
        assert (await scrape(broker.http))[name] == 3


async def test_collections_at_the_same_time_agree(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        for number in range(3):
            await broker.http.ok("POST", f"/api/v1/topics/default/t{number}/messages", data=b"x")
        found = await asyncio.gather(*(scrape(broker.http) for _ in range(5)))
        name = "sulina_broker_messages_in_total", ()
        assert [each[name] for each in found] == [3] * 5


def test_a_histogram_counts_values_up_to_each_bound() -> None:
    histogram = Histogram((1.0, 2.0, 4.0))
    for value in (0.5, 1.0, 1.5, 4.0, 100.0):
        histogram.add(value)
    text = Exposition()
    text.histogram("h", "Values.", histogram)
    found = parse(text.encode().decode())
    buckets = [found["h_bucket", (("le", bound),)] for bound in ("1", "2", "4", "+Inf")]
    assert buckets == [2, 3, 4, 5]
    assert (found["h_count", ()], found["h_sum", ()]) == (5, 107.0)


@pytest.mark.parametrize("value", ['"', "\\", "\n", "a\\nb", '{a="b"}', "", "ü"])
def test_any_label_is_read_back_as_it_was(value: str) -> None:
    text = Exposition()
    text.gauge("m", "Something.", [({"label": value}, 1)])
    assert parse(text.encode().decode()) == {("m", (("label", value),)): 1.0}


PATIENCE = 60.0


async def fine() -> str:
    return "fine"


async def failing() -> NoReturn:
    raise Unavailable("nobody is there: start it")


async def hanging() -> NoReturn:
    await asyncio.Event().wait()
    raise AssertionError


async def test_a_broker_is_live_and_ready(http: Http) -> None:
    live = await http("GET", "/health/live")
    assert (live.status, live.json["status"]) == (200, "live")
    ready = await http("GET", "/health/ready")
    assert (ready.status, ready.json["status"]) == (200, "ready")
    assert set(ready.json["parts"]) == {"metadata", "storage", "descriptors", "certificates"}
    assert all(part["ok"] for part in ready.json["parts"].values())


async def test_one_part_that_fails_makes_the_broker_unready_and_says_why() -> None:
    health = Health("b", ManualClock(), {"good": fine, "bad": failing})
    report = await health.ready()
    assert report.status == "unready"
    assert report.parts["good"] == PartState(True, "fine")
    assert report.parts["bad"] == PartState(False, "nobody is there: start it")


async def test_a_check_that_hangs_times_out() -> None:
    clock = ManualClock()
    health = Health("b", clock, {"good": fine, "slow": hanging})
    asking = asyncio.create_task(health.ready())
    await clock.advance(10.0)
    report = await asking
    assert report.status == "unready"
    assert "no answer" in report.parts["slow"].detail


async def test_a_broker_that_stops_is_not_ready() -> None:
    health = Health("b", ManualClock(), {"good": fine})
    health.stopping = True
    report = await health.ready()
    assert report.status == "unready" and "shutting down" in report.parts["broker"].detail


async def test_a_broker_without_enough_storage_nodes_is_unready_until_they_are_back(
    tmp_path: Path,
) -> None:
    with storage_processes(tmp_path, 2) as nodes:
        copies = QuorumSettings(write_quorum=2, ack_quorum=2)
        places = [node.place for node in nodes]
        listen = Listen(port=0)
        async with (
            run_on_storage_nodes(
                tmp_path / "broker", DoorSettings(listen, http=listen), places, quorum=copies
            ) as server,
            http_client(f"http://127.0.0.1:{server.addresses.http_port}") as http,
        ):
            assert (await http("GET", "/health/ready")).status == 200
            nodes[0].kill()
            await _status(http, 503)
            parts = (await http("GET", "/health/ready")).json["parts"]
            assert "1 storage nodes are healthy and 2 are needed" in parts["storage"]["detail"]
            assert parts["metadata"]["ok"]
            await nodes[0].start()
            await _status(http, 200)


async def test_a_ready_broker_names_a_lost_storage_node(tmp_path: Path) -> None:
    with storage_processes(tmp_path, 3) as nodes:
        listen, places = Listen(port=0), [node.place for node in nodes]
        async with (
            run_on_storage_nodes(
                tmp_path / "broker", DoorSettings(listen, http=listen), places
            ) as server,
            http_client(f"http://127.0.0.1:{server.addresses.http_port}") as http,
        ):
            await _warning(http, "")
            await http.ok("POST", "/api/v1/topics/default/t/messages", data=b"x")
            assert (await http.ok("GET", "/api/v1/storage"))["away"] == 0
            nodes[1].kill()
            await _warning(http, f"{nodes[1].id} does not serve")
            assert (await http("GET", "/health/ready")).status == 200
            assert (await http.ok("GET", "/api/v1/storage"))["away"] > 0


async def _warning(http: Http, wanted: str) -> None:
    """Wait until this is said of the storage nodes."""
    async with asyncio.timeout(PATIENCE):
        while (await http("GET", "/health/ready")).json["parts"]["storage"]["warning"] != wanted:
            await asyncio.sleep(0.05)


async def _status(http: Http, wanted: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await http("GET", "/health/ready")).status != wanted:
            await asyncio.sleep(0.05)
