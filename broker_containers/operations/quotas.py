"""Handlers of the operations on quotas.

A changed quota is durable when its operation returns, and applies on this broker from then on, on
others within milliseconds. What already exceeds it stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, ParamSpec, Unpack

from broker_containers.broker.broker import Broker
from broker_containers.operations.running import Operations, handles
from broker_containers.quotas.quotas import SYSTEM, limit_names
from broker_containers.quotas.rates import Subject
from broker_containers.security.access import ACTING
from sulina.errors import Refused
from sulina.metadata.keys import quotas
from sulina.metadata.keys.quotas import EVERY, QuotaScope, WhenFull
from sulina.names import check_label, check_namespace
from sulina.operations.declaration import Operation
from sulina.operations.quotas import (
    BrokerQuota,
    NamespaceQuota,
    PrincipalQuota,
    QuotaDetails,
    QuotaOperations,
    QuotaRow,
)

P = ParamSpec("P")
_OF_CLUSTER: Final = ("topics", "partitions", "subscriptions", "schemas", "stored_bytes")
"""What each broker counts for the whole cluster; of the rest each counts its own."""


class QuotaHandlers:
    """Quotas, as this broker enforces them."""

    def __init__(self, broker: Broker, operations: Operations) -> None:
        self._broker = broker
        self._operations = operations
        self._quotas = broker.quotas

    @handles(QuotaOperations.list)
    async def list(self) -> tuple[QuotaDetails, ...]:
        await self._quotas.caught_up()
        sees = ACTING.get().sees
        answers = await self._operations.of_others(QuotaOperations.list, {}, self._broker.clock)
        others = [{(each.scope, each.name): each for each in answer} for answer in answers]
        return tuple(
            _summed(self._details(subject), [each[subject] for each in others if subject in each])
            for subject in sorted({*self._quotas.subjects()}.union(*others))
            if subject[0] is not QuotaScope.NAMESPACE
            or subject[1] == EVERY
            or sees(f"/{subject[1]}/*")
        )

    @handles(QuotaOperations.namespace)
    async def namespace(self, namespace: str, **limits: Unpack[NamespaceQuota]) -> QuotaDetails:
        if namespace != EVERY:
            check_namespace(namespace)
        if limits and namespace == SYSTEM:
            raise Refused(f"{SYSTEM!r} has no quota: it would apply to the audit trail")
        call = QuotaOperations.namespace, {"namespace": namespace}
        return await self._changed((QuotaScope.NAMESPACE, namespace), limits, *call)

    @handles(QuotaOperations.principal)
    async def principal(self, principal: str, **limits: Unpack[PrincipalQuota]) -> QuotaDetails:
        check_label("principal", principal)
        call = QuotaOperations.principal, {"principal": principal}
        return await self._changed((QuotaScope.PRINCIPAL, principal), limits, *call)

    @handles(QuotaOperations.broker)
    async def broker(self, broker: str, **limits: Unpack[BrokerQuota]) -> QuotaDetails:
        check_label("broker", broker)
        call = QuotaOperations.broker, {"broker": broker}
        return await self._changed((QuotaScope.BROKER, broker), limits, *call)

    async def _changed(
        self,
        subject: Subject,
        limits: Mapping[str, Any],
        operation: Operation[P, QuotaDetails],
        named: Mapping[str, str],
    ) -> QuotaDetails:
        if limits:
            await quotas.update(self._broker.store, *subject, limits)
        await self._quotas.caught_up()
        others = await self._operations.of_others(operation, named, self._broker.clock)
        return _summed(self._details(subject), others)

    def _details(self, subject: Subject) -> QuotaDetails:
        scope, name = subject
        me = self._broker.settings.broker_id
        counted = name != EVERY and (scope is not QuotaScope.BROKER or name == me)
        rows = tuple(
            QuotaRow(
                limit,
                self._quotas.use(subject, limit) if counted else None,
                self._quotas.limit(subject, limit),
                self._set_by(subject, limit),
            )
            for limit in limit_names(scope)
            if limit != "when_full"
        )
        full: WhenFull | None = self._quotas.limits(subject).when_full
        return QuotaDetails(scope, name, me, rows, full, (me,))

    def _set_by(self, subject: Subject, limit: str) -> str:
        for name in (subject[1], EVERY):
            if getattr(self._quotas.own((subject[0], name)), limit) is not None:
                return name
        return "default"


def _summed(mine: QuotaDetails, others: Sequence[QuotaDetails]) -> QuotaDetails:
    """The same with the use of all these brokers."""
    found = [mine, *others]
    used = {
        row.limit: [each.use for one in found for each in one.limits if each.limit == row.limit]
        for row in mine.limits
    }
    rows = tuple(replace(row, use=_use(row.limit, used[row.limit])) for row in mine.limits)
    return replace(mine, limits=rows, brokers=tuple(sorted(each.broker for each in found)))


def _use(limit: str, counted: Sequence[int | None]) -> int | None:
    known = [each for each in counted if each is not None]
    if limit in _OF_CLUSTER:
        return known[0] if known else None
    return sum(known) if known else None
