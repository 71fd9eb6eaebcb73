"""The systems that can be measured, one file each."""

from __future__ import annotations

from benchmarks.systems.base import Address, Server, System
from benchmarks.systems.nats_ import NatsJetStream
from benchmarks.systems.rabbitmq_ import RabbitMqStreams
from benchmarks.systems.redis_ import RedisStreams
from benchmarks.systems.sulina_ import Sulina, SulinaReplicated

OURS = Sulina.name
SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        Sulina(),
        SulinaReplicated(),
        NatsJetStream(),
        RedisStreams(),
        RabbitMqStreams(),
    )
}

__all__ = ["OURS", "SYSTEMS", "Address", "Server", "System", "load"]


def load(name: str) -> System:
    """The system called ``name``; KeyError if there is none."""
    return SYSTEMS[name]
