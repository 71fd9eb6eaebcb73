"""Clients of topics with a life: producers of keyed records, consumers, readers, operators."""

from __future__ import annotations

from random import Random
from typing import Any

from broker_containers.topic_log.tail_cache import CachedFrame
from sulina.errors import SulinaError
from sulina.lake.erasing import key_digest
from sulina.metadata.keys.policy import Policy
from sulina.names import TopicName
from sulina.wire.decode import Frame
from sulina.wire.encode import Origin, encode_frame
from sulina.wire.tombstones import tombstone_attributes
from tests.simulation.brokers import SimConsumerEnd
from tests.simulation.clock import EPOCH_US, SimClock
from tests.simulation.life_checker import LifeChecker
from tests.simulation.life_model import CLOCK_SKEW, in_short
from tests.simulation.life_records import ID, identities
from tests.simulation.loop import SimMachine
from tests.simulation.network import SimNetwork
from tests.simulation.workload import Find, Planned, SimConsumer, SimProducer, within

KEYS = (None, b"k0", b"k1", b"k2", b"k3", b"k4")
_RARE_KEYS = tuple(b"r%d" % number for number in range(20))
"""Of these, the newest record is often old."""


class LifeProducer(SimProducer):
    """Publishes records of few keys, some of them tombstones, some with a time of their own."""

    def plan(self, frames: int, begin: float, end: float) -> None:
        chance, origin, sequence = self._chance, Origin(self.name), 0
        calendar = self._machine.loop.calendar
        expiring, gone = chance.choice((0.0, 0.1, 0.4)), chance.choice((0.1, 0.3))
        for at in sorted(chance.uniform(begin, end) for _ in range(frames)):
            count, size = chance.choice((1, 1, 2, 4)), chance.choice((0, 10, 100))
            keys = [chance.choice(chance.choice((KEYS, KEYS, _RARE_KEYS))) for _ in range(count)]
            payloads = [
                b"" if key is not None and chance.random() < gone else b"value " + b"x" * size
                for key in keys
            ]
            names = [f"{self.topic.local}/{self.name}/{sequence + n}" for n in range(count)]
            due = expires = None
            if chance.random() < self._late:
                due = at + chance.uniform(0.01, 2.0)
            if chance.random() < expiring:
                expires = (due or at) + chance.uniform(0.01, 3.0)
            data = encode_frame(
                origin,
                sequence,
                payloads,
                _wall_us(at, calendar),
                keys=keys,
                attributes=[
                    {ID: name} if payload else tombstone_attributes(key, {ID: name})
                    for key, payload, name in zip(keys, payloads, names, strict=True)
                ],
                due_us=None if due is None else _wall_us(due, calendar),
                expires_us=None if expires is None else _wall_us(expires, calendar),
            )
            self._left.append(Planned(at, data, identities(Frame(data))))
            sequence += count


def _wall_us(at: float, calendar: float) -> int:
    return EPOCH_US + int(at * calendar * 1e6)


class LifeConsumer(SimConsumer):
    """Has the checker look at deliveries where they leave the broker."""

    _checker: LifeChecker

    def sending(self, end: SimConsumerEnd, frame: CachedFrame, chosen: int | None) -> None:
        assert end.clock is not None and end.subscription is not None
        epoch = getattr(end.subscription.source.log, "epoch", 0)
        self._checker.sending(self._topic, frame.data, chosen, end.clock.wall_us(), epoch)


class LifeClient:
    """Asks the supposed owner of a topic, again and again until there is an answer."""

    def __init__(
        self,
        topic: TopicName,
        machine: SimMachine,
        network: SimNetwork,
        find: Find,
        chance: Random,
        checker: LifeChecker,
    ) -> None:
        self.topic = topic
        self.machine = machine
        self.clock = SimClock(machine.loop)
        self.chance = chance
        self.checker = checker
        self._network = network
        self._find = find

    async def ask(self, what: str, *arguments: object) -> Any:
        """The answer of one request. Raises what it raises."""
        connection = self._network.connect(self.machine, await self._find(self.topic))
        try:
            return await within(
                8.0,
                connection,
                connection.request(lambda door: getattr(door, what)(self.topic, *arguments)),
            )
        finally:
            connection.close()

    async def insist(self, what: str, *arguments: object) -> Any:
        """Repeat a request until it is answered."""
        while True:
            try:
                return await self.ask(what, *arguments)
            except SulinaError as error:
                self.checker.trace.note(f"{what} of {self.topic.local}: {error}")
                await self.clock.sleep(self.chance.uniform(0.05, 0.3))

    async def pause(self, low: float, high: float) -> None:
        await self.clock.sleep(self.chance.uniform(low, high))


class LifeReader(LifeClient):
    """Reads a topic from its start to its end, slowly, and again."""

    async def run(self) -> None:
        while True:
            await self.pause(0.1, 2.0)
            await self.read()

    async def read(self) -> None:
        seen: dict[int, bytes] = {}
        offset = start = 0
        slow, size = self.chance.choice((0.0, 0.05, 0.4)), self.chance.choice((300, 2000))
        began = self.clock.now()
        while True:
            asked = self.clock.now()
            answer: ReadAnswer = await self.insist("read", offset, size)
            for frame in answer.frames:
                seen |= self.checker.shown(self.topic, frame, answer.epoch, asked)
            start, offset = max(start, answer.start), answer.following
            if answer.at_end:
                break
            await self.pause(0.0, slow)
        life = self.checker.lives[self.topic]
        passed = self.clock.now() - began + CLOCK_SKEW
        passed_ms = passed * self.machine.loop.calendar * 1000
        kept = [policy.tombstone_retention_ms for policy, _ in life.policies]
        late = passed_ms >= min((each for each in kept if each), default=1 << 62)
        self.checker.read_all(self.topic, seen, start, offset, missed=late)


class ReadAnswer:
    """What a reader gets for a request."""

    def __init__(
        self, frames: list[bytes], start: int, following: int, epoch: int, at_end: bool
    ) -> None:
        self.frames = frames
        self.start = start
        self.following = following
        self.epoch = epoch
        self.at_end = at_end


class LifeOperator(LifeClient):
    """Changes the policy, undoes what retention removed, erases keys."""

    def __init__(self, *parts: object, policies: list[Policy]) -> None:
        super().__init__(*parts)  # type: ignore[arg-type]
        self._policies = policies
        self.busy = False
        """Whether an erasure is under way."""

    async def start(self) -> None:
        """Set the first policy."""
        await self._set(self._policies[0])

    async def run(self, until: float) -> None:
        while True:
            await self.pause(0.5, 4.0)
            if self.clock.now() > until:
                return
            works = self._change, self._undo, self._erase, self._erase_and_undo
            await self.chance.choice(works)()

    async def _set(self, policy: Policy) -> None:
        life = self.checker.lives[self.topic]
        if not life.policies or life.policies[-1][0] != policy:
            self.checker.trace.note(f"{self.topic.local}: {in_short(policy)}")
            life.policies.append((policy, None))  # and the former one, as long as that takes
            await self.insist("set_policy", policy)
            life.set_policy(policy, self.clock.now())  # from now on nobody reads the former one

    async def _change(self) -> None:
        await self._set(self.chance.choice(self._policies))

    async def _undo(self) -> None:
        """Keep everything from now on, and bring back what can be."""
        before = self.checker.lives[self.topic].policies[-1][0]
        changes = {"retention_ms": 0, "retention_bytes": 0, "delete_consumed": False}
        await self._set(before.with_changes(changes))
        try:
            await self.ask("undo")
        except SulinaError as error:
            self.checker.trace.note(f"undo of {self.topic.local}: {error}")
        await self.pause(0.0, 1.0)
        await self._set(before)

    async def _erase_and_undo(self) -> None:
        await self._erase()
        await self._undo()

    async def _erase(self) -> None:
        self.busy = True
        key = self.chance.choice([key for key in KEYS if key is not None])
        erased = self.checker.erasing(self.topic, key)
        self.checker.trace.note(f"{self.topic.local}: erase {key!r}")
        state, until, epoch = "failed", 0, 0
        while state != "done":
            if state == "failed":
                erased.number = await self.insist("erase", [key_digest(key)])
            await self.pause(0.05, 0.3)
            state, until, epoch = await self.insist("erasure", erased.number)
        self.checker.erased(self.topic, erased, until, epoch)
        self.busy = False
