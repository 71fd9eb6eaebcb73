"""Limits of namespaces and topics, as an administrator reads and changes them.

A change is durable when the call returns
and holds for what comes after it: nobody who is there already is sent away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from broker_containers.broker.broker import Broker
from sulina.metadata.keys import namespaces, topics
from sulina.names import TopicName


async def of_namespace(broker: Broker, namespace: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Set what ``wanted`` names, for all topics that do not set it themselves; returns all."""
    if not wanted:
        return asdict(await namespaces.get_policy(broker.store, namespace))
    changed = await namespaces.update_policy(broker.store, namespace, wanted)
    await _apply(broker, namespace)
    return asdict(changed)


async def of_topic(broker: Broker, name: TopicName, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Set what ``wanted`` names; None leaves it to the namespace again. Returns what holds."""
    if wanted:
        await topics.update_policy(broker.store, name, wanted)
        await _apply(broker, name.namespace)
    return asdict(await topics.effective_policy(broker.store, name))


async def _apply(broker: Broker, namespace: str) -> None:
    for topic in list(broker.loaded()):
        if topic.name.namespace == namespace:
            topic.policy = await topics.effective_policy(broker.store, topic.name)
