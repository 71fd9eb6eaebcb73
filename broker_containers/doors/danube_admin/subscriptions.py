"""TopicAdmin: calls about subscriptions.

A partitioned topic has a subscription if one of its partitions has it; a change applies to all
partitions that have it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Final, cast

from google.protobuf.message import Message

from broker_containers.doors.danube_admin import danube_admin_pb2 as pb
from broker_containers.doors.grpc_shared.calls import AdminService
from broker_containers.doors.grpc_shared.names import BadRequest, label, topic_name
from sulina.errors import NotFound, Refused
from sulina.metadata.keys.subscriptions import check_max_unacked
from sulina.model import Backoff, Delivery, FailurePolicy, Poison, SubscriptionType
from sulina.operations.client import AdminClient
from sulina.operations.subscriptions import FailureChanges
from sulina.operations.topics import TopicDetails

_BACKOFFS: Final = {pb.Fixed: Backoff.FIXED, pb.Exponential: Backoff.EXPONENTIAL}
_POISONS: Final = {
    pb.DeadLetter: Poison.DEAD_LETTER,
    pb.Block: Poison.BLOCK,
    pb.Drop: Poison.DROP,
}
TYPES: Final = (
    SubscriptionType.EXCLUSIVE,
    SubscriptionType.SHARED,
    SubscriptionType.FAILOVER,
    SubscriptionType.KEY_SHARED,
)
"""In the order of Danube's numbers."""


class SubscriptionCalls(AdminService):
    """The calls about subscriptions, for ``TopicAdmin``."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin

    async def list_subscriptions(self, request: pb.TopicRequest) -> Message:
        name = topic_name(request.name)
        found = await self._admin.topics.describe(str(name))
        return pb.SubscriptionListResponse(subscriptions=names_in(found))

    async def unsubscribe(self, request: pb.SubscriptionRequest) -> Message:
        for part, name in (await self._find(request.topic, request.subscription))[1]:
            await self._admin.subscriptions.delete(part, name)
        return pb.SubscriptionResponse(success=True)

    async def set_subscription_failure_policy(
        self, request: pb.SetSubscriptionFailurePolicyRequest
    ) -> Message:
        if not request.HasField("failure_policy"):
            raise BadRequest("failure_policy is missing")
        policy = _policy(request.failure_policy)
        topic, several = await self._find(request.topic, request.subscription)
        if topic.delivery is not Delivery.RELIABLE:
            raise Refused(f"{topic.topic} is not reliable: nothing is delivered again there")
        changes = cast("FailureChanges", asdict(policy))
        for part, name in several:
            await self._admin.subscriptions.policy(part, name, **changes)
        return pb.SubscriptionResponse(success=True)

    async def get_subscription_failure_policy(
        self, request: pb.GetSubscriptionFailurePolicyRequest
    ) -> Message:
        _, several = await self._find(request.topic, request.subscription)
        found = await self._admin.subscriptions.describe(*several[0])
        return pb.GetSubscriptionFailurePolicyResponse(
            failure_policy=_written(found.failure_policy),
            subscription_type=TYPES.index(found.type),
        )

    async def set_subscription_dispatch_config(
        self, request: pb.SetSubscriptionDispatchConfigRequest
    ) -> Message:
        """The limit applies to each partition on its own."""
        if not request.HasField("dispatch_config"):
            raise BadRequest("dispatch_config is missing")
        limit = request.dispatch_config.max_unacked_messages
        try:
            check_max_unacked(limit)
        except Refused as error:
            raise BadRequest(str(error)) from None
        _, several = await self._find(request.topic, request.subscription)
        for part, name in several:
            await self._admin.subscriptions.dispatch(part, name, max_unacked=limit)
        return pb.SubscriptionResponse(success=True)

    async def get_subscription_dispatch_config(
        self, request: pb.GetSubscriptionDispatchConfigRequest
    ) -> Message:
        """Empty if no limit is set."""
        _, several = await self._find(request.topic, request.subscription)
        limit = (await self._admin.subscriptions.dispatch(*several[0])).max_unacked
        found = pb.SubscriptionDispatchConfig(max_unacked_messages=limit) if limit else None
        return pb.GetSubscriptionDispatchConfigResponse(dispatch_config=found)

    async def _find(
        self, topic: str, subscription: str
    ) -> tuple[TopicDetails, list[tuple[str, str]]]:
        """The topic, and each of its partitions that has the subscription, with its name.

        Raises ``NotFound`` if none does.
        """
        name, wanted = topic_name(topic), label("subscription", subscription)
        found = await self._admin.topics.describe(str(name))
        several = [
            (log.topic, wanted)
            for log in found.logs
            if any(row.subscription == wanted for row in log.subscriptions)
        ]
        if not several:
            raise NotFound(f"{name} has no subscription {wanted!r}: ListSubscriptions lists them")
        return found, several


def names_in(described: TopicDetails) -> list[str]:
    """The subscriptions of a topic, or of all its partitions."""
    return sorted({row.subscription for log in described.logs for row in log.subscriptions})


def _policy(wanted: pb.SubscriptionFailurePolicy) -> FailurePolicy:
    backoff = _BACKOFFS.get(wanted.backoff_strategy)
    if backoff is None:
        raise BadRequest(f"there is no backoff_strategy {wanted.backoff_strategy}")
    poison = _POISONS.get(wanted.poison_policy)
    if poison is None:
        raise BadRequest(f"there is no poison_policy {wanted.poison_policy}")
    try:
        return FailurePolicy(
            wanted.max_redelivery_count,
            wanted.ack_timeout_ms,
            wanted.base_redelivery_delay_ms,
            wanted.max_redelivery_delay_ms,
            backoff,
            poison,
            wanted.dead_letter_topic,
        )
    except Refused as error:
        raise BadRequest(str(error)) from None


def _written(policy: FailurePolicy) -> pb.SubscriptionFailurePolicy:
    [backoff] = (number for number, one in _BACKOFFS.items() if one is policy.backoff)
    [poison] = (number for number, one in _POISONS.items() if one is policy.poison)
    return pb.SubscriptionFailurePolicy(
        max_redelivery_count=policy.max_redelivery_count,
        ack_timeout_ms=policy.ack_timeout_ms,
        base_redelivery_delay_ms=policy.base_redelivery_delay_ms,
        max_redelivery_delay_ms=policy.max_redelivery_delay_ms,
        backoff_strategy=backoff,
        dead_letter_topic=policy.dead_letter_topic or None,
        poison_policy=poison,
    )
