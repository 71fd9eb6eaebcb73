"""Records what callers do: administrative acts wait for it, sign-ins and refusals never do.

An act is recorded before it begins, and is refused if that is not possible; how it ended is
recorded afterwards. Sign-ins and refusals are queued, and summarised if there are many.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from broker_containers.audit.start import trail_start
from broker_containers.audit.summaries import MOST_ROWS, Summaries
from broker_containers.audit.writer import ChainWriter
from broker_containers.quotas.quotas import SYSTEM
from broker_containers.security.access import ROOT, USING, Access, Caller, Need
from broker_containers.security.authority import Authority, id_of
from broker_containers.security.certificate import ClientCertificate
from broker_containers.security.errors import Denied
from sulina.audit import ERASED, TOPIC, TRIM, AuditEntry, AuditEvent, AuditOutcome
from sulina.errors import Overloaded, Refused, SulinaError, Unavailable, UnknownOutcome
from sulina.metadata.keys.policy import Policy
from sulina.metadata.store import MetadataStore
from sulina.metrics.exposition import Exposition
from sulina.names import TopicName
from sulina.operations.client import AdminClient
from sulina.operations.topics import TopicOperations
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_R = TypeVar("_R")
_MOST_WAITING: Final = 2_000
"""Records that may wait when an act begins."""
_BROKER: Final = Caller(ROOT, "", "")
_SEEN_SECONDS: Final = 3600.0
_MOST_SEEN: Final = 10_000


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """With these, a broker writes the audit trail."""

    file: Path | None = None
    """Also append the records to this file, one JSON object per line."""
    wait_seconds: float = 5.0
    """How long an administrative act waits for its record."""
    different_events: int = MOST_ROWS
    """How many different sign-ins and refusals are told apart; the rest is counted together."""


class AuditTrail:
    """The trail of one broker. Use as ``async with``; leaving writes what is queued, briefly.

    Without ``settings`` nothing is recorded, and refusals are only counted.
    """

    def __init__(
        self,
        broker: str,
        store: MetadataStore,
        clock: Clock,
        admin: AdminClient,
        settings: AuditSettings | None,
    ) -> None:
        """``admin`` reaches the owner of the topic."""
        self._store = store
        self._clock = clock
        self._admin = admin
        self._settings = settings
        self.kept: Callable[[], Policy] = Policy
        """How much of the trail is kept."""
        used = settings or AuditSettings()
        summaries = Summaries(used.different_events)
        self.writer = ChainWriter(broker, store, clock, admin, summaries, used.file)
        self._seen: set[tuple[str, str, str]] = set()
        self._seen_since = 0.0
        self._refusals: dict[tuple[str, str], int] = {}
        """By door and reason."""

    @property
    def on(self) -> bool:
        """Whether acts, sign-ins and refusals are recorded."""
        return self._settings is not None

    async def __aenter__(self) -> AuditTrail:
        if self.on:
            self.writer.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.writer.close()

    # ---- for doors ----

    def sign_in(
        self,
        authority: Authority,
        token: str,
        door: str,
        address: str,
        *,
        certificate: ClientCertificate | None = None,
        connection: bool = False,
    ) -> Access:
        """The rights of a token, or of a certificate; never waits. Raises ``Unauthenticated``, and
        ``Denied`` for one without any rights. All of this is recorded.

        Callers that are not a ``connection`` present their token with every request: what is
        recorded is that a principal calls from an address, once per hour.
        """
        try:
            access = authority.access(token, certificate)
        except Refused as error:
            self.refused_token(token, door, address, error)
            raise
        if self.on and authority.on and (connection or self._is_new(access, door, address)):
            self._note(AuditEvent.SIGN_IN, access.principal, address, door, "sign_in")
        return access

    def refused_token(self, token: str, door: str, address: str, error: Refused) -> None:
        """Record that a token is missing, wrong, expired or revoked."""
        known = id_of(token)[:16]
        resource = f"token {known}" if known else ""
        self._refuse("", door, address, "sign_in", resource, error)

    def _is_new(self, access: Access, door: str, address: str) -> bool:
        """This runs for every message of some doors, so it is no more than a lookup."""
        now = self._clock.now()
        if now > self._seen_since + _SEEN_SECONDS or len(self._seen) > _MOST_SEEN:
            self._seen.clear()
            self._seen_since = now
        key = door, access.principal, host_of(address)
        if key in self._seen:
            return False
        self._seen.add(key)
        return True

    def check(self, caller: Caller, need: Need, operation: str) -> None:
        """Raise ``Denied``, and record it, unless the caller has the right. Never waits."""
        try:
            caller.access.check(need)
        except Denied as error:
            self.refused(caller, operation, need.scope, error)
            raise

    def refused(self, caller: Caller, operation: str, resource: str, error: Refused) -> None:
        """Record that a request was refused."""
        principal = caller.access.principal
        self._refuse(principal, caller.door, caller.address, operation, resource, error)

    def _refuse(
        self, principal: str, door: str, address: str, operation: str, resource: str, error: Refused
    ) -> None:
        key = door, type(error).__name__.lower()
        self._refusals[key] = self._refusals.get(key, 0) + 1
        if self.on:
            what = AuditEvent.REFUSAL
            self._note(what, principal, address, door, operation, resource, str(error))

    def _note(
        self,
        event: AuditEvent,
        principal: str,
        address: str,
        door: str,
        operation: str,
        resource: str = "",
        detail: str = "",
    ) -> None:
        allowed = event is not AuditEvent.REFUSAL
        self.writer.note(
            AuditEntry(
                time_us=self._clock.wall_us(),
                event=event,
                outcome=AuditOutcome.DONE if allowed else AuditOutcome.REFUSED,
                principal=principal,
                address=host_of(address),  # every connection has another port
                door=door,
                operation=operation,
                resource=resource,
                allowed=allowed,
                detail=detail,
            )
        )

    # ---- for operations ----

    def forwarded(self, caller: Caller, operation: str, resource: str) -> None:
        """Record a change that another broker forwarded; that broker has recorded its caller."""
        if self.on:
            principal, address = caller.access.principal, caller.address
            what = AuditEvent.FORWARDED
            self._note(what, principal, address, caller.door, operation, resource)

    async def act(
        self,
        caller: Caller,
        operation: str,
        resource: str,
        arguments: Mapping[str, Any],
        work: Callable[[], Awaitable[_R]],
    ) -> _R:
        """Do ``work`` between two records: one before it, one that says how it ended.

        Raises ``Unavailable`` if the first can't be written: then nothing was done. What ``work``
        raises, it raises after recording it. If the second can't be written in time, it stays
        queued, and the caller gets its answer nevertheless.
        """
        if self._settings is None:
            return await work()
        seconds = self._settings.wait_seconds
        entry = AuditEntry(
            time_us=self._clock.wall_us(),
            event=AuditEvent.ACT,
            outcome=AuditOutcome.STARTED,
            principal=caller.access.principal,
            address=caller.address,
            door=caller.door,
            operation=operation,
            resource=resource,
            detail=json.dumps(arguments, default=str) if arguments else "",
        )
        act = await self._record(entry, seconds)
        outcome, detail = AuditOutcome.UNKNOWN, "it was interrupted"
        try:
            result = await work()
            outcome, detail = AuditOutcome.DONE, ""
            return result
        except UnknownOutcome as error:
            detail = str(error)
            raise
        except SulinaError as error:
            outcome, detail = AuditOutcome.FAILED, str(error)
            raise
        except Exception:
            detail = "unexpected error: see the broker's log"
            raise
        finally:
            done = self._end(entry, outcome, detail, act)
            if outcome is not AuditOutcome.UNKNOWN:
                with suppress(TimeoutError):
                    await within(self._clock, seconds, asyncio.shield(done))

    async def first_use(self, topic: TopicName, create: Callable[[], Awaitable[None]]) -> None:
        """Create a topic for whoever uses it first, as an act. Raises like ``act``.

        Topics that brokers need themselves are created without a record: the trail is one of them.
        """
        if topic.namespace == SYSTEM:
            await create()
            return
        caller, name = USING.get() or _BROKER, TopicOperations.create.name
        await self.act(caller, name, str(topic), {"reason": "its first use"}, create)

    def policy(self) -> Policy | None:
        """What retention applies to the trail; None, to keep all, if nothing can be recorded."""
        return self.kept() if self.on else None

    async def trim(self, before: int, work: Callable[[], Awaitable[int]]) -> int:
        """Delete the records below an offset by ``work``, after recording that it is done, and how
        the chains end there. Only the owner of the topic does."""
        start = await trail_start(self._admin, self._store, before)
        said = {"before": before, "ends": start.digest}
        return await self.act(_BROKER, TRIM, TOPIC, said, work)

    async def delete_unused(
        self, topic: str, idle_ms: int, work: Callable[[], Awaitable[None]]
    ) -> None:
        """Delete a topic that nobody used by ``work``, as an act. Raises like ``act``."""
        said = {"reason": f"nobody used it for {idle_ms} ms (delete_unused_ms)"}
        await self.act(_BROKER, TopicOperations.delete.name, topic, said, work)

    async def erased(
        self, topic: str, said: Mapping[str, Any], work: Callable[[], Awaitable[None]]
    ) -> None:
        """End an erasure by ``work``, after recording what it did. Raises like ``act``."""
        await self.act(_BROKER, ERASED, topic, said, work)

    async def _record(self, entry: AuditEntry, seconds: float) -> int:
        """Wait until an entry is durable; returns its sequence."""
        writer = self.writer
        if not writer.open:
            raise Unavailable("the broker is starting or stopping: try again")
        if writer.waiting >= _MOST_WAITING:
            raise Overloaded("too many administrative changes at once: try again")
        pending = writer.add(entry)
        assert pending.durable is not None
        try:
            return await within(self._clock, seconds, asyncio.shield(pending.durable))
        except (TimeoutError, asyncio.CancelledError) as error:
            if pending.record is None:
                writer.pending.remove(pending)
            else:
                detail = "it was not begun: its record could not be written in time"
                self._end(entry, AuditOutcome.REFUSED, detail, pending.record.sequence)
            if isinstance(error, asyncio.CancelledError):
                raise
            raise Unavailable(
                f"the audit trail can't be written ({writer.cause}), so nothing was changed: make "
                f"sure that a broker serves {TOPIC} and that its storage accepts writes, then try "
                "again"
            ) from None

    def _end(
        self, entry: AuditEntry, outcome: AuditOutcome, detail: str, act: int
    ) -> asyncio.Future[int]:
        now = self._clock.wall_us()
        ended = replace(
            entry, time_us=now, event=AuditEvent.OUTCOME, outcome=outcome, detail=detail, act=act
        )
        durable = self.writer.add(ended).durable
        assert durable is not None
        return durable

    # ---- metrics ----

    def write_metrics(self, text: Exposition) -> None:
        text.counter(
            "sulina_refusals_total",
            "Requests refused for a missing or wrong token, or for a missing right.",
            (
                ({"door": door, "reason": reason}, count)
                for (door, reason), count in sorted(self._refusals.items())
            ),
        )
        if not self.on:
            return
        writer = self.writer
        text.counter("sulina_audit_records_total", "Audit records written.", writer.written)
        text.counter(
            "sulina_audit_failures_total",
            "Attempts to write audit records that failed.",
            writer.failed,
        )
        text.counter(
            "sulina_audit_file_failures_total",
            "Audit records missing in the audit file.",
            writer.file_failed,
        )
        text.gauge("sulina_audit_waiting", "Audit records not yet durable.", writer.waiting)
        text.gauge(
            "sulina_audit_failing",
            "1 while the audit trail can't be written, and administrative changes are refused.",
            int(writer.failing),
        )


def host_of(address: str) -> str:
    """The host of ``host:port`` or ``[host]:port``."""
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdigit() or (":" in host and not host.startswith("[")):
        return address
    return host.removeprefix("[").removesuffix("]")
