"""Limits of namespaces and topics, as an administrator reads and changes them.

A change is durable when the call returns
and holds for what comes after it: nobody who is there already is sent away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from broker_containers.broker.broker import Broker
from sulina.errors import Refused
from sulina.metadata.keys import namespaces, topics
from sulina.metadata.keys.policy import Policy
from sulina.names import TopicName


async def of_namespace(broker: Broker, namespace: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Set what ``wanted`` names, for all topics that do not set it themselves; returns all."""
    current = await namespaces.get_policy(broker.store, namespace)
    changed = replace(current, **_checked(wanted, unset=False))
    if changed != current:
        await namespaces.set_policy(broker.store, namespace, changed)
        await _apply(broker, namespace)
    return asdict(changed)


async def of_topic(broker: Broker, name: TopicName, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Set what ``wanted`` names; None leaves it to the namespace again. Returns what holds."""
    record = await broker.describe(name, create=False, delivery=None)
    changed = replace(record.policy, **_checked(wanted, unset=True))
    if changed != record.policy:
        await topics.set_policy(broker.store, name, changed)
        await _apply(broker, name.namespace)
    return asdict(await topics.effective_policy(broker.store, name))


def _checked(wanted: Mapping[str, Any], *, unset: bool) -> dict[str, Any]:
    known = {field.name: type(field.default) for field in fields(Policy)}
    for limit, value in wanted.items():
        if limit not in known:
            raise Refused(f"there is no limit {limit!r}: choose from {', '.join(known)}")
        if type(value) is not known[limit] and not (unset and value is None):
            kind = "true or false" if known[limit] is bool else "a whole number"
            raise Refused(f"{limit} must be {kind}, not {value!r}")
    return dict(wanted)


async def _apply(broker: Broker, namespace: str) -> None:
    for topic in list(broker.loaded()):
        if topic.name.namespace == namespace:
            topic.policy = await topics.effective_policy(broker.store, topic.name)
