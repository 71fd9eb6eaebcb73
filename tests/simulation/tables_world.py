"""A simulated lake with a topic's table: objects appear and are deleted while several processes
commit, each of which may be killed, paused or cut off, to a catalog that loses answers.

Objects appear out of order, as ledgers are tiered, and several are replaced by one. Retention
removes the oldest, marks them, and deletes them later, unless that is undone. Operators roll the
table back, and engines commit snapshots of their own. In the end all faults stop, and the table
must become equal to the objects that exist and are not removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from sulina.errors import NotFound, SulinaError, Unavailable, UnknownOutcome
from sulina.lake.layout import ObjectName, RemovedMark
from sulina.lake.summary import ObjectSummary
from sulina.names import TopicName
from sulina.runtime.deadline import within
from sulina.tables.committing import bring_up_to_date
from tests.simulation.blocking import Ask, run_blocking
from tests.simulation.catalog import SimTable, TableSnapshot, TableState
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop, SimMachine
from tests.simulation.network import SimConnection, SimEndpoint, SimNetwork
from tests.simulation.switches import Switches
from tests.simulation.tables_checker import TablesChecker, newest_by_partition
from tests.simulation.tables_removals import Removals, kept_of
from tests.simulation.trace import Trace

_TOPIC = TopicName("default", "t0")
_SECONDS = 2.0
"""How long a client waits for an answer."""
_SETTLE_SECONDS = 60.0
_KEPT_SECONDS = 2.0
"""Twice that is how long objects stay after they were removed."""
_OUT_OF_ORDER = 3
"""So many ledgers become objects at the same time."""


class _Service:
    """A machine of the lake: refuses calls, is slow, and loses answers."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self.errors = self.lost = self.slow = 0.0

    def heal(self) -> None:
        self.errors = self.lost = self.slow = 0.0

    async def call(self, work: Callable[[], Any]) -> Any:
        if self.slow:
            await asyncio.sleep(self._chance.expovariate(1 / self.slow))
        if self._chance.random() < self.errors:
            raise Unavailable("503: slow down")
        found = work()
        if self._chance.random() < self.lost:
            raise Unavailable("the answer was lost")
        return found


class _Committer:
    """One process after the other that commits, under the same name."""

    def __init__(self, world: TablesWorld, number: int) -> None:
        self.name = f"committer-{number}"
        self._world = world
        self._chance = Random(f"{world.seed}/{self.name}")
        self._clock = SimClock(world.loop)
        self._connections: dict[SimEndpoint, SimConnection] = {}
        self.machine = SimMachine(world.loop, self.name)
        self.start()

    def start(self) -> None:
        """A new process, in place of one that was killed."""
        self.machine = SimMachine(self._world.loop, self.name)
        self._connections.clear()
        self.machine.spawn(self._run())

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(self._chance.uniform(0.0, 0.6))
            try:
                most = self._chance.choice((1, 2, 10))
                done = await run_blocking(partial(self._commit, most))
            except SulinaError as error:
                self._world.trace.note(f"{self.name} fails: {type(error).__name__}")
            else:
                if done.commits or done.conflicts:
                    self._world.trace.note(
                        f"{self.name}: {done.objects} objects, {done.conflicts} conflicts"
                    )

    def _commit(self, most: int, ask: Ask) -> Any:
        world, checker = self._world, self._world.checker
        state, objects = world.table, _Objects(self, ask)

        def call(where: SimEndpoint, work: Callable[[], Any]) -> Any:
            return ask(lambda: self.ask(where, lambda service: service.call(work)))

        def commit(base: int, made: TableSnapshot) -> object:
            return call(
                world.catalog,
                lambda: checker.committed(self.name, objects.gone, state.commit(base, made)),
            )

        table = SimTable(lambda: call(world.catalog, state.read), commit, objects.next)
        return bring_up_to_date(table, objects, most)

    async def ask(self, where: SimEndpoint, work: Callable[[Any], Awaitable[Any]]) -> Any:
        known = self._connections.get(where)
        if known is None or not known.open:
            known = self._world.network.connect(self.machine, where)
            self._connections[where] = known
        try:
            return await within(self._clock, _SECONDS, known.request(work))
        except TimeoutError:
            raise UnknownOutcome(f"{where.name} does not answer") from None


class _Objects:
    """``TopicObjects`` of one call; keeps summaries, as the real one keeps footers."""

    def __init__(self, committer: _Committer, ask: Ask) -> None:
        self._committer = committer
        self._ask = ask
        self._summaries: dict[ObjectName, ObjectSummary] = {}
        self.gone: frozenset[ObjectName] = frozenset()
        """What was marked as removed, or deleted, before the listing."""

    def list(self) -> dict[int, list[ObjectName]]:
        world = self._committer._world
        lake = world.lake
        found, marks, self.gone = self._call(
            lambda: (list(lake), {part: [*each] for part, each in lake.marks.items()}, lake.left())
        )
        if not world.switches.hide_removed:
            marks = {}
        return newest_by_partition(kept_of(found, marks))

    def summary(self, name: ObjectName) -> ObjectSummary:
        if name not in self._summaries:
            self._summaries[name] = self._call(lambda: self._committer._world.lake.summary(name))
        return self._summaries[name]

    def next(self, name: ObjectName) -> int:
        return self.summary(name).last_offset + 1

    def _call(self, work: Callable[[], Any]) -> Any:
        try:
            where = self._committer._world.objects
            return self._ask(lambda: self._committer.ask(where, lambda each: each.call(work)))
        except UnknownOutcome as error:
            raise Unavailable(str(error)) from None


class Objects(dict[ObjectName, ObjectSummary]):
    """The objects that exist, those that were deleted, and the marks of removed ones."""

    def __init__(self) -> None:
        super().__init__()
        self.gone: set[ObjectName] = set()
        self.marks: dict[int, list[RemovedMark]] = {}

    def left(self) -> frozenset[ObjectName]:
        """What no longer belongs to the topic, as far as a listing can tell."""
        return frozenset({*self.gone, *self} - {*kept_of(self, self.marks)})

    def summary(self, name: ObjectName) -> ObjectSummary:
        if name not in self:
            raise NotFound(f"{name.key} no longer exists")
        return self[name]


class TablesWorld:
    """All machines of one run."""

    def __init__(self, seed: int, loop: SimLoop, trace: Trace, switches: Switches) -> None:
        self.seed, self.loop, self.trace = seed, loop, trace
        self.switches = switches
        self._chance = chance = Random(f"{seed}/tables")
        self._clock = SimClock(loop)
        self.network = SimNetwork(loop, Random(f"{seed}/network"), 0.002)
        self.lake = Objects()
        self.table = TableState(
            conditional=switches.commit_if_unchanged,
            progress_in_snapshot=switches.progress_in_snapshot,
        )
        self._removals = Removals()
        self.checker = TablesChecker(trace, self.lake, self._removals.kept)
        self.objects, self.catalog = SimEndpoint("objects"), SimEndpoint("catalog")
        self._services = [_Service(Random(f"{seed}/{name}")) for name in ("objects", "catalog")]
        for where, service in zip((self.objects, self.catalog), self._services, strict=True):
            where.up(SimMachine(loop, where.name), service)
        self.committers = [_Committer(self, number) for number in range(chance.choice((1, 2, 3)))]
        self._seconds = chance.uniform(4.0, 10.0)
        self._ledgers = 0
        self._later: list[asyncio.Task[None]] = []
        self._undisturbed = False
        self._retained = chance.choice((0.0, 0.3, 0.9))
        """How many ledgers retention deletes, as a share of those that are written."""

    async def run(self) -> None:
        """All phases. Raises ``Violation``."""
        partitions = range(self._chance.choice((1, 1, 2)))
        tasks = [self.loop.create_task(self._write(part)) for part in partitions]
        chosen = self._faults()
        self._undisturbed = not chosen
        faults = [self.loop.create_task(self._repeat(fault)) for fault in chosen]
        await self._until(self._clock.now() + self._seconds)
        await asyncio.gather(*tasks)
        for task in faults:
            task.cancel()
        await asyncio.gather(*faults, return_exceptions=True)
        self._heal()
        end = self._clock.now() + _SETTLE_SECONDS
        while self._later:
            await self._until(self._clock.now() + 0.2)
            if self._clock.now() > end:
                self.checker.fail("what was removed is not marked, so it is never deleted")
            self._later = [task for task in self._later if not task.done()]
        end = self._clock.now() + _SETTLE_SECONDS
        while wrong := self.checker.unsettled(self.table.current):
            await self._until(self._clock.now() + 0.2)
            if self._clock.now() > end:
                self.checker.fail(f"the table does not settle: {wrong}")

    async def _until(self, end: float) -> None:
        while self._clock.now() < end:
            await self._clock.sleep(0.05)
            for error in self.loop.errors:
                self.checker.fail(f"unhandled error: {error}")
            self.checker.check()

    # ---- the lake ----

    async def _write(self, partition: int) -> None:
        """Ledgers become objects, a few at a time in any order; retention deletes the oldest."""
        chance, offset = self._chance, 0
        end = self._clock.now() + self._seconds
        while self._clock.now() < end:
            made: list[ObjectSummary] = []
            for _ in range(chance.randint(1, _OUT_OF_ORDER)):
                self._ledgers += 1
                count = chance.randint(1, 9)
                made.append(_ledger(partition, self._ledgers, offset, count))
                offset += count
            chance.shuffle(made)
            for each in made:
                await self._clock.sleep(chance.expovariate(8))
                name = _name(partition, each)
                self.lake[name] = each
                self.trace.note(f"object {partition}/{each.first_offset}-{each.last_offset}")
            for _ in made:
                if chance.random() < self._retained:
                    await self._clock.sleep(chance.expovariate(8))
                    self._remove(partition)

    def _remove(self, partition: int) -> None:
        """Retention removes the oldest; tables are told by a mark, and some time later, unless
        that was undone, the objects are deleted."""
        kept = newest_by_partition(self._removals.kept(self.lake)).get(partition)
        if kept:
            end = self.lake[kept[0]].last_offset
            self.trace.note(f"retention removes {partition}/{kept[0].first_offset}-{end}")
            self._change(partition, kept[0].ledger)
            objects = [*self._replaced_by(kept[0]), kept[0]]
            self._later.append(self.loop.create_task(self._delete_removed(kept[0], objects)))

    def _change(self, partition: int, ledger: int) -> None:
        """The list changes at once; its mark follows, perhaps after that of a later change."""
        mark = self._removals.change(partition, ledger)
        if not self.switches.number_marks:
            mark = replace(mark, number=0)
        self._later.append(self.loop.create_task(self._mark(partition, mark)))

    async def _mark(self, partition: int, mark: RemovedMark) -> None:
        await self._clock.sleep(self._chance.choice((0.0, 0.05, 0.5)))
        marks = self.lake.marks.setdefault(partition, [])
        if self.switches.number_marks:
            self.lake.marks[partition] = [*(each for each in marks if each > mark), mark]
        else:
            self.lake.marks[partition] = [mark]  # the last to arrive counts
        self.trace.note(f"{partition} is marked: {mark}")

    async def _delete_removed(self, oldest: ObjectName, objects: list[ObjectName]) -> None:
        """After the time for tables, and no earlier than the mark is there."""
        part, kept = oldest.partition, self._removals
        undone = kept.undone(part)
        await self._clock.sleep(_KEPT_SECONDS if self.switches.keep_for_tables else 0.0)
        while not any(each.ledger >= oldest.ledger for each in self.lake.marks.get(part, ())):
            if kept.undone(part) != undone:
                break
            await self._clock.sleep(0.1)
        if self.switches.keep_for_tables:
            await self._clock.sleep(_KEPT_SECONDS)
        if kept.undone(part) != undone:
            self.trace.note(f"{part}/{oldest.first_offset} was restored")
            return
        kept.deleted(part, oldest.ledger)
        self.trace.note(f"retention deletes {part}/{oldest.first_offset}")
        if self._undisturbed:
            self.checker.deleted(objects, self.table.current)
        self._delete(objects)

    async def _undo(self) -> None:
        """Restore what was removed and is not deleted yet."""
        for partition in sorted(self.lake.marks):
            ledger = self._removals.lowest(partition)
            if ledger < self._removals.ledger(partition):
                self.trace.note(f"what was removed of {partition} after {ledger} is restored")
                self._removals.undo(partition)
                self._change(partition, ledger)

    def _delete(self, names: list[ObjectName]) -> None:
        for name in names:
            if self.lake.pop(name, None) is not None:
                self.lake.gone.add(name)

    def _replaced_by(self, name: ObjectName) -> list[ObjectName]:
        last = self.lake[name].last_offset
        return [
            each
            for each in sorted(self.lake)
            if each.partition == name.partition and each.generation < name.generation
            if name.first_offset <= each.first_offset <= last
        ]

    async def _merge(self) -> None:
        """Replace a few objects by one; they are deleted some time later."""
        for partition, names in newest_by_partition(self._removals.kept(self.lake)).items():
            start = self._chance.randrange(len(names))
            run = names[start : start + self._chance.randint(2, 4)]
            ends = [self.lake[name].last_offset for name in run]
            follows = (
                after.first_offset == end + 1 for after, end in zip(run[1:], ends, strict=False)
            )
            if len(run) < 2 or not all(follows):
                continue
            first, last = run[0], ends[-1]
            generation = max(name.generation for name in run) + 1
            made = replace(
                self.lake[first], last_offset=last, records=last - first.first_offset + 1
            )
            name = replace(first, ledger=run[-1].ledger, generation=generation, last_offset=last)
            self.lake[name] = made
            self.trace.note(f"object {partition}/{first.first_offset}-{last}, merged")
            await self._clock.sleep(self._chance.uniform(0.1, 2.0))
            self._delete(run)
            self.trace.note(f"what became {partition}/{first.first_offset}-{last} is deleted")

    # ---- faults ----

    def _faults(self) -> list[Callable[[], Awaitable[None]]]:
        found = [
            *(self._kill, self._pause, self._cut_off, self._break, self._trouble),
            *(self._roll_back, self._rewrite, self._merge, self._undo),
        ]
        likely = self._chance.choice((0.0, 0.4, 0.8))
        return [each for each in found if self._chance.random() < likely]

    async def _repeat(self, fault: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._clock.sleep(self._chance.expovariate(1.0))
            await fault()

    def _any(self) -> _Committer:
        return self._chance.choice(self.committers)

    async def _kill(self) -> None:
        committer = self._any()
        self.trace.note(f"FAULT {committer.name} is killed")
        committer.machine.kill()
        self.network.machine_died(committer.machine)
        await self._for(0.1, 1.0)
        committer.start()

    async def _pause(self) -> None:
        machine = self._any().machine
        self.trace.note(f"FAULT {machine.name} is paused")
        machine.pause()
        await self._for(0.1, 4.0)
        machine.resume()

    async def _cut_off(self) -> None:
        links = {(self._any().name, where) for where in ("objects", "catalog")}
        links = {link if self._chance.random() < 0.5 else link[::-1] for link in links}
        self.trace.note(f"FAULT blocked: {sorted(links)}")
        self.network.blocked |= links
        await self._for(0.2, 3.0)
        self.network.blocked -= links

    async def _break(self) -> None:
        self.trace.note("FAULT connections break")
        for connection in list(self.network.connections):
            if self._chance.random() < 0.5:
                connection.close()

    async def _trouble(self) -> None:
        service, how = self._chance.choice(self._services), self._chance.choice((0, 1, 2))
        self.trace.note(f"FAULT trouble {how} at {'oc'[self._services.index(service)]}")
        service.errors = (0.5, 0.0, 0.0)[how]
        service.lost = (0.0, 0.5, 0.0)[how]
        service.slow = (0.0, 0.0, 1.0)[how]
        await self._for(0.2, 2.0)
        service.heal()

    async def _roll_back(self) -> None:
        number = self._chance.randrange(len(self.table.snapshots))
        self.trace.note(f"FAULT the table is rolled back to {number}")
        self.table.roll_back(number)
        self.checker.rolled_back(self.table.current)

    async def _rewrite(self) -> None:
        self.trace.note("FAULT an engine commits")
        self.table.rewrite()

    async def _for(self, low: float, high: float) -> None:
        await self._clock.sleep(self._chance.uniform(low, high))

    def _heal(self) -> None:
        self.trace.note("healing")
        self.network.blocked.clear()
        for service in self._services:
            service.heal()
        for committer in self.committers:
            if committer.machine.alive:
                committer.machine.resume()
            else:
                committer.start()


def _ledger(partition: int, ledger: int, first: int, count: int) -> ObjectSummary:
    topic = TopicName(_TOPIC.namespace, f"{_TOPIC.local}-part-{partition}")
    return ObjectSummary(topic, ledger, first, first + count - 1, count, 0, 0, "", 0, 0)


def _name(partition: int, made: ObjectSummary) -> ObjectName:
    return ObjectName(*(_TOPIC.namespace, _TOPIC.local, partition), made.first_offset, made.ledger)
