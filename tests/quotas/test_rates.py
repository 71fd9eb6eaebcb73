"""Rates: a producer or consumer over its rate is slowed down, and gets no error."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from broker_containers.quotas.token_bucket import TokenBucket
from sulina import Client, Start
from tests.auth.broker import ROOT, Guarded, bearer

_AMOUNTS = st.lists(st.tuples(st.floats(0, 10_000), st.floats(0, 5)), max_size=50)


@given(rate=st.floats(0.1, 1e6), steps=_AMOUNTS)
def test_a_taker_that_waits_stays_within_the_rate(
    rate: float, steps: list[tuple[float, float]]
) -> None:
    bucket, now, taken = TokenBucket(rate, 0.0), 0.0, 0.0
    for amount, pause in steps:
        now += pause
        # What was taken before this fits into the first second's worth and the time that passed.
        assert taken <= rate * (now + 1) * 1.001 + 1e-6
        taken += amount
        wait = bucket.take(amount, now)
        assert 0 <= wait <= 60.001
        if amount <= rate * 60:
            now += wait
        else:
            return  # more than a minute's worth: the debt is capped


@given(rate=st.floats(0.1, 1e6), steps=_AMOUNTS)
def test_a_taker_within_the_rate_never_waits(rate: float, steps: list[tuple[float, float]]) -> None:
    bucket, now = TokenBucket(rate, 0.0), 0.0
    for _, pause in steps:
        now += pause
        assert bucket.take(min(pause, 1.0) * rate * 0.999, now) == 0


@given(steps=_AMOUNTS, final=st.floats(0, 100))
def test_a_clock_that_stands_still_or_goes_back_gives_nothing(
    steps: list[tuple[float, float]], final: float
) -> None:
    bucket = TokenBucket(10.0, 1_000.0)
    still = TokenBucket(10.0, 1_000.0)
    for amount, back in steps:
        assert bucket.take(amount, 1_000.0 - back) == still.take(amount, 1_000.0)


async def send(client: Client, topic: str, frames: int, records: int) -> float:
    """How long it takes to publish frames with this many records each."""
    began = time.monotonic()
    async with client.producer(topic) as producer:
        for _ in range(frames):
            batch = [await producer.send(b"x" * 100) for _ in range(records)]
            await producer.flush()
            for sent in batch:
                await sent
    return time.monotonic() - began


async def test_a_producer_over_its_rate_is_slowed_without_an_error(
    guarded: Guarded, namespace: str
) -> None:
    await guarded.root.admin.quotas.namespace(namespace, publish_records=200)
    # The first 200 are free; the last frame does not wait for what it owes.
    assert await send(guarded.root, f"/{namespace}/t", 10, 50) >= (500 - 200 - 50) / 200
    http = await guarded.http("GET", "/metrics", headers=bearer(ROOT))
    assert 'sulina_quota_refusals_total{limit="publish_records"}' in http.text
    await guarded.root.admin.quotas.namespace(namespace, publish_records=0)
    assert not guarded.server.broker.quotas.limited


async def test_the_rate_of_a_principal_holds_over_all_its_connections(
    guarded: Guarded, namespace: str
) -> None:
    principal = f"of-{namespace}"
    token = await guarded.token(principal, f"produce:/{namespace}/*")
    await guarded.root.admin.quotas.principal(principal, publish_bytes=10_000)
    async with guarded.connect(token) as one, guarded.connect(token) as two:
        began = time.monotonic()
        await send(one, f"/{namespace}/t", 1, 150)
        await send(two, f"/{namespace}/t", 2, 50)
        assert time.monotonic() - began >= 0.5  # at least 15 kB, and 10 kB are free
    await guarded.root.admin.quotas.principal(principal, publish_bytes=None)


async def test_consumers_get_records_at_the_rate_of_their_namespace(
    guarded: Guarded, namespace: str
) -> None:
    topic = f"/{namespace}/t"
    await send(guarded.root, topic, 10, 50)
    await guarded.root.admin.quotas.namespace(namespace, dispatch_records=200)
    began, received = time.monotonic(), 0
    async with guarded.root.consumer(topic, "s", start=Start.earliest()) as consumer:
        async for batch in consumer.batches():
            received += len(batch.payloads)
            await consumer.ack(batch)
            if received == 500:
                break
    assert time.monotonic() - began >= (500 - 200 - 50) / 200
    await guarded.root.admin.quotas.namespace(namespace, dispatch_records=None)
