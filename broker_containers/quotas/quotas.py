"""The quotas in force on this broker, what is in use, and the checks before something is added.

Quotas are mirrored from the metadata store, so a change takes effect on every broker within
milliseconds, and applies to what is added from then on: what exists stays. Topics, partitions and
subscriptions are counted for the whole cluster (``stored_counts`` says how exactly); producers,
consumers and connections by each broker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import fields
from enum import StrEnum
from typing import Final

from broker_containers.quotas.rates import Direction, Rates, Subject
from broker_containers.quotas.stored_counts import Stored, StoredCounts, read_counted, stored_where
from sulina.errors import Overloaded, Refused, SulinaError
from sulina.metadata.keys import quotas, record
from sulina.metadata.keys.path import TOPICS, part
from sulina.metadata.keys.quotas import DEFAULTS, EVERY, UNLIMITED, Quota, QuotaScope
from sulina.metadata.keys.schemas import IdRecord
from sulina.metadata.prefix_cache import CachedTable, PrefixCache
from sulina.metadata.store import KeyValue, MetadataStore
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

SYSTEM: Final = "system"
"""The namespace of Sulina's own topics has no default limits."""
_REMEMBERED: Final = 10_000
_CAUGHT_UP_SECONDS: Final = 2.0
_RATES: Final = {
    name: direction
    for direction in Direction
    for name in (f"{direction}_bytes", f"{direction}_records")
}


class QuotaExceeded(Refused):
    """A namespace, principal or broker stores as much of something as its quota allows."""


class Live(StrEnum):
    """What exists only while it is connected to a broker, by the name of its limit."""

    PRODUCERS = "producers"
    CONSUMERS = "consumers"
    CONNECTIONS = "connections"


_LIVE: Final = frozenset(map(str, Live))
_STORED: Final = frozenset(map(str, Stored))


class Held:
    """One producer, consumer or connection that counts until it is released."""

    __slots__ = ("counts", "what", "where")

    def __init__(
        self, counts: Counter[tuple[Subject, Live]], what: Live, where: tuple[Subject, ...]
    ) -> None:
        self.counts = counts
        self.what = what
        self.where = where
        for subject in where:
            counts[subject, what] += 1

    def release(self) -> None:
        """Stop counting it. May be called more than once."""
        where, self.where = self.where, ()
        for subject in where:
            self.counts[subject, self.what] -= 1
            if not self.counts[subject, self.what]:
                del self.counts[subject, self.what]


class Quotas:
    """Use as ``async with``; entering waits until the quotas are loaded. Until then, and where
    nothing is set, the defaults apply."""

    def __init__(
        self, store: MetadataStore, clock: Clock, broker_id: str, *, follow_topics: bool = True
    ) -> None:
        """Without ``follow_topics`` another part reports changed topics to ``stored``."""
        self._clock = clock
        self._broker = QuotaScope.BROKER, broker_id
        self._set = CachedTable(quotas.QUOTAS, _quota)
        self._set.on_change(self._changed)
        self._caches = [PrefixCache(store, clock, quotas.QUOTAS, [self._set])]
        self.stored = StoredCounts(clock)
        if follow_topics:
            counted = CachedTable(TOPICS, read_counted)
            counted.on_change(self.stored.changed)
            self._caches.append(PrefixCache(store, clock, TOPICS, [counted]))
        self._seen: dict[str, Quota] = {}
        self._limits: dict[Subject, Quota] = {}
        self._rates = Rates(self.limit)
        self.limited: frozenset[Direction] = frozenset()
        """The directions in which some rate is limited: in the others, nothing needs counting."""
        self.refused: Counter[str] = Counter()
        """How often each limit was reached."""
        self._bytes: dict[tuple[str, str], int] = {}
        self.full: dict[str, str] = {}
        """Why producers of a namespace are refused: it stores more than its quota allows."""
        self._live: Counter[tuple[Subject, Live]] = Counter()
        self.schemas: Callable[[], int] = lambda: 0
        """How many subjects the schema registry has."""
        self._subject_creators: dict[str, str] = {}
        self._subjects_of: Counter[str] = Counter()
        self._running = AsyncExitStack()

    async def __aenter__(self) -> Quotas:
        async with AsyncExitStack() as stack:
            for cache in self._caches:
                await stack.enter_async_context(cache)
            self._running = stack.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._running.aclose()

    async def caught_up(self) -> None:
        """Wait until quotas stored before the call apply here, or two seconds."""
        with suppress(SulinaError, TimeoutError):
            await within(self._clock, _CAUGHT_UP_SECONDS, self._caches[0].refresh())

    def _changed(self, rest: str, quota: Quota | None) -> None:
        if self._seen.get(rest, Quota()) == (quota or Quota()):
            return  # listed again: what was counted stays
        self._seen[rest] = quota or Quota()
        self._limits.clear()
        self._rates.forget()
        self._bytes.clear()
        self.full.clear()  # until the next count
        found = self._set.items.values()
        self.limited = frozenset(
            direction
            for name, direction in _RATES.items()
            if any(getattr(each, name) for each in found)
        )

    # ---- limits and use ----

    def own(self, subject: Subject) -> Quota:
        """The limits that a subject sets itself."""
        return self._set.items.get(f"{subject[0]}/{part(subject[1])}", Quota())

    def limits(self, subject: Subject) -> Quota:
        """The limits in force: its own, else those of ``*``, else the defaults."""
        found = self._limits.get(subject)
        if found is None:
            scope, name = subject
            general = self.own((scope, EVERY)).over(DEFAULTS[scope])
            if name == SYSTEM and scope is QuotaScope.NAMESPACE:
                general = UNLIMITED
            if len(self._limits) >= _REMEMBERED:
                self._limits.clear()
            found = self._limits[subject] = self.own(subject).over(general)
        return found

    def limit(self, subject: Subject, name: str) -> int:
        """One limit in force; 0 is none."""
        value: int | None = getattr(self.limits(subject), name)
        return value or 0

    def use(self, subject: Subject, name: str) -> int | None:
        """What is in use of a limit, here or in the cluster; None if that is not counted."""
        if name in _LIVE:
            return self._live[subject, Live(name)]
        if name in _RATES:
            return self._rates.last_second(subject, name, self._clock.now())
        if name in ("stored_bytes", "backlog_bytes"):
            return self._bytes.get((subject[1], name))
        if name == "schemas":
            of_one = subject[0] is QuotaScope.PRINCIPAL
            return self._subjects_of[subject[1]] if of_one else self.schemas()
        if name in _STORED:
            return self.stored.use(subject, Stored(name))
        return None

    def subjects(self) -> list[Subject]:
        """Everything that sets a quota, stores something or is connected to this broker, sorted."""
        found = {
            quotas.subject_of(rest) for rest, quota in self._set.items.items() if quota != Quota()
        }
        found.update(subject for subject, _ in self._live)
        found.update(self.stored.subjects())
        found.update((QuotaScope.PRINCIPAL, name) for name in self._subjects_of)
        return sorted(found | {self._broker})

    # ---- adding ----

    @contextmanager
    def creating(
        self, namespace: str, wanted: Mapping[str, Stored], creator: str | None
    ) -> Iterator[None]:
        """Count what the block stores. Raises ``QuotaExceeded`` if there is no room for it.

        ``creator`` is the principal that creates it, None for nobody.
        """
        missing = self.stored.missing(wanted)
        for subject in stored_where((QuotaScope.NAMESPACE, namespace), creator):
            for kind, count in missing.items():
                self._check_room(subject, kind, count)
        with self.stored.creating(wanted, creator):
            yield

    def check_new_subject(self, creator: str | None) -> str | None:
        """Raise ``QuotaExceeded`` if there are as many subjects as a quota allows.

        Subjects that are being registered concurrently may exceed it. Returns ``creator``, the
        principal that registers it; None is nobody.
        """
        for subject in stored_where(self._broker, creator):
            self._check_room(subject, "schemas", 1)
        return creator

    def _check_room(self, subject: Subject, name: str, count: int) -> None:
        use, limit = self.use(subject, name) or 0, self.limit(subject, name)
        if limit and use + count > limit:
            more = "one more" if count == 1 else f"{count:,} more"
            raise self.exceeded(subject, name, use, limit, f"{more} would exceed")

    def subject_changed(self, schema_id: str, found: IdRecord | None) -> None:
        """A schema subject was created or changed, or with None deleted."""
        before = self._subject_creators.pop(schema_id, None)
        if before is not None:
            self._subjects_of[before] -= 1
            if not self._subjects_of[before]:
                del self._subjects_of[before]
        if found is not None and found.created_by is not None:
            self._subject_creators[schema_id] = found.created_by
            self._subjects_of[found.created_by] += 1

    def where(self, namespace: str, principal: str) -> tuple[Subject, ...]:
        """The subjects in whose quotas something counts; the arguments may be empty."""
        found: tuple[Subject, ...] = (self._broker,)
        if namespace:
            found += ((QuotaScope.NAMESPACE, namespace),)
        if principal:
            found += ((QuotaScope.PRINCIPAL, principal),)
        return found

    def hold(
        self,
        what: Live,
        namespace: str,
        principal: str,
        instead_of: Held | None = None,
        within: Held | None = None,
    ) -> Held:
        """Count a producer, consumer or connection; raises ``Overloaded`` at a limit.

        ``principal`` is empty for callers without limits of their own, ``namespace`` for
        connections. ``instead_of`` is one that this one replaces; where ``within`` counts already,
        this one does not count again.
        """
        counted = () if within is None else within.where
        where = tuple(each for each in self.where(namespace, principal) if each not in counted)
        for subject in where:
            limit = self.limit(subject, what)
            use = self._live[subject, what]
            if instead_of is not None and subject in instead_of.where:
                use -= 1
            if limit and use >= limit:
                self.refused[what] += 1
                raise Overloaded(_sentence(subject, what, use, limit, "that is"))
        return Held(self._live, what, where)

    # ---- bytes ----

    def count_bytes(self, namespace: str, name: str, use: int) -> None:
        """The stored bytes or the backlog of a namespace were counted."""
        self._bytes[namespace, name] = use

    def set_full(self, namespace: str, reason: str) -> None:
        """Refuse the producers of a namespace from now on, or no longer if there is no reason."""
        if reason:
            self.full[namespace] = reason
        else:
            self.full.pop(namespace, None)

    def exceeded(
        self, subject: Subject, name: str, use: int, limit: int, link: str
    ) -> QuotaExceeded:
        """The error for a limit that is reached, which is counted."""
        self.refused[name] += 1
        return QuotaExceeded(_sentence(subject, name, use, limit, link))

    # ---- rates ----

    def delay(
        self, direction: Direction, where: tuple[Subject, ...], records: int, bytes_: int
    ) -> float:
        """Count records that pass, and return the seconds to wait before the next ones.

        Call it only for a ``direction`` in ``limited``.
        """
        longest, now = 0.0, self._clock.now()
        for subject in where:
            wait, why = self._rates.take(direction, subject, records, bytes_, now)
            if wait:
                self.refused[why] += 1
                longest = max(longest, wait)
        return longest

    async def pace(
        self, direction: Direction, where: tuple[Subject, ...], records: int, bytes_: int
    ) -> None:
        """Count records that pass, and wait as long as the rates require."""
        if direction in self.limited:
            await self._clock.sleep(self.delay(direction, where, records, bytes_))


def limit_names(scope: QuotaScope) -> list[str]:
    """The limits that exist in a scope."""
    found = DEFAULTS[scope]
    names = (field.name for field in fields(Quota))
    return [name for name in names if getattr(found, name) is not None]


def _sentence(subject: Subject, name: str, use: int, limit: int, link: str) -> str:
    scope, who = subject
    what = name.replace("_", " ")
    return (
        f"the {scope} {who!r} has {use:,} {what}, and {link} its quota of {limit:,}. Remove some, "
        "or ask an administrator of the cluster to raise it: "
        f"`sulina quota set {scope} {who} {name}=...`"
    )


def _quota(item: KeyValue) -> Quota:
    quotas.subject_of(item.key.removeprefix(quotas.QUOTAS))  # raises for another scope
    return record.decode(Quota, item)
