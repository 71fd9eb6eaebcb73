"""Runs in the environment of the stock client and does with it what a test says.

One line of JSON on standard input is a task, one on standard output its outcome; tasks run at the
same time. Only the client's public interface is used.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from typing import Any

import grpc
from danube import (  # type: ignore[import-not-found]
    DanubeClientBuilder,
    DispatchStrategy,
    ProducerOptions,
    SchemaType,
    SubType,
)

_numbers = itertools.count(1)


class Agent:
    """Clients, producers, consumers and messages by number."""

    def __init__(self) -> None:
        self._things: dict[int, Any] = {}
        self._queues: dict[int, asyncio.Queue[Any]] = {}
        self._loads: dict[int, Load] = {}

    def _keep(self, thing: Any) -> int:
        number = next(_numbers)
        self._things[number] = thing
        return number

    async def client(self, url: str, ca: str = "", token: str = "") -> int:
        builder = DanubeClientBuilder().service_url(url)
        if ca:
            builder = builder.with_tls(ca)
        if token:
            builder = builder.with_token(token)
        return self._keep(await builder.build())

    async def load(self, producer: int, consumer: int, pause: float) -> int:
        """Send and receive until ``load_end``."""
        load = Load(self._things[producer], self._things[consumer], self._queues[consumer], pause)
        number = self._keep(load)
        self._loads[number] = load
        return number

    async def load_report(self, load: int) -> dict[str, Any]:
        return self._loads[load].report()

    async def load_end(self, load: int, seconds: float) -> dict[str, Any]:
        """Stop sending; report when everything that was sent has arrived, or the time is over."""
        found = self._loads.pop(load)
        await found.end(seconds)
        return found.report()

    async def producer(
        self,
        client: int,
        topic: str,
        name: str,
        reliable: bool,
        partitions: int,
        schema: list[Any],
    ) -> int:
        strategy = DispatchStrategy.RELIABLE if reliable else DispatchStrategy.NON_RELIABLE
        builder = self._things[client].new_producer().with_topic(topic).with_name(name)
        builder = builder.with_dispatch_strategy(strategy).with_options(ProducerOptions())
        if partitions:
            builder = builder.with_partitions(partitions)
        if schema:
            how, *arguments = schema
            builder = getattr(builder, how)(*arguments)
        producer = builder.build()
        await producer.create()
        return self._keep(producer)

    async def register(self, client: int, subject: str, kind: str, definition: str) -> int:
        """The id of a schema."""
        builder = self._things[client].schema().register_schema(subject)
        builder = builder.with_type(SchemaType[kind]).with_schema_data(definition.encode())
        return int(await builder.execute())

    async def enforce(self, client: int, topic: str, subject: str) -> None:
        await self._things[client].schema().configure_topic_schema(topic, subject, "enforce", True)

    async def send(
        self, producer: int, payload: str, attributes: dict[str, str], key: str | None
    ) -> int:
        sender, data = self._things[producer], payload.encode()
        if key is None:
            return int(await sender.send(data, attributes))
        return int(await sender.send_with_key(data, attributes, key))

    async def send_all(self, producer: int, payloads: list[str]) -> None:
        await asyncio.gather(*(self.send(producer, each, {}, None) for each in payloads))

    async def consumer(
        self,
        client: int,
        topic: str,
        name: str,
        subscription: str,
        kind: str,
        key_filters: list[str],
    ) -> int:
        builder = self._things[client].new_consumer().with_topic(topic).with_consumer_name(name)
        builder = builder.with_subscription(subscription)
        builder = builder.with_subscription_type(SubType[kind]).with_key_filters(key_filters)
        consumer = builder.build()
        await consumer.subscribe()
        return self._keep(consumer)

    async def receive(self, consumer: int) -> None:
        self._queues[consumer] = await self._things[consumer].receive()

    async def take(self, consumer: int, seconds: float) -> dict[str, Any] | None:
        try:
            message = await asyncio.wait_for(self._queues[consumer].get(), seconds)
        except TimeoutError:
            return None
        return {
            "number": self._keep(message),
            "payload": message.payload.decode(),
            "attributes": dict(message.attributes),
            "key": message.routing_key if message.HasField("routing_key") else None,
            "topic": message.msg_id.topic_name,
            "offset": message.msg_id.topic_offset,
            "producer": message.producer_name,
            "publish_time": message.publish_time,
            "schema": [message.schema_id, message.schema_version],
        }

    async def ack(self, consumer: int, message: int) -> None:
        await self._things[consumer].ack(self._things.pop(message))

    async def nack(
        self, consumer: int, message: int, delay_ms: int | None, reason: str | None
    ) -> None:
        await self._things[consumer].nack(self._things.pop(message), delay_ms, reason)

    async def close(self, thing: int) -> None:
        await self._things.pop(thing).close()

    async def close_all(self) -> None:
        """Forgotten consumers would call at a thousand times a second once their broker is gone."""
        for load in self._loads.values():
            load.stop()
        self._loads.clear()
        things, self._things = self._things.values(), {}
        self._queues.clear()
        await asyncio.gather(*(thing.close() for thing in things if hasattr(thing, "close")))


def _words(error: Exception) -> str:
    found = isinstance(error, grpc.aio.AioRpcError)
    return f"{error.code().name} {error.details()}" if found else repr(error)  # type: ignore[attr-defined]


class Load:
    """Sends one message after the other, and acknowledges what arrives; notes every error."""

    def __init__(self, producer: Any, consumer: Any, queue: Any, pause: float) -> None:
        self._producer = producer
        self._consumer = consumer
        self._queue = queue
        self._pause = pause
        self._sent: list[str] = []
        self._received: dict[str, int] = {}
        self._errors: list[str] = []
        self._pauses = {"send": 0.0, "receive": 0.0}
        self._tasks = [asyncio.create_task(self._send()), asyncio.create_task(self._receive())]

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        for number in itertools.count():
            began = loop.time()
            try:
                await self._producer.send(str(number).encode(), {})
                self._sent.append(str(number))
            except Exception as error:
                self._errors.append(f"send {number}: {_words(error)}")
            self._pauses["send"] = max(self._pauses["send"], loop.time() - began)
            await asyncio.sleep(self._pause)

    async def _receive(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            message = await self._queue.get()
            self._pauses["receive"] = max(self._pauses["receive"], loop.time() - began)
            payload = message.payload.decode()
            self._received[payload] = self._received.get(payload, 0) + 1
            try:
                await self._consumer.ack(message)
            except Exception as error:
                self._errors.append(f"ack {payload}: {_words(error)}")

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def end(self, seconds: float) -> None:
        self._tasks[0].cancel()
        end = asyncio.get_running_loop().time() + seconds
        while self._missing() and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.05)
        self.stop()

    def _missing(self) -> list[str]:
        return [each for each in self._sent if each not in self._received]

    def report(self) -> dict[str, Any]:
        return {
            "sent": len(self._sent),
            "received": len(self._received),
            "repeated": sum(self._received.values()) - len(self._received),
            "missing": self._missing(),
            "errors": self._errors,
            "pauses": self._pauses,
        }


async def main() -> None:
    agent = Agent()
    tasks: set[asyncio.Task[None]] = set()
    reader = asyncio.StreamReader(limit=64 << 20)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def do(number: int, task: str, arguments: dict[str, Any]) -> None:
        outcome: dict[str, Any] = {"number": number}
        try:
            outcome["result"] = await getattr(agent, task)(**arguments)
        except grpc.aio.AioRpcError as error:
            outcome |= {"error": error.details() or "", "code": error.code().name}
        except Exception as error:
            outcome |= {"error": str(error), "code": type(error).__name__}
        sys.stdout.write(json.dumps(outcome) + "\n")
        sys.stdout.flush()

    while line := await reader.readline():
        wanted = json.loads(line)
        task = asyncio.create_task(do(**wanted))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


if __name__ == "__main__":
    asyncio.run(main())
