"""Announces metadata changes over a topic, for brokers whose watches missed them.

Caches watch the store and recover from failures that they notice. They cannot notice a watch that
is silent although there are changes. So brokers announce the last change they saw over the topic
``/system/metadata-changes``; a broker whose cache does not reach an announced change in time lists
the keys again and restarts its watch.

Nothing depends on it: announcements may be lost, wrong, or fail altogether. It never delays the
start or stop of a broker, and pauses while there is only one.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from sulina.client.client import Client
from sulina.client.consumer import Consumer
from sulina.client.producer import Producer
from sulina.errors import AlreadyExists, NotFound, SulinaError
from sulina.metadata.prefix_cache import PrefixCache
from sulina.model import Delivery, Start
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock
from sulina.runtime.tasks import stop_tasks

_log = logging.getLogger(__name__)

TOPIC: Final = "/system/metadata-changes"
_STOP_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class SynchronizerTiming:
    """Fixed intervals in seconds; tests shorten them."""

    announce_seconds: float = 0.1
    """Minimum time between two announcements of a broker."""
    share_seconds: float = 0.01
    """Minimum average time between announcements of any broker: with many brokers, each
    announces less often."""
    repeat_seconds: float = 30.0
    """How often the last changes are announced again."""
    patience_seconds: float = 2.0
    """How long a prefix_cache may be behind an announcement before it lists the keys again."""
    refresh_seconds: float = 30.0
    """Timeout of such a listing."""
    pause_seconds: float = 1.0
    """Between checks for other brokers, and after a failure; doubles with each failure."""
    longest_pause_seconds: float = 30.0
    send_seconds: float = 5.0
    """Timeout for sending an announcement."""


class Synchronizer:
    """One broker's part. Use as ``async with``; entering returns immediately.

    ``connect`` returns a client of this broker, ``living`` the live brokers.
    """

    def __init__(
        self,
        broker: str,
        prefix_caches: Sequence[PrefixCache],
        clock: Clock,
        connect: Callable[[], Client],
        living: Callable[[], Collection[str]],
        settings: SynchronizerTiming | None = None,
    ) -> None:
        self._broker = broker
        self._prefix_caches = prefix_caches
        self._clock = clock
        self._connect = connect
        self._living = living
        self._settings = settings or SynchronizerTiming()
        self._tasks: list[asyncio.Task[None]] = []
        self._news = asyncio.Event()
        self._said: dict[str, int] = {}
        """The last revision announced by any broker, by prefix."""
        self._wanted = {prefix_cache.prefix: 0 for prefix_cache in prefix_caches}
        self._behind = {prefix_cache.prefix: asyncio.Event() for prefix_cache in prefix_caches}
        for prefix_cache in prefix_caches:
            prefix_cache.on_advance(self._news.set)
        self.announced = 0
        """Announcements sent."""
        self.heard = 0
        """Announcements received."""
        self.repairs = 0
        """Listings that found changes a watch had missed."""

    async def __aenter__(self) -> Synchronizer:
        # What existed at the start has been listed by every broker.
        self._said = {
            prefix_cache.prefix: prefix_cache.newest[1] for prefix_cache in self._prefix_caches
        }
        work = [
            self._run(),
            *(self._catch_up(prefix_cache) for prefix_cache in self._prefix_caches),
        ]
        self._tasks = [asyncio.create_task(each, name="synchronizer") for each in work]
        return self

    async def __aexit__(self, *exc: object) -> None:
        with suppress(TimeoutError):
            await within(self._clock, _STOP_SECONDS, stop_tasks(*self._tasks))

    # ---- announcing and listening ----

    async def _run(self) -> None:
        settings = self._settings
        pause = settings.pause_seconds
        while True:
            while self._alone():
                await self._clock.sleep(settings.pause_seconds)
            began = self._clock.now()
            try:
                async with self._connect() as client:
                    await self._exchange(client)
            except SulinaError as error:
                _log.info("exchanging announcements failed; will retry: %s", error)
            if self._clock.now() - began > settings.longest_pause_seconds:
                pause = settings.pause_seconds
            await self._clock.sleep(pause)
            pause = min(2 * pause, settings.longest_pause_seconds)

    def _alone(self) -> bool:
        return not set(self._living()) - {self._broker}

    async def _exchange(self, client: Client) -> None:
        """Announce and listen until there is no other broker, or something fails."""
        await _make_topic(client)
        async with (
            client.consumer(TOPIC, self._broker, start=Start.latest()) as consumer,
            client.producer(TOPIC, send_timeout=self._settings.send_seconds) as producer,
        ):
            listening = asyncio.create_task(self._listen(consumer))
            announcing = asyncio.create_task(self._announce(client, producer))
            try:
                await asyncio.wait((listening, announcing), return_when=asyncio.FIRST_COMPLETED)
            finally:
                await stop_tasks(listening, announcing)
            for task in (listening, announcing):
                if not task.cancelled():
                    task.result()

    async def _announce(self, client: Client, producer: Producer) -> None:
        settings = self._settings
        repeat_at = self._clock.now() + settings.repeat_seconds
        while not self._alone():
            try:
                left = max(0.0, repeat_at - self._clock.now())
                await within(self._clock, left, self._news.wait())
            except TimeoutError:
                self._said.clear()
                repeat_at = self._clock.now() + settings.repeat_seconds
                await self._forget_the_dead(client)
            self._news.clear()
            changes = self._unsaid()
            if changes:
                told = list(changes.values())
                body = json.dumps({"broker": self._broker, "changes": told}).encode()
                await (await producer.send(body))
                for prefix, (_, revision) in changes.items():
                    self._said[prefix] = max(self._said.get(prefix, 0), revision)
                self.announced += 1
            share = settings.share_seconds * len(self._living())
            await self._clock.sleep(max(settings.announce_seconds, share))

    def _unsaid(self) -> dict[str, tuple[str, int]]:
        """The last change of each prefix_cache, unless it was announced already."""
        newest = {prefix_cache.prefix: prefix_cache.newest for prefix_cache in self._prefix_caches}
        return {at: found for at, found in newest.items() if found[1] > self._said.get(at, 0)}

    async def _listen(self, consumer: Consumer) -> None:
        async for message in consumer:
            await consumer.ack(message)
            self.hear(message.payload)

    def hear(self, payload: bytes) -> None:
        """Process an announcement. One that cannot be read is ignored."""
        try:
            body = json.loads(payload)
            broker, changes = body["broker"], [(str(key), int(at)) for key, at in body["changes"]]
        except (ValueError, TypeError, KeyError) as error:
            _log.warning("ignoring an unreadable announcement: %s", error)
            return
        if broker == self._broker:
            return
        self.heard += 1
        for key, revision in changes:
            for prefix_cache in self._prefix_caches:
                if key.startswith(prefix_cache.prefix):
                    self._heard(prefix_cache, revision)

    def _heard(self, prefix_cache: PrefixCache, revision: int) -> None:
        prefix = prefix_cache.prefix
        self._said[prefix] = max(self._said.get(prefix, 0), revision)
        if revision > prefix_cache.revision:
            self._wanted[prefix] = max(self._wanted[prefix], revision)
            self._behind[prefix].set()

    async def _forget_the_dead(self, client: Client) -> None:
        """Delete subscriptions of brokers that no longer exist; one broker does it."""
        living = set(self._living())
        if self._broker != min(living, default=""):
            return
        try:
            for row in await client.admin.subscriptions.list(TOPIC):
                if row.subscription not in living and not row.consumers:
                    await client.admin.subscriptions.delete(TOPIC, row.subscription)
        except SulinaError as error:
            _log.info("deleting subscriptions of former brokers failed; will retry: %s", error)

    # ---- catching up ----

    async def _catch_up(self, prefix_cache: PrefixCache) -> None:
        settings, behind = self._settings, self._behind[prefix_cache.prefix]
        while True:
            await behind.wait()
            behind.clear()
            wanted = self._wanted[prefix_cache.prefix]
            try:
                await within(self._clock, settings.patience_seconds, prefix_cache.reached(wanted))
                continue
            except TimeoutError:
                pass
            try:
                await within(self._clock, settings.refresh_seconds, prefix_cache.refresh())
            except (SulinaError, TimeoutError) as error:
                _log.warning(
                    "watch of %s is behind, listing failed: %s", prefix_cache.prefix, error
                )
                await self._clock.sleep(settings.pause_seconds)
                behind.set()
                continue
            self.repairs += 1
            _log.warning("watch of %s had missed changes up to %d", prefix_cache.prefix, wanted)
            if prefix_cache.revision < wanted:
                # The store itself has not reached it: the announcement was wrong.
                self._wanted[prefix_cache.prefix] = 0


async def _make_topic(client: Client) -> None:
    """Create the topic explicitly, so that it works without automatic creation."""
    try:
        await client.topic(TOPIC)
    except NotFound:
        # Not stored: only the last announcement counts, and it is repeated.
        with suppress(AlreadyExists):
            await client.admin.topics.create(TOPIC, delivery=Delivery.NON_RELIABLE)
