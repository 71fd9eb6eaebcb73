"""The systems that can be measured, one module each."""

from __future__ import annotations

from benchmarks.systems.base import System, SystemServer
from benchmarks.systems.nats_ import NatsJetStream
from benchmarks.systems.rabbitmq_ import RabbitMqStreams
from benchmarks.systems.redis_ import RedisStreams
from benchmarks.systems.sulina_ import SulinaReplicated, SulinaSystem

OURS = SulinaSystem.name
SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        SulinaSystem(),
        SulinaReplicated(),
        NatsJetStream(),
        RedisStreams(),
        RabbitMqStreams(),
    )
}

__all__ = ["OURS", "SYSTEMS", "System", "SystemServer"]
