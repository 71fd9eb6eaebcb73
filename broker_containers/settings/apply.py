"""Applies changed settings to a running broker.

Most code reads ``Broker.settings`` when it needs a value. What keeps its own copy is updated here:
the tail cache, the intervals of background work, the logs and subscriptions of open topics.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from broker_containers.broker.broker import Broker
from broker_containers.settings.live_settings import LiveSettings
from broker_containers.settings.runtime_config import RuntimeConfig
from broker_containers.topic_log.managed_ledger import ManagedLedger
from sulina.runtime.logs import apply_log_level, log_level_now


@asynccontextmanager
async def single_broker_config(broker: Broker) -> AsyncIterator[RuntimeConfig]:
    """Apply stored settings to a single broker, now and whenever they change."""
    base = LiveSettings(broker=broker.settings, log_level=log_level_now())

    def apply(live: LiveSettings) -> None:
        apply_to_broker(broker, live)
        apply_log_level(live.log_level, base.log_level)

    async with RuntimeConfig(broker.store, broker.clock, base) as config:
        config.on_change(apply)
        try:
            yield config
        finally:
            apply_log_level(base.log_level, base.log_level)


def apply_to_broker(broker: Broker, live: LiveSettings) -> None:
    """Use ``live`` from now on; operations in progress are not interrupted."""
    settings = live.broker
    if settings.policy != broker.settings.policy:
        broker.retention.outdated = True
    broker.settings = settings
    broker.cache.resize(settings.cache_bytes)
    broker.cursors.interval = settings.cursor_flush_seconds
    broker.retention.interval = settings.retention_seconds
    broker.tiering.settings = settings.tier
    broker.subscriptions.limits = settings.subscription
    for topic in broker.loaded():
        if isinstance(topic.log, ManagedLedger):
            topic.log.settings = settings.ledger
        for subscription in topic.subscriptions.values():
            subscription.limits = settings.subscription
