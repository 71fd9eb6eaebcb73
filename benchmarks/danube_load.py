"""Runs in the environment of Danube's stock client: sends to a broker or to the bare server.

A standalone script: ``python danube_load.py HOST:PORT HOW CALLERS SECONDS BYTES``. HOW is ``stock``
for the stock producer's ``send``, ``raw`` for the same call on a bare channel with a prepared
message. Prints one line of JSON: the number of responses, the time taken, and the milliseconds of
each (at most 100,000). It does not use Sulina's code.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable

import grpc
from danube import (  # type: ignore[import-not-found]
    DanubeClientBuilder,
    DispatchStrategy,
    ProducerOptions,
)
from danube.proto import DanubeApi_pb2 as pb  # type: ignore[import-not-found]

TOPIC = "/default/bench"
WARM_UP = 50
KEPT = 100_000

Send = Callable[[], Awaitable[object]]


async def stock(place: str, payload: bytes) -> Send:
    """The stock producer, as applications use it."""
    client = await DanubeClientBuilder().service_url(f"http://{place}").build()
    builder = client.new_producer().with_topic(TOPIC).with_name("bench")
    builder = builder.with_dispatch_strategy(DispatchStrategy.RELIABLE)
    producer = builder.with_options(ProducerOptions()).build()
    await producer.create()
    return lambda: producer.send(payload, {})


async def raw(place: str, payload: bytes) -> Send:
    """Only the gRPC call."""
    channel = grpc.aio.insecure_channel(place)
    create = channel.unary_unary(
        "/danube.ProducerService/CreateProducer",
        request_serializer=pb.ProducerRequest.SerializeToString,
        response_deserializer=pb.ProducerResponse.FromString,
    )
    await create(
        pb.ProducerRequest(
            topic_name=TOPIC, producer_name="bench", dispatch_strategy=pb.DispatchStrategy.Reliable
        )
    )
    call = channel.unary_unary(
        "/danube.ProducerService/SendMessage",
        request_serializer=pb.StreamMessage.SerializeToString,
        response_deserializer=pb.MessageResponse.FromString,
    )
    message = pb.StreamMessage(
        request_id=1,
        msg_id=pb.MsgID(producer_id=1, topic_name=TOPIC, broker_addr=f"http://{place}"),
        payload=payload,
        publish_time=int(time.time() * 1000),
        producer_name="bench",
    )
    return lambda: call(message)


async def main() -> None:
    place, how, callers, seconds, size = sys.argv[1:]
    send = await {"stock": stock, "raw": raw}[how](place, os.urandom(int(size)))
    for _ in range(WARM_UP):
        await send()
    clock = time.perf_counter
    samples: list[float] = []
    answered = 0
    begun = clock()
    end = begun + float(seconds)

    async def caller() -> None:
        nonlocal answered
        while (start := clock()) < end:
            await send()
            answered += 1
            if len(samples) < KEPT:
                samples.append((clock() - start) * 1000)

    await asyncio.gather(*(caller() for _ in range(int(callers))))
    took = clock() - begun
    sys.stdout.write(json.dumps({"answered": answered, "seconds": took, "ms": samples}) + "\n")
    sys.stdout.flush()
    os._exit(0)  # the client cannot be closed, and has no data to keep


if __name__ == "__main__":
    asyncio.run(main())
