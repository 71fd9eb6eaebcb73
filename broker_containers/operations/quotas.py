"""Handlers of the operations on quotas.

A changed quota is durable when its operation returns, and applies on this broker from then on, on
others within milliseconds. What already exceeds it stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from broker_containers.broker.broker import Broker
from broker_containers.operations.running import handles
from broker_containers.quotas.quotas import SYSTEM, limit_names
from broker_containers.quotas.rates import Subject
from broker_containers.security.access import ACTING
from sulina.errors import Refused
from sulina.metadata.keys import quotas
from sulina.metadata.keys.quotas import EVERY, QuotaScope, WhenFull
from sulina.names import check_label, check_namespace
from sulina.operations.quotas import (
    BrokerQuota,
    NamespaceQuota,
    PrincipalQuota,
    QuotaDetails,
    QuotaOperations,
    QuotaRow,
)


class QuotaHandlers:
    """Quotas, as this broker enforces them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._quotas = broker.quotas

    @handles(QuotaOperations.list)
    async def list(self) -> tuple[QuotaDetails, ...]:
        await self._quotas.caught_up()
        sees = ACTING.get().sees
        return tuple(
            self._details((scope, name))
            for scope, name in self._quotas.subjects()
            if scope is not QuotaScope.NAMESPACE or name == EVERY or sees(f"/{name}/*")
        )

    @handles(QuotaOperations.namespace)
    async def namespace(self, namespace: str, **limits: Unpack[NamespaceQuota]) -> QuotaDetails:
        if namespace != EVERY:
            check_namespace(namespace)
        if limits and namespace == SYSTEM:
            raise Refused(f"{SYSTEM!r} has no quota: it would apply to the audit trail")
        return await self._changed((QuotaScope.NAMESPACE, namespace), limits)

    @handles(QuotaOperations.principal)
    async def principal(self, principal: str, **limits: Unpack[PrincipalQuota]) -> QuotaDetails:
        check_label("principal", principal)
        return await self._changed((QuotaScope.PRINCIPAL, principal), limits)

    @handles(QuotaOperations.broker)
    async def broker(self, broker: str, **limits: Unpack[BrokerQuota]) -> QuotaDetails:
        check_label("broker", broker)
        return await self._changed((QuotaScope.BROKER, broker), limits)

    async def _changed(self, subject: Subject, limits: Mapping[str, Any]) -> QuotaDetails:
        if limits:
            await quotas.update(self._broker.store, *subject, limits)
        await self._quotas.caught_up()
        return self._details(subject)

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
        return QuotaDetails(scope, name, me, rows, full)

    def _set_by(self, subject: Subject, limit: str) -> str:
        for name in (subject[1], EVERY):
            if getattr(self._quotas.own((subject[0], name)), limit) is not None:
                return name
        return "default"
