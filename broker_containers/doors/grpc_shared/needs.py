"""Which operation each call of Danube's administrative services amounts to: its right is needed.

A call that is not listed needs the right to administer the whole cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from broker_containers.doors.grpc_shared.names import namespace_name, topic_name
from broker_containers.operations.running import needs_of
from broker_containers.security.access import CLUSTER, SIGNED_IN, Need
from sulina.operations.cluster import BrokerOperations
from sulina.operations.declaration import Declaration
from sulina.operations.schemas import SchemaOperations
from sulina.operations.subscriptions import SubscriptionOperations
from sulina.operations.topics import NamespaceOperations, TopicOperations

NeedOf = Callable[[str, Any], list[Need]]
"""From a method's name and its request to what its caller needs."""
_Arguments = Callable[[Any], dict[str, Any]]
_Rule = tuple[Declaration, _Arguments]


def _none(_: Any) -> dict[str, Any]:
    return {}


def _topic(field: str = "name") -> _Arguments:
    return lambda request: {"topic": str(topic_name(getattr(request, field)))}


def _namespace(request: Any) -> dict[str, Any]:
    return {"namespace": namespace_name(request.name)}


def _subject(request: Any) -> dict[str, Any]:
    return {"subject": request.subject}


def _dead_letters(request: Any) -> dict[str, Any]:
    found = {"topic": str(topic_name(request.topic))}
    letters = request.failure_policy.dead_letter_topic
    return {**found, "dead_letter_topic": str(topic_name(letters))} if letters else found


def _dispatch(request: Any) -> dict[str, Any]:
    limit = request.dispatch_config.max_unacked_messages
    return {"topic": str(topic_name(request.topic)), "max_unacked": limit}


_ADMIN: Final[dict[str, _Rule]] = {
    "ListBrokers": (BrokerOperations.list, _none),
    "GetLeaderBroker": (BrokerOperations.list, _none),
    "UnloadBroker": (BrokerOperations.drain, _none),
    "ActivateBroker": (BrokerOperations.activate, _none),
    "ListNamespaces": (NamespaceOperations.list, _none),
    "CreateNamespace": (NamespaceOperations.create, _namespace),
    "DeleteNamespace": (NamespaceOperations.delete, _namespace),
    "GetNamespaceTopics": (TopicOperations.list, _namespace),
    "GetNamespacePolicies": (NamespaceOperations.policy, _namespace),
    "ListNamespaceTopics": (TopicOperations.list, _namespace),
    "ListBrokerTopics": (TopicOperations.list, _none),
    "CreateTopic": (TopicOperations.create, _topic()),
    "CreatePartitionedTopic": (TopicOperations.create, _topic("base_name")),
    "DeleteTopic": (TopicOperations.delete, _topic()),
    "UnloadTopic": (TopicOperations.move, _topic()),
    "DescribeTopic": (TopicOperations.describe, _topic()),
    "ListSubscriptions": (SubscriptionOperations.list, _topic()),
    "Unsubscribe": (SubscriptionOperations.delete, _topic("topic")),
    "SetSubscriptionFailurePolicy": (SubscriptionOperations.policy, _dead_letters),
    "GetSubscriptionFailurePolicy": (SubscriptionOperations.describe, _topic("topic")),
    "SetSubscriptionDispatchConfig": (SubscriptionOperations.dispatch, _dispatch),
    "GetSubscriptionDispatchConfig": (SubscriptionOperations.dispatch, _topic("topic")),
}
_SCHEMAS: Final[dict[str, _Rule]] = {
    "RegisterSchema": (SchemaOperations.register, _subject),
    "DeleteSchemaVersion": (SchemaOperations.delete, _subject),
    "SetCompatibilityMode": (SchemaOperations.compatibility, _subject),
    "ConfigureTopicSchema": (SchemaOperations.bind, _topic("topic_name")),
    "UpdateTopicValidationPolicy": (SchemaOperations.bind, _topic("topic_name")),
    "GetTopicSchemaConfig": (SchemaOperations.topic, _topic("topic_name")),
}


def admin_needs(method: str, request: Any) -> list[Need]:
    """For a call of an administrative service. Raises ``BadRequest`` for invalid names."""
    return _needs(_ADMIN.get(method), request, CLUSTER)


def schema_needs(method: str, request: Any) -> list[Need]:
    """For a call of the schema registry: any valid token may read it."""
    return _needs(_SCHEMAS.get(method), request, SIGNED_IN)


def _needs(rule: _Rule | None, request: Any, otherwise: Need) -> list[Need]:
    if rule is None:
        return [otherwise]
    operation, arguments = rule
    return needs_of(operation, arguments(request))
