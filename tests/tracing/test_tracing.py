"""Traces of messages, as a collector sees them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest

from tests.danube.calls import Calls
from tests.support.server import SulinaProcess
from tests.tracing.collector import CollectedSpan, Collector, running_collector
from tests.tracing.program import SPARK
from tests.tracing.replaying import OWN_TRACE

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
DANUBE = "/default/danube"


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    """The spans of a broker and of a program that uses it."""
    folder = tmp_path_factory.mktemp("tracing")
    with running_collector(folder) as collector:
        environment = {**os.environ, **collector.environment}
        # A broker is started with this process's environment.
        with pytest.MonkeyPatch.context() as patch:
            for name, value in collector.environment.items():
                patch.setenv(name, value)
            server = SulinaProcess(folder / "data").start()
        try:
            _publish_over_http(server.http_url)
            asyncio.run(_use_danubes_protocol(server.grpc_port))
            for name in ("replaying", "program"):
                program = [sys.executable, "-m", f"tests.tracing.{name}", server.url]
                environment["TRACEPARENT"] = PARENT
                done = subprocess.run(program, env=environment, timeout=100, check=False)
                assert done.returncode == 0
        finally:
            server.stop()
        yield collector.wait_for("checkout", "messages.publish", "process /default/over-http")


async def _use_danubes_protocol(port: int) -> None:
    """Publish two messages, acknowledge one, refuse the other."""
    async with Calls(f"http://127.0.0.1:{port}") as calls:
        await calls.producer(DANUBE)
        messages = calls.stream(await calls.subscribe(DANUBE))
        for _ in range(2):
            await calls.send(DANUBE, b"order", attributes={"traceparent": PARENT})
        await calls.send(DANUBE, b"untraced")
        place = (await messages.read()).msg_id
        await calls("Ack", msg_id=place, subscription_name="s")
        place = (await messages.read()).msg_id
        await calls("Nack", msg_id=place, subscription_name="s", delay_ms=60_000, reason="bad")


def _publish_over_http(url: str) -> None:
    request = urllib.request.Request(
        f"{url}/api/v1/topics/default/over-http/messages",
        data=b"from a browser",
        headers={"traceparent": PARENT},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200


def test_a_trace_leads_from_the_application_over_send_to_acknowledgement(
    collected: Collector,
) -> None:
    [checkout] = collected.named("checkout")
    publish = _of(collected, "publish /default/single", checkout.trace)
    process = _of(collected, "process /default/single", checkout.trace)
    assert (publish.parent, process.parent) == (checkout.span, publish.span)
    assert publish.attributes["messaging.message.id"] == "/default/single@0"
    assert process.attributes["messaging.sulina.outcome"] == "acknowledged"
    assert process.attributes["messaging.destination.subscription.name"] == "s"
    assert publish.service == process.service == "shop"


def test_a_message_that_was_refused_is_an_error_in_its_trace(collected: Collector) -> None:
    found = collected.named("process /default/single")
    outcomes = {each.attributes["messaging.sulina.outcome"]: each.status for each in found}
    assert outcomes == {"acknowledged": 0, "refused": 2}
    assert [each.status for each in collected.named("publish /default/single")].count(2) == 1


def test_a_batch_is_one_span_with_links_to_the_traces_of_its_messages(
    collected: Collector,
) -> None:
    [publish] = collected.named("publish /default/batched")
    [process] = collected.named("process /default/batched")
    assert set(process.links) == {publish.trace} and process.trace != publish.trace
    assert process.attributes["messaging.sulina.outcome"] == "acknowledged"


def test_a_request_over_http_a_broker_and_a_consumer_share_a_trace(collected: Collector) -> None:
    broker = _of(collected, "messages.publish", TRACE)
    process = _of(collected, "process /default/over-http", TRACE)
    assert (broker.service, broker.parent, process.parent) == ("sulina-broker", SPAN, broker.span)
    assert broker.attributes["sulina.resource"] == "/default/over-http"
    assert broker.attributes["sulina.door"] == "http"


def test_the_broker_follows_messages_of_danubes_clients_to_their_acknowledgement(
    collected: Collector,
) -> None:
    collected.wait_for(f"publish {DANUBE}", f"deliver {DANUBE}")
    published, delivered = (collected.named(f"{name} {DANUBE}") for name in ("publish", "deliver"))
    assert {(each.trace, each.parent) for each in (*published, *delivered)} == {(TRACE, SPAN)}
    assert [_outcome(each) for each in published] == ["durable"] * 2
    assert sorted((_outcome(each), each.status) for each in delivered) == [
        ("acknowledged", 0),
        ("refused", 2),
    ]
    assert {each.attributes["messaging.message.id"] for each in delivered} == {
        f"{DANUBE}@0",
        f"{DANUBE}@1",
    }


def test_a_spark_job_and_its_tasks_are_spans_of_one_trace(collected: Collector) -> None:
    [job] = collected.named("job replaying")
    [write] = collected.named(f"write {SPARK}")
    process = collected.named(f"process {SPARK}")
    assert (job.service, job.trace, job.parent) == ("sulina-job", TRACE, SPAN)
    assert (write.trace, write.parent) == (TRACE, job.span)
    assert [each.trace for each in process] == [TRACE, OWN_TRACE]
    assert process[0].parent == write.span


def _outcome(span: CollectedSpan) -> str:
    return span.attributes["messaging.sulina.outcome"]


def test_a_program_without_opentelemetry_loads_none_of_it() -> None:
    code = (
        "import sys, sulina\n"
        "from sulina.client.kinds import producer_type\n"
        "assert producer_type().__name__ == 'Producer'\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_program_that_loaded_it_and_set_up_nothing_is_not_slowed() -> None:
    code = (
        "import opentelemetry.trace\n"
        "from sulina.client.kinds import producer_type\n"
        "assert producer_type().__name__ == 'Producer'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def _of(collected: Collector, name: str, trace: str) -> CollectedSpan:
    [found] = [each for each in collected.named(name) if each.trace == trace]
    return found
