"""Applies changed settings to a running broker.

Most code reads ``Broker.settings`` when it needs a value. What keeps its own copy is updated here:
the tail cache, the intervals of background work, the logs and subscriptions of open topics.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from broker_containers.broker.broker import Broker
from broker_containers.settings.live_settings import LiveSettings
from broker_containers.settings.runtime_config import RuntimeConfig
from broker_containers.settings.setting_list import LEVELS
from broker_containers.topic_log.managed_ledger import ManagedLedger

PACKAGES: Final = ("sulina", "broker_containers", "storage_grpc")
"""``log.level`` applies to these packages; libraries keep their levels."""


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


def log_level_now() -> str:
    """The level the process was started with: call it before any change is applied."""
    level = logging.getLevelName(logging.getLogger().getEffectiveLevel()).lower()
    return level if level in LEVELS else "warning"


def apply_log_level(level: str, started_with: str) -> None:
    """Set the log level of our packages; ``started_with`` restores the process's own setup."""
    wanted = logging.NOTSET if level == started_with else logging.getLevelName(level.upper())
    for package in PACKAGES:
        logging.getLogger(package).setLevel(wanted)
