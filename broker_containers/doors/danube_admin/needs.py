"""What each call of Danube's administrative services takes of who makes it.

A call that is not named here is for administrators of the whole cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from broker_containers.doors.grpc_shared.names import namespace_name, topic_name
from broker_containers.security.access import (
    BROKERS,
    CLUSTER,
    SIGNED_IN,
    Need,
    of_namespace,
    of_topic,
    topics_of_namespace,
)
from sulina.metadata.keys.auth import EVERYTHING, Action

NeedOf = Callable[[str, Any], list[Need]]
"""From a method's name and its request to what it takes."""


def _topic(action: Action | None, field: str = "name") -> Callable[[Any], list[Need]]:
    return lambda request: [of_topic(action, topic_name(getattr(request, field)))]


def _namespace(request: Any) -> list[Need]:
    return [of_namespace(namespace_name(request.name))]


def _listing(request: Any) -> list[Need]:
    return [topics_of_namespace(namespace_name(request.name))]


def _all(need: Need) -> Callable[[Any], list[Need]]:
    return lambda _: [need]


def _unsubscribing(request: Any) -> list[Need]:
    """For its consumers, and for who looks after the topic."""
    topic = topic_name(request.topic)
    return [Need(Action.CONSUME, str(topic), instead=Action.TOPICS)]


def _policy(request: Any) -> list[Need]:
    """Whoever lets messages go to a dead-letter topic publishes there."""
    found = [of_topic(Action.TOPICS, topic_name(request.topic))]
    if request.failure_policy.dead_letter_topic:
        dead_letters = topic_name(request.failure_policy.dead_letter_topic)
        found.append(of_topic(Action.PRODUCE, dead_letters))
    return found


_ADMIN: Final[dict[str, Callable[[Any], list[Need]]]] = {
    "ListBrokers": _all(BROKERS),
    "GetLeaderBroker": _all(BROKERS),
    "UnloadBroker": _all(BROKERS),
    "ActivateBroker": _all(BROKERS),
    "ListNamespaces": _all(Need(Action.NAMESPACES, EVERYTHING)),
    "CreateNamespace": _namespace,
    "DeleteNamespace": _namespace,
    "GetNamespaceTopics": _listing,
    "GetNamespacePolicies": _namespace,
    "ListNamespaceTopics": _listing,
    "ListBrokerTopics": _all(Need(Action.TOPICS, EVERYTHING)),
    "CreateTopic": _topic(Action.TOPICS),
    "CreatePartitionedTopic": _topic(Action.TOPICS, "base_name"),
    "DeleteTopic": _topic(Action.TOPICS),
    "UnloadTopic": _topic(Action.TOPICS),
    "DescribeTopic": _topic(None),
    "ListSubscriptions": _topic(None),
    "Unsubscribe": _unsubscribing,
    "SetSubscriptionFailurePolicy": _policy,
    "GetSubscriptionFailurePolicy": _topic(None, "topic"),
    "SetSubscriptionDispatchConfig": _topic(Action.TOPICS, "topic"),
    "GetSubscriptionDispatchConfig": _topic(None, "topic"),
}


def admin_needs(method: str, request: Any) -> list[Need]:
    """Of a call to one of the administrative services. Raises ``BadRequest`` for its names."""
    rule = _ADMIN.get(method)
    return [CLUSTER] if rule is None else rule(request)


def _subject(request: Any) -> list[Need]:
    return [Need(Action.SCHEMAS, request.subject or EVERYTHING)]


_SCHEMAS: Final[dict[str, Callable[[Any], list[Need]]]] = {
    "RegisterSchema": _subject,
    "DeleteSchemaVersion": _subject,
    "SetCompatibilityMode": _subject,
    "ConfigureTopicSchema": _topic(Action.TOPICS, "topic_name"),
    "UpdateTopicValidationPolicy": _topic(Action.TOPICS, "topic_name"),
    "GetTopicSchemaConfig": _topic(None, "topic_name"),
}


def schema_needs(method: str, request: Any) -> list[Need]:
    """Of a call to the schema registry: everybody who is somebody may read it."""
    rule = _SCHEMAS.get(method)
    return [SIGNED_IN] if rule is None else rule(request)
