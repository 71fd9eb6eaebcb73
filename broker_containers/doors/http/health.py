"""Whether the broker serves: checks every part that it needs, each with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from storage_grpc.journal import JournalStore
from storage_grpc.quorum.nodes import Nodes
from storage_grpc.quorum.settings import QuorumSettings
from sulina.errors import Overloaded, SulinaError, Unavailable
from sulina.metadata.store import MetadataStore, ReplicatedStore
from sulina.operations.overview import PartState
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_SECONDS: Final = 2.0
_ANY_KEY: Final = "/cluster/leader"

Check = Callable[[], Awaitable[str | PartState]]
"""Describes the part; raises a ``SulinaError`` with the reason if it does not serve."""


class HealthStatus(StrEnum):
    """Whether a broker is alive, or serves."""

    LIVE = "live"
    READY = "ready"
    UNREADY = "unready"


@dataclass(frozen=True, slots=True)
class HealthReport:
    """A broker's health, with that of each part."""

    status: HealthStatus
    broker: str
    parts: Mapping[str, PartState]


class Health:
    """Checks the parts of one broker, by name."""

    def __init__(self, broker: str, clock: Clock, parts: Mapping[str, Check]) -> None:
        self._broker = broker
        self._clock = clock
        self._parts = dict(parts)
        self.stopping = False
        """A broker that is stopping is not ready, so that no new clients are sent to it."""

    def live(self) -> HealthReport:
        """The process answers."""
        return HealthReport(HealthStatus.LIVE, self._broker, {})

    async def parts(self) -> Mapping[str, PartState]:
        """The state of each part."""
        return (await self.ready()).parts

    async def ready(self) -> HealthReport:
        """Whether all parts serve, and the state of each."""
        answers = await asyncio.gather(*map(self._ask, self._parts.values()))
        parts = dict(zip(self._parts, answers, strict=True))
        if self.stopping:
            parts["broker"] = PartState(False, "it is shutting down")
        ready = all(part.ok for part in parts.values())
        status = HealthStatus.READY if ready else HealthStatus.UNREADY
        return HealthReport(status, self._broker, parts)

    async def _ask(self, check: Check) -> PartState:
        try:
            found = await within(self._clock, _SECONDS, check())
            return found if isinstance(found, PartState) else PartState(True, found)
        except SulinaError as error:
            return PartState(False, str(error))
        except TimeoutError:
            return PartState(False, f"no answer within {_SECONDS:g} s")


def metadata_check(store: MetadataStore) -> Check:
    """Whether the metadata store answers a read; also which of its members do not answer."""

    async def silent() -> Sequence[str]:
        return await store.silent_members() if isinstance(store, ReplicatedStore) else ()

    async def check() -> PartState:
        _, absent = await asyncio.gather(store.get(_ANY_KEY), silent())
        return PartState(True, "it answers", _missing("etcd at ", absent))

    return check


def journal_check(entries: JournalStore) -> Callable[[], Awaitable[str]]:
    """Whether the journal of this process takes appends.

    On a full disk it does, until it has used the space that it has reserved.
    """

    async def check() -> str:
        if entries.full is not None:
            raise entries.full.with_traceback(None)
        try:
            entries.check_room()
        except Overloaded:
            return "it is busy: publishers wait"
        return f"it takes appends; {entries.reserved_bytes:,} bytes are reserved for them"

    return check


def storage_nodes_check(
    nodes: Nodes, settings: QuorumSettings, unhealthy: Callable[[], Sequence[str]] = tuple
) -> Check:
    """Whether enough storage nodes are healthy to create a ledger; ``unhealthy`` names others."""

    async def check() -> PartState:
        healthy = len(nodes.choose(settings.write_quorum))
        if healthy < settings.ack_quorum:
            raise Unavailable(
                f"{healthy} storage nodes are healthy and {settings.ack_quorum} are needed: "
                "start more, or wait for them"
            )
        detail = f"{healthy} storage nodes are healthy, {settings.ack_quorum} are needed"
        return PartState(True, detail, _missing("", unhealthy()))

    return check


def _missing(what: str, names: Sequence[str]) -> str:
    verb = "does" if len(names) == 1 else "do"
    return f"{what}{', '.join(names)} {verb} not serve" if names else ""
