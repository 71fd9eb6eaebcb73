"""Producers and consumers that run until everything is published and acknowledged.

All records are different. A producer sends its frames in order, several at a time; after an error
it sends all unacknowledged frames again, over a new connection, to the supposed owner. Consumers
acknowledge what they receive, sometimes late or never.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from sulina.errors import SulinaError
from sulina.model import SubscriptionType
from sulina.names import TopicName
from sulina.runtime.seam import Buffer
from sulina.wire.encode import Origin, encode_frame
from tests.simulation.brokers import ConsumerClient, SimConsumerEnd, SimSession
from tests.simulation.checker import Checker
from tests.simulation.clock import EPOCH_US, SimClock
from tests.simulation.loop import SimMachine
from tests.simulation.network import SimConnection, SimEndpoint, SimNetwork

_T = TypeVar("_T")
Find = Callable[[TopicName], Awaitable[SimEndpoint]]
"""Finds the supposed owner of a topic."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A frame, and when to publish it."""

    at: float
    data: bytes
    contents: list[bytes]


class SimProducer:
    """Publishes its frames, and retries until all are acknowledged."""

    def __init__(
        self,
        name: str,
        topic: TopicName,
        machine: SimMachine,
        network: SimNetwork,
        find: Find,
        chance: Random,
        checker: Checker,
    ) -> None:
        self.name = name
        self.topic = topic
        self._machine = machine
        self._clock = SimClock(machine.loop)
        self._network = network
        self._find = find
        self._chance = chance
        self._checker = checker
        self._window = chance.choice((1, 3, 8))
        self._late = chance.choice((0.0, 0.0, 0.1, 0.5))
        """The share of frames with a later delivery time."""
        self._left: deque[Planned] = deque()
        self._session: SimSession | None = None
        self._connection: SimConnection | None = None

    @property
    def done(self) -> bool:
        return not self._left

    def plan(self, frames: int, begin: float, end: float) -> None:
        """Draw what is published, and when."""
        origin = Origin(self.name)
        sequence = 0
        bursts = [self._chance.uniform(begin, end) for _ in range(max(1, frames // 12))]
        if self._chance.random() < 0.5:
            moments = [self._chance.choice(bursts) for _ in range(frames)]
        else:
            moments = [self._chance.uniform(begin, end) for _ in range(frames)]
        for at in sorted(moments):
            count = self._chance.choice((1, 1, 1, 2, 4))
            size = self._chance.choice((0, 10, 10, 100, 400))
            contents = [
                f"{self.topic.local}|{self.name}|{sequence + n}|".encode() + b"x" * size
                for n in range(count)
            ]
            due_us = None
            if self._chance.random() < self._late:
                due_us = EPOCH_US + int((at + self._chance.uniform(0.01, 4.0)) * 1e6)
            data = encode_frame(origin, sequence, contents, int(at * 1e6), due_us=due_us)
            self._left.append(Planned(at, data, contents))
            sequence += count

    async def run(self) -> None:
        while self._left:
            try:
                await self._connect()
                await self._publish()
            except SulinaError as error:
                self._checker.trace.note(f"{self.topic.local}/{self.name} retries: {error}")
                await self._clock.sleep(self._chance.uniform(0.01, 0.3))
            finally:
                if self._connection is not None:
                    self._connection.close()

    async def _connect(self) -> None:
        early = self._left[0].at - self._clock.now()
        if early > 0:
            await self._clock.sleep(early)
        endpoint = await self._find(self.topic)
        connection = self._network.connect(self._machine, endpoint)
        self._connection = connection
        answer: asyncio.Future[SimSession] = connection.request(
            lambda door: door.attach(self.topic, self.name, connection)
        )
        self._session = await within(8.0, connection, answer)

    async def _publish(self) -> None:
        """Keep the window full, and process acknowledgements in order."""
        assert self._connection is not None
        connection, session = self._connection, self._session
        sent: deque[asyncio.Future[int]] = deque()
        number = 0
        while self._left:
            while len(sent) < min(self._window, len(self._left)):
                frame = self._left[len(sent)]
                early = frame.at - self._clock.now()
                if early > 0 and sent:
                    break
                if early > 0:
                    await self._clock.sleep(early)
                sent.append(self._send(connection, session, number, frame.data))
                number += 1
            base = await within(5.0, connection, sent[0])
            sent.popleft()
            self._checker.published(self.topic, self._left.popleft().contents, base)

    def _send(
        self, connection: SimConnection, session: SimSession | None, number: int, data: bytes
    ) -> asyncio.Future[int]:
        return connection.request(lambda door: door.publish(session, number, data), ordered=True)


class SimConsumer(ConsumerClient):
    """Receives the records of a subscription and acknowledges them."""

    def __init__(
        self,
        name: str,
        topic: TopicName,
        subscription: str,
        type_: SubscriptionType,
        machine: SimMachine,
        network: SimNetwork,
        find: Find,
        chance: Random,
        checker: Checker,
    ) -> None:
        self.name = name
        self.careless = chance.choice((0.0, 0.05, 0.3))
        """The share of deliveries that it never acknowledges."""
        self._topic = topic
        self._subscription = subscription
        self._type = type_
        self._machine = machine
        self._clock = SimClock(machine.loop)
        self._network = network
        self._find = find
        self._chance = chance
        self._checker = checker
        self._end: SimConsumerEnd | None = None
        self._connection: SimConnection | None = None

    async def run(self) -> None:
        """Stay connected to the supposed owner."""
        while True:
            try:
                endpoint = await self._find(self._topic)
                connection = self._connection = self._network.connect(self._machine, endpoint)
                end = self._end = SimConsumerEnd(self.name, connection, self)
                await within(8.0, connection, self._join(connection, end))
                while connection.open and self._end is end:
                    await self._clock.sleep(self._chance.uniform(0.2, 0.6))
                    if await self._is_elsewhere(endpoint):
                        break
            except SulinaError:
                await self._clock.sleep(self._chance.uniform(0.05, 0.4))
            finally:
                self._end = None
                if self._connection is not None:
                    self._connection.close()

    async def _is_elsewhere(self, endpoint: SimEndpoint) -> bool:
        """Whether the topic seems to have another owner now."""
        return await self._find(self._topic) is not endpoint

    def _join(
        self, connection: SimConnection, end: SimConsumerEnd
    ) -> asyncio.Future[SimConsumerEnd]:
        return connection.request(
            lambda door: door.subscribe(self._topic, self._subscription, self._type, end)
        )

    def handed_over(self, frame: Buffer, latest_us: int) -> None:
        self._checker.handed_over(self._topic, frame, latest_us)

    def got(self, end: SimConsumerEnd, frame: bytes, chosen: int | None) -> None:
        offsets = self._checker.delivered(self._topic, frame, chosen)
        if end.connection.open:
            end.connection.request(
                lambda door: door.took(end, len(offsets), len(frame)), ordered=True
            )
        if self._chance.random() < self.careless:
            return
        self._machine.loop.call_later(self._chance.uniform(0.0, 0.02), self._ack, end, offsets)

    def _ack(self, end: SimConsumerEnd, offsets: list[int]) -> None:
        if end.connection.open:
            self._checker.acking(self._topic, self._subscription, offsets)
            end.connection.request(lambda door: door.ack(end, offsets), ordered=True)

    def ended(self, end: SimConsumerEnd) -> None:
        if self._end is end:
            self._end = None


async def within(seconds: float, connection: SimConnection, answer: asyncio.Future[_T]) -> _T:
    """The answer. After ``seconds`` the connection is closed, and the request with it."""
    timer = asyncio.get_running_loop().call_later(seconds, connection.close)
    try:
        return await answer
    finally:
        timer.cancel()
