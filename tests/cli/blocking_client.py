"""The broker through the client library, to prepare and check what commands do."""

from __future__ import annotations

import asyncio
from typing import Any

import sulina
from sulina.model import Start


class BlockingClient:
    """Blocking calls, each over its own connection."""

    def __init__(self, url: str) -> None:
        self._url = url

    def publish(self, topic: str, *payloads: str, keys: list[str] | None = None) -> None:
        async def work() -> None:
            async with sulina.connect(self._url) as client, client.producer(topic) as producer:
                await producer.send_many([each.encode() for each in payloads], keys=keys)

        asyncio.run(work())

    def read(self, topic: str) -> list[str]:
        """All payloads of an unpartitioned topic."""

        async def work() -> list[str]:
            found: list[str] = []
            start, at_end = Start.earliest(), False
            async with sulina.connect(self._url) as client:
                while not at_end:
                    result = await client.read(topic, start)
                    found += [message.text() for batch in result for message in batch]
                    start, at_end = Start.offset(result.next_offset), result.at_end
            return found

        return asyncio.run(work())

    def wait_for(self, topic: str, count: int) -> None:
        """Wait until the topic has this many messages."""

        async def work() -> None:
            async with (
                sulina.connect(self._url) as client,
                client.consumer(topic, "waiting", start=Start.earliest()) as consumer,
            ):
                for _ in range(count):
                    await consumer.receive(timeout=60)

        asyncio.run(work())

    def admin(self, method: str, **arguments: Any) -> Any:
        async def work() -> Any:
            async with sulina.connect(self._url) as client:
                return await client.admin(method, arguments)

        return asyncio.run(work())

    def topics(self) -> list[str]:
        return [row["topic"] for row in self.admin("topic.list")]

    def subscriptions(self, topic: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.admin("subscription.list", topic=topic)
        return found
