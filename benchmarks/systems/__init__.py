"""The systems that can be measured, one module each."""

from __future__ import annotations

from benchmarks.systems.base import System, SystemServer
from benchmarks.systems.danube_ import Danube
from benchmarks.systems.kafka_ import Kafka
from benchmarks.systems.nats_ import NatsJetStream
from benchmarks.systems.pulsar_ import Pulsar
from benchmarks.systems.rabbitmq_ import RabbitMqStreams
from benchmarks.systems.redis_ import RedisStreams
from benchmarks.systems.sulina_ import SulinaReplicated, SulinaSystem

OURS = SulinaSystem.name
SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        SulinaSystem(),
        SulinaReplicated(),
        Kafka("kafka", "Kafka"),
        Kafka("kafka-unsynced", "Kafka, as shipped", synced=False),
        Kafka("kafka-3", "Kafka, 3 brokers", nodes=3),
        Kafka("kafka-3-unsynced", "Kafka, 3 brokers, as shipped", nodes=3, synced=False),
        Pulsar("pulsar", "Pulsar"),
        Pulsar("pulsar-unsynced", "Pulsar, as shipped", synced=False),
        Pulsar("pulsar-3", "Pulsar, 3 bookies", nodes=3),
        NatsJetStream("nats", "NATS JetStream"),
        NatsJetStream("nats-unsynced", "NATS JetStream, as shipped", synced=False),
        NatsJetStream("nats-3", "NATS JetStream, 3 nodes", nodes=3),
        RedisStreams("redis", "Redis Streams, AOF always"),
        RedisStreams("redis-unsynced", "Redis Streams, AOF every second", synced=False),
        RabbitMqStreams(),
        Danube(),
    )
}

__all__ = ["OURS", "SYSTEMS", "System", "SystemServer"]
