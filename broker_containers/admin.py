"""Administration: named methods with plain JSON-like arguments and results.

Every door offers the same methods: the binary door through its Admin command, the command line
through that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Protocol

from broker_containers import limits
from broker_containers.arguments import FORWARDED, Arguments, Method, choice, number, text, without
from broker_containers.broker.broker import Broker
from broker_containers.ledger_methods import LedgerMethods
from broker_containers.subscriptions.subscription import Subscription
from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topic_rows import parts_of, topic_rows
from broker_containers.topics.topic import Topic
from sulina.errors import Refused
from sulina.metadata.keys import ledgers, namespaces, topics
from sulina.metadata.keys.policy import Policy
from sulina.model import Backoff, Delivery, FailurePolicy, Poison, Start, SubscriptionType
from sulina.names import TopicName


class AdminRouter(Protocol):
    """Knows which methods other brokers must answer."""

    async def target(self, method: str, arguments: Arguments) -> str | None:
        """The broker that answers; None if it is this one."""
        ...

    async def call(self, broker: str, method: str, arguments: Arguments) -> Any:
        """Let that broker answer."""
        ...


class Admin:
    """The methods, by name. ``call`` raises ``Refused`` for unknown ones and bad arguments."""

    def __init__(
        self,
        broker: Broker,
        more: Mapping[str, Method] | None = None,
        router: AdminRouter | None = None,
    ) -> None:
        """``more`` are further methods; a ``router`` sends some to other brokers."""
        self._broker = broker
        self._router = router
        self._methods: dict[str, Method] = {
            "broker.stats": self._broker_stats,
            "namespace.create": self._namespace_create,
            "namespace.delete": self._namespace_delete,
            "namespace.list": self._namespace_list,
            "namespace.describe": self._namespace_describe,
            "namespace.policy": self._namespace_policy,
            "topic.create": self._topic_create,
            "topic.delete": self._topic_delete,
            "topic.describe": self._topic_describe,
            "topic.list": self._topic_list,
            "topic.policy": self._topic_policy,
            "subscription.create": self._subscription_create,
            "subscription.delete": self._subscription_delete,
            "subscription.describe": self._subscription_describe,
            "subscription.list": self._subscription_list,
            "subscription.policy": self._subscription_policy,
            "subscription.dispatch": self._subscription_dispatch,
            "subscription.seek": self._subscription_seek,
            "topic.ledgers": self._topic_ledgers,
            "topic.log": self._topic_log,
            **LedgerMethods(broker, self.call).methods(),
            **(more or {}),
        }

    def offer(self, more: Mapping[str, Method]) -> None:
        """Add methods."""
        self._methods.update(more)

    @property
    def methods(self) -> frozenset[str]:
        """The names of all methods."""
        return frozenset(self._methods)

    async def call(self, method: str, arguments: Arguments) -> Any:
        """Run one method; the result is plain data."""
        found = self._methods.get(method)
        if found is None:
            raise Refused(f"there is no method {method!r}: choose from {sorted(self._methods)}")
        if FORWARDED in arguments:
            return await found(without(arguments, FORWARDED))
        if self._router is not None:
            broker = await self._router.target(method, arguments)
            if broker is not None:
                return await self._router.call(broker, method, arguments)
        return await found(arguments)

    # ---- broker ----

    async def _broker_stats(self, arguments: Arguments) -> Any:
        broker = self._broker
        loaded = list(broker.loaded())
        return {
            "broker": broker.settings.broker_id,
            "topics": len(loaded),
            "producers": sum(len(topic.producers) for topic in loaded),
            "consumers": sum(topic.consumer_count for topic in loaded),
            "cache_bytes": broker.cache.bytes,
            "records_in": sum(topic.counters.records_in for topic in loaded),
            "bytes_in": sum(topic.counters.bytes_in for topic in loaded),
        }

    # ---- namespaces ----

    async def _namespace_create(self, arguments: Arguments) -> Any:
        await namespaces.create(self._broker.store, text(arguments, "namespace"), Policy())
        return {}

    async def _namespace_delete(self, arguments: Arguments) -> Any:
        await namespaces.delete(self._broker.store, text(arguments, "namespace"))
        return {}

    async def _namespace_list(self, arguments: Arguments) -> Any:
        return await namespaces.list_names(self._broker.store)

    async def _namespace_describe(self, arguments: Arguments) -> Any:
        name = text(arguments, "namespace")
        policy = await namespaces.get_policy(self._broker.store, name)
        found = await topics.list_all(self._broker.store, name)
        return {"namespace": name, "topics": len(found), "policy": asdict(policy)}

    async def _namespace_policy(self, arguments: Arguments) -> Any:
        name = text(arguments, "namespace")
        return await limits.of_namespace(self._broker, name, without(arguments, "namespace"))

    # ---- topics ----

    async def _topic_create(self, arguments: Arguments) -> Any:
        name = TopicName.parse(text(arguments, "topic"))
        delivery = choice(Delivery, arguments, "delivery", Delivery.RELIABLE)
        await self._broker.create_topic(
            name,
            delivery,
            number(arguments, "partitions", 0),
            expected_records=number(arguments, "expected_records", 0),
            expected_bytes=number(arguments, "expected_bytes", 0),
        )
        return {"topic": str(name)}

    async def _topic_delete(self, arguments: Arguments) -> Any:
        await self._broker.delete_topic(TopicName.parse(text(arguments, "topic")))
        return {}

    async def _topic_list(self, arguments: Arguments) -> Any:
        store = self._broker.store
        wanted = arguments.get("namespace")
        names = [str(wanted)] if wanted else await namespaces.list_names(store)
        loaded = {topic.name: topic for topic in self._broker.loaded()}
        found = {
            name: record
            for namespace in names
            for name, record in (await topics.list_all(store, namespace)).items()
            if not record.partition_of or arguments.get("all")
        }
        return await topic_rows(store, found, loaded)

    async def _topic_policy(self, arguments: Arguments) -> Any:
        name = TopicName.parse(text(arguments, "topic"))
        return await limits.of_topic(self._broker, name, without(arguments, "topic"))

    async def _topic_describe(self, arguments: Arguments) -> Any:
        name = TopicName.parse(text(arguments, "topic"))
        record = await self._broker.describe(name, create=False, delivery=None)
        return {
            "topic": str(name),
            "delivery": record.delivery.value,
            "partitions": record.partitions,
            "created_us": record.created_us,
            "logs": [
                await self.call("topic.log", {"topic": str(part)})
                for part in parts_of(name, record)
            ],
        }

    async def _topic_log(self, arguments: Arguments) -> Any:
        return _log_of(await self._topic_of(arguments))

    async def _topic_ledgers(self, arguments: Arguments) -> Any:
        name = TopicName.parse(text(arguments, "topic"))
        await self._broker.describe(name, create=False, delivery=None)
        found = await ledgers.get(self._broker.store, name)
        return {
            "topic": str(name),
            "epoch": found.list.epoch,
            "ledgers": [asdict(ref) for ref in found.list.ledgers],
        }

    # ---- subscriptions ----

    async def _topic_of(self, arguments: Arguments) -> Topic:
        return await self._broker.topic(TopicName.parse(text(arguments, "topic")), create=False)

    async def _subscription_create(self, arguments: Arguments) -> Any:
        topic = await self._topic_of(arguments)
        type_ = choice(SubscriptionType, arguments, "type", SubscriptionType.EXCLUSIVE)
        name = text(arguments, "subscription")
        if name in topic.subscriptions:
            raise Refused(f"the subscription {name!r} of {topic.name} exists already")
        made = await self._broker.subscriptions.subscribe(
            topic, name, type_, _start(arguments), None
        )
        return _subscription_row(made)

    async def _subscription_list(self, arguments: Arguments) -> Any:
        topic = await self._topic_of(arguments)
        return [_subscription_row(found) for found in topic.subscriptions.values()]

    async def _subscription_describe(self, arguments: Arguments) -> Any:
        topic = await self._topic_of(arguments)
        found = topic.subscription(text(arguments, "subscription"))
        return {
            **_subscription_row(found),
            "failure_policy": asdict(found.failure_policy),
            "max_unacked": found.max_unacked,
            "acked_above": found.cursor(0).acked[:100],
            "counters": asdict(found.counters),
            "consumers": [
                {
                    "name": member.name,
                    "active": found.is_active(member),
                    "credit_records": member.records,
                    "credit_bytes": member.bytes,
                    "sent": member.sent,
                }
                for member in found.consumers
            ],
        }

    async def _subscription_delete(self, arguments: Arguments) -> Any:
        topic = await self._topic_of(arguments)
        await self._broker.subscriptions.unsubscribe(topic, text(arguments, "subscription"))
        return {}

    async def _subscription_seek(self, arguments: Arguments) -> Any:
        topic = await self._topic_of(arguments)
        found = topic.subscription(text(arguments, "subscription"))
        if found.consumers:
            raise Refused(f"{found.name!r} has consumers: close them before moving it")
        await self._broker.subscriptions.seek(topic, found, _start(arguments))
        found.resume()
        return _subscription_row(found)

    async def _subscription_policy(self, arguments: Arguments) -> Any:
        topic = await self._topic_of(arguments)
        name = text(arguments, "subscription")
        changes: dict[str, Any] = {
            key: number(arguments, key, 0) if isinstance(value, int) else str(arguments[key])
            for key, value in asdict(FailurePolicy()).items()
            if key in arguments
        }
        try:
            for key, type_ in (("backoff", Backoff), ("poison", Poison)):
                if key in changes:
                    changes[key] = type_(changes[key])
        except ValueError as error:
            raise Refused(str(error)) from None
        return asdict(await self._broker.subscriptions.update_failure_policy(topic, name, changes))

    async def _subscription_dispatch(self, arguments: Arguments) -> Any:
        topic = await self._topic_of(arguments)
        name = text(arguments, "subscription")
        if "max_unacked" in arguments:
            await self._broker.subscriptions.set_max_unacked(
                topic, name, number(arguments, "max_unacked", 0)
            )
        return {"max_unacked": topic.subscription(name).max_unacked}


def _start(arguments: Arguments) -> Start:
    """``start`` is "latest", "earliest", or an object with "offset" or "time_us"."""
    value = arguments.get("start", "latest")
    if value == "latest":
        return Start.latest()
    if value == "earliest":
        return Start.earliest()
    if isinstance(value, Mapping) and isinstance(value.get("offset"), int):
        return Start.offset(value["offset"])
    if isinstance(value, Mapping) and isinstance(value.get("time_us"), int):
        return Start.time(value["time_us"])
    raise Refused(f"start is latest, earliest, an offset or a time, not {value!r}")


def _log_of(topic: Topic) -> dict[str, Any]:
    log = topic.log
    ledgers = []
    if isinstance(log, ManagedLedger):
        ledgers = [
            {
                "id": ref.id,
                "state": ref.state.value,
                "first_offset": ref.first_offset,
                "last_offset": ref.last_offset,
                "bytes": ref.bytes,
            }
            for ref in log.refs
        ]
    return {
        "topic": str(topic.name),
        "start_offset": log.start,
        "end_offset": log.end,
        "epoch": log.epoch if isinstance(log, ManagedLedger) else 0,
        "ledgers": ledgers,
        "producers": sorted(topic.producers),
        "subscriptions": [_subscription_row(found) for found in topic.subscriptions.values()],
        "counters": asdict(topic.counters),
    }


def _subscription_row(found: Subscription) -> dict[str, Any]:
    return {
        "topic": str(found.source.name),
        "subscription": found.name,
        "type": found.type.value,
        "position": found.position,
        "backlog": found.backlog,
        "delayed_frames": found.delayed_frames,
        "consumers": len(found.consumers),
        "stalled": found.stalled,
    }
