"""One end of a load, in the environment of Danube's stock client: a producer or a consumer.

A standalone script that uses none of Sulina's code: ``python danube_load.py ROLE OPTIONS``, with
the options as JSON. ``danube_load.go`` does the same with danube-go:

* ``produce`` sends for ``seconds``, with ``in_flight`` sends at once, or with ``rate`` one after
  the other, each due at its time. Prints how many it sent, when it began, and the milliseconds of
  each (at most 100,000), with ``rate`` since it was due.
* ``call`` does the same with bare calls of SendMessage, without Danube's client.
* ``consume`` prints ``ready`` once it receives, reads from standard input how many messages there
  will be, acknowledges all of them, with up to ``in_flight`` acknowledgements at once, and prints
  when the last one was answered. It gives up after ``patience`` seconds without a message.

Times are those of the machine's monotonic clock, which all processes share.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from danube import (  # type: ignore[import-not-found]
    DanubeClientBuilder,
    DispatchStrategy,
    SubType,
)
from danube.proto import DanubeApi_pb2 as pb  # type: ignore[import-not-found]

KEPT = 100_000
clock = time.monotonic

Send = Callable[[], Awaitable[object]]


async def stock_send(options: dict[str, Any], payload: bytes) -> Send:
    """The stock producer, as applications use it."""
    producer = await stock_producer(await stock_client(options), options, "bench")
    return lambda: producer.send(payload, {})


async def stock_client(options: dict[str, Any]) -> Any:
    return await DanubeClientBuilder().service_url(f"http://{options['place']}").build()


async def stock_producer(client: Any, options: dict[str, Any], name: str) -> Any:
    builder = client.new_producer().with_topic(options["topic"]).with_name(name)
    producer = builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
    await producer.create()
    return producer


async def bare_send(options: dict[str, Any], payload: bytes) -> Send:
    """Only the gRPC call, with a prepared message."""
    channel = grpc.aio.insecure_channel(options["place"])
    call = channel.unary_unary(
        "/danube.ProducerService/SendMessage",
        request_serializer=pb.StreamMessage.SerializeToString,
        response_deserializer=pb.MessageResponse.FromString,
    )
    message = pb.StreamMessage(
        request_id=1,
        msg_id=pb.MsgID(producer_id=1, topic_name=options["topic"]),
        payload=payload,
        publish_time=int(time.time() * 1000),
        producer_name="bench",
    )
    return lambda: call(message)


async def produce(options: dict[str, Any], send: Send) -> dict[str, Any]:
    for _ in range(options["warm_up"]):
        await send()
    await asyncio.sleep(0.5)  # the consumer has them all
    samples: list[float] = []
    sent = 0
    begun = clock()
    end = begun + options["seconds"]

    def answered(start: float) -> None:
        nonlocal sent
        sent += 1
        if len(samples) < KEPT:
            samples.append((clock() - start) * 1000)

    async def caller() -> None:
        while (start := clock()) < end:
            await send()
            answered(start)

    async def paced(rate: float) -> None:
        while (due := begun + sent / rate) < end and clock() < end:
            if (early := due - clock()) > 0:
                await asyncio.sleep(early)
            await send()
            answered(due)

    if options["rate"]:
        await paced(options["rate"])
    else:
        await asyncio.gather(*(caller() for _ in range(options["in_flight"])))
    return {"sent": sent, "begun": begun, "ended": clock(), "ms": samples}


async def consume(options: dict[str, Any]) -> dict[str, Any]:
    client = await stock_client(options)
    await stock_producer(client, options, "creator")  # a consumer does not create the topic
    builder = client.new_consumer().with_topic(options["topic"]).with_consumer_name("bench")
    builder = builder.with_subscription("bench").with_subscription_type(SubType.EXCLUSIVE)
    consumer = builder.build()
    await consumer.subscribe()
    queue = await consumer.receive()
    say("ready")
    wanted = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    taken = acknowledged = 0
    last = clock()

    async def worker() -> None:
        nonlocal taken, acknowledged, last
        while True:
            message = await queue.get()
            taken += 1
            await consumer.ack(message)
            acknowledged += 1
            last = clock()

    workers = [asyncio.create_task(worker()) for _ in range(options["in_flight"])]
    total = int(await wanted)
    last = max(last, clock()) if acknowledged < total else last
    while acknowledged < total and clock() - last < options["patience"]:
        await asyncio.wait(workers, timeout=0.01, return_when=asyncio.FIRST_EXCEPTION)
        for each in workers:
            if each.done():
                each.result()  # raises what went wrong
    return {"acknowledged": acknowledged, "ended": last}


def say(what: str) -> None:
    sys.stdout.write(what + "\n")
    sys.stdout.flush()


async def main() -> None:
    role, options = sys.argv[1], json.loads(sys.argv[2])
    if role == "consume":
        found = await consume(options)
    else:
        make = stock_send if role == "produce" else bare_send
        found = await produce(options, await make(options, os.urandom(options["size"])))
    say(json.dumps(found))
    os._exit(0)  # the client cannot be closed, and has no data to keep


if __name__ == "__main__":
    asyncio.run(main())
