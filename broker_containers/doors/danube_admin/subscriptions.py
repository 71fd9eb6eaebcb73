"""TopicAdmin: calls about subscriptions.

A partitioned topic has a subscription if one of its partitions has it. As in Danube, settings may
come before the subscription: they are stored, and it is created with them. So a setting applies to
all partitions, whether they have the subscription or not.
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
from sulina.operations.subscriptions import FailureChanges, SubscriptionRow
from sulina.operations.topics import TopicDetails

_BACKOFFS: Final = {pb.Fixed: Backoff.FIXED, pb.Exponential: Backoff.EXPONENTIAL}
_POISONS: Final = {
    pb.DeadLetter: Poison.DEAD_LETTER,
    pb.Block: Poison.HALT,
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
        found = await self._topic(request.name)
        return pb.SubscriptionListResponse(subscriptions=names_in(found))

    async def unsubscribe(self, request: pb.SubscriptionRequest) -> Message:
        name = label("subscription", request.subscription)
        deleted = False
        for log in (await self._topic(request.topic)).logs:
            try:
                await self._admin.subscriptions.delete(log.topic, name)
                deleted = True
            except NotFound:  # of the partition
                continue
        if not deleted:
            raise NotFound(
                f"{request.topic} has no subscription {name!r}: ListSubscriptions lists them"
            )
        return pb.SubscriptionResponse(success=True)

    async def set_subscription_failure_policy(
        self, request: pb.SetSubscriptionFailurePolicyRequest
    ) -> Message:
        if not request.HasField("failure_policy"):
            raise BadRequest("failure_policy is missing")
        policy = _policy(request.failure_policy)
        name = label("subscription", request.subscription)
        topic = await self._topic(request.topic)
        if topic.delivery is not Delivery.RELIABLE:
            raise Refused(f"{topic.topic} is not reliable: nothing is delivered again there")
        changes = cast("FailureChanges", asdict(policy))
        del changes["dead_letter_expired"]  # Danube's policies do not have it: it stays as it is
        for log in topic.logs:
            await self._admin.subscriptions.policy(log.topic, name, in_advance=True, **changes)
        return pb.SubscriptionResponse(success=True)

    async def get_subscription_failure_policy(
        self, request: pb.GetSubscriptionFailurePolicyRequest
    ) -> Message:
        """Of a subscription that does not exist, what is set in advance."""
        part, name, row = await self._first(request.topic, request.subscription)
        found = await self._admin.subscriptions.policy(part, name)
        return pb.GetSubscriptionFailurePolicyResponse(
            failure_policy=_written(found),
            subscription_type=0 if row is None else TYPES.index(row.type),
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
        name = label("subscription", request.subscription)
        for log in (await self._topic(request.topic)).logs:
            await self._admin.subscriptions.dispatch(
                log.topic, name, max_unacked=limit, in_advance=True
            )
        return pb.SubscriptionResponse(success=True)

    async def get_subscription_dispatch_config(
        self, request: pb.GetSubscriptionDispatchConfigRequest
    ) -> Message:
        """Empty if no limit is set."""
        part, name, _ = await self._first(request.topic, request.subscription)
        limit = (await self._admin.subscriptions.dispatch(part, name)).max_unacked
        found = pb.SubscriptionDispatchConfig(max_unacked_messages=limit) if limit else None
        return pb.GetSubscriptionDispatchConfigResponse(dispatch_config=found)

    async def _topic(self, topic: str) -> TopicDetails:
        return await self._admin.topics.describe(str(topic_name(topic)))

    async def _first(
        self, topic: str, subscription: str
    ) -> tuple[str, str, SubscriptionRow | None]:
        """The first partition that has the subscription, its name, and how lists show it.

        If none has it: the first partition, without a row.
        """
        wanted = label("subscription", subscription)
        found = await self._topic(topic)
        rows = ((log.topic, row) for log in found.logs for row in log.subscriptions)
        matching = ((part, wanted, row) for part, row in rows if row.subscription == wanted)
        return next(matching, (found.logs[0].topic, wanted, None))


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
    poisons = {poison: number for number, poison in _POISONS.items()}
    # Ours goes on trying; of Danube's policies it comes closest to Block.
    poison = poisons.get(policy.poison, pb.Block)
    return pb.SubscriptionFailurePolicy(
        max_redelivery_count=policy.max_redelivery_count,
        ack_timeout_ms=policy.ack_timeout_ms,
        base_redelivery_delay_ms=policy.base_redelivery_delay_ms,
        max_redelivery_delay_ms=policy.max_redelivery_delay_ms,
        backoff_strategy=backoff,
        dead_letter_topic=policy.dead_letter_topic or None,
        poison_policy=poison,
    )
