"""Autoscaling to watch: ``python -m localstack.autoscaling``, next to ``make up CLOUD=1``.

Clients publish numbers to some topics and consume them, first as fast as they can, then a few per
second. Meanwhile brokers come, topics move to them, and when it is quiet again brokers drain and
go. At the end every number must have arrived, in order, and no call may have failed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import sulina
from localstack.cloud.scaling import LOW_MINUTES
from sulina.errors import Refused, SulinaError, Unavailable
from sulina.model import Start
from sulina.runtime.real_clock import RealClock
from sulina.runtime.stop_signal import INTERRUPTED
from sulina.runtime.tasks import stop_tasks

TOPICS: Final = tuple(f"/default/scaling-{number}" for number in range(1, 5))
_SUBSCRIPTION: Final = "watching"
_QUIET_SECONDS: Final = 0.5
_POLL_SECONDS: Final = 0.5
_BALANCE: Final = {
    # Topics count the same, so that they move as soon as a broker comes.
    "balance.ranking": "simple",
    "balance.confirm_seconds": 1,
    "balance.interval_seconds": 1,
    "balance.load_per_interval": 1,
    "balance.broker_cooldown_seconds": 1,
    "balance.topic_cooldown_seconds": 1,
    "balance.quiet": 0,
    "cluster.report_seconds": 1,
}
"""The load manager's usual patience is minutes."""


@dataclass(slots=True)
class NumberStream:
    """Numbers published to a topic and consumed from it."""

    topic: str
    quiet: asyncio.Event
    sent: int = 0
    """All lower numbers are acknowledged."""
    received: int = 0
    """All lower numbers have arrived."""
    repeated: int = 0
    faults: list[str] = field(default_factory=list)

    async def publish(self, client: sulina.Client, stop: asyncio.Event) -> None:
        """Publish the next number when the last one is acknowledged, until ``stop``."""
        clock = RealClock()
        async with client.producer(self.topic) as producer:
            while not stop.is_set():
                await (await producer.send(str(self.sent).encode()))
                self.sent += 1
                if self.quiet.is_set():
                    await clock.sleep(_QUIET_SECONDS)

    async def consume(self, client: sulina.Client) -> None:
        """Consume until cancelled; a number may arrive again, but none may be missing."""
        start = Start.latest()
        async with client.consumer(self.topic, _SUBSCRIPTION, start=start) as consumer:
            async for message in consumer:
                number = int(message.text())
                if number == self.received:
                    self.received += 1
                elif number < self.received:
                    self.repeated += 1
                else:
                    self.faults.append(f"{self.topic}: {number} came instead of {self.received}")
                    self.received = number + 1
                await consumer.ack(message)


@dataclass(frozen=True, slots=True)
class ScalingResult:
    """What was seen."""

    brokers: tuple[int, int, int]
    """At the start, at most, at the end."""
    messages: int
    repeated: int
    faults: tuple[str, ...]


async def show(url: str, token: str, seconds: float, tell: Callable[[str], None]) -> ScalingResult:
    """Watch brokers come and go. Raises ``Unavailable`` if a step takes over ``seconds``."""
    quiet, stop = asyncio.Event(), asyncio.Event()
    async with sulina.connect(url, token=token) as client:
        for name, value in _BALANCE.items():
            await client.admin("config.set", {"name": name, "value": value})
        for topic in TOPICS:
            await client.admin("topic.create", {"topic": topic})
        streams = [NumberStream(topic, quiet) for topic in TOPICS]
        consuming = [asyncio.create_task(each.consume(client)) for each in streams]
        watch = _Watch(client, seconds, tell)
        first = len(await watch.brokers())
        publishing = [asyncio.create_task(each.publish(client, stop)) for each in streams]
        watch.working = [*consuming, *publishing]
        try:
            tell(f"{first} brokers; publishing as fast as possible")
            await watch.until("brokers to come", lambda rows: len(rows) > first)
            await watch.until(
                "topics to move", lambda rows: sum(row["topics"] > 0 for row in rows) > first
            )
            most = len(await watch.brokers())
            tell(
                "publishing a few messages per second; brokers go one by one, "
                f"each after {LOW_MINUTES} of the cloud's minutes"
            )
            quiet.set()
            await watch.until("brokers to go", lambda rows: len(rows) == first)
            stop.set()
            await asyncio.gather(*publishing)
            watch.working = consuming
            await watch.until(
                "the last messages",
                lambda _: all(each.received == each.sent for each in streams),
            )
        finally:
            await stop_tasks(*consuming, *publishing)
    return ScalingResult(
        (first, most, first),
        sum(each.sent for each in streams),
        sum(each.repeated for each in streams),
        tuple(fault for each in streams for fault in each.faults),
    )


class _Watch:
    """Looks at the brokers until something is so."""

    def __init__(self, client: sulina.Client, seconds: float, tell: Callable[[str], None]) -> None:
        self.working: Sequence[asyncio.Task[None]] = ()
        self._client = client
        self._seconds = seconds
        self._tell = tell
        self._clock = RealClock()
        self._said = ""

    async def brokers(self) -> list[dict[str, Any]]:
        """All brokers, with the number of topics that they serve."""
        found: list[dict[str, Any]] = await self._client.admin("broker.list", {})
        said = ", ".join(f"{row['broker']} {row['topics']} topics" for row in found)
        if said != self._said:
            self._said = said
            self._tell(said)
        return found

    async def until(self, what: str, enough: Callable[[list[dict[str, Any]]], bool]) -> None:
        """Raises ``Unavailable`` after a while, and the error of a client."""
        end = self._clock.now() + self._seconds
        while not enough(rows := await self.brokers()):
            for task in self.working:
                if task.done():
                    task.result()
            if self._clock.now() > end:
                raise Unavailable(f"waited {self._seconds:g} s for {what}, and found {rows}")
            await self._clock.sleep(_POLL_SECONDS)


def main(argv: Sequence[str]) -> int:
    """Run it; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m localstack.autoscaling",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--seconds", type=float, default=900.0, help="longest time of each step (default: 900)"
    )
    given = parser.parse_args(argv)
    try:
        if "SULINA_URL" not in os.environ:
            raise Refused("source .sulina-cloud/cloud.env first")
        url, token = os.environ["SULINA_URL"], os.environ.get("SULINA_TOKEN", "")
        found = asyncio.run(show(url, token, given.seconds, _say))
    except SulinaError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    lost = f"{len(found.faults)} gaps" if found.faults else "none lost"
    _say(f"{found.messages} messages, {found.repeated} delivered twice, {lost}, no call failed")
    for fault in found.faults:
        _say(fault)
    return 1 if found.faults else 0


def _say(sentence: str) -> None:
    sys.stdout.write(f"{sentence}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
