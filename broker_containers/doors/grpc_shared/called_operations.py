"""Which operation each call of Danube's administrative services and schema registry amounts to.

Its caller needs the rights of that operation. A call that is not listed, or is unknown, needs the
right to administer the whole cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from broker_containers.doors.grpc_shared.names import namespace_name, topic_name
from sulina.operations.cluster import BalanceOperations, BrokerOperations, ClusterOperations
from sulina.operations.declaration import Declaration
from sulina.operations.schemas import SchemaOperations
from sulina.operations.security import BindingOperations, RoleOperations
from sulina.operations.subscriptions import SubscriptionOperations
from sulina.operations.topics import NamespaceOperations, TopicOperations

_Arguments = Callable[[Any], dict[str, Any]]


def _none(_: Any) -> dict[str, Any]:
    return {}


def _topic(field: str = "name") -> _Arguments:
    return lambda request: {"topic": str(topic_name(getattr(request, field)))}


def _namespace(request: Any) -> dict[str, Any]:
    return {"namespace": namespace_name(request.name)}


def _fields(**named: str) -> _Arguments:
    """Arguments, each with the field of the request that has its value."""
    return lambda request: {name: getattr(request, field) for name, field in named.items()}


def _new_role(request: Any) -> dict[str, Any]:
    return {"role": request.role.name, "permissions": list(request.role.permissions)}


def _new_binding(request: Any) -> dict[str, Any]:
    made = request.binding
    return {
        "binding": made.id,
        "principal": made.principal_name,
        "roles": list(made.role_names),
        "scope": made.scope,
        "resource": made.resource_name,
    }


def _subscription(request: Any) -> dict[str, Any]:
    return {"topic": str(topic_name(request.topic)), "subscription": request.subscription}


def _dead_letters(request: Any) -> dict[str, Any]:
    found = _subscription(request)
    letters = request.failure_policy.dead_letter_topic
    return {**found, "dead_letter_topic": str(topic_name(letters))} if letters else found


def _dispatch(request: Any) -> dict[str, Any]:
    limit = request.dispatch_config.max_unacked_messages
    return {**_subscription(request), "max_unacked": limit}


_BROKER: Final = _fields(broker="broker_id")
_SUBJECT: Final = _fields(subject="subject")
_ROLE: Final = _fields(role="name")
_BINDING: Final = _fields(binding="binding_id", scope="scope", resource="resource_name")
_OPERATIONS: Final[dict[str, tuple[Declaration, _Arguments]]] = {
    "ListBrokers": (BrokerOperations.list, _none),
    "GetLeaderBroker": (BrokerOperations.list, _none),
    "UnloadBroker": (BrokerOperations.drain, _BROKER),
    "ActivateBroker": (BrokerOperations.activate, _BROKER),
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
    "Unsubscribe": (SubscriptionOperations.delete, _subscription),
    "SetSubscriptionFailurePolicy": (SubscriptionOperations.policy, _dead_letters),
    "GetSubscriptionFailurePolicy": (SubscriptionOperations.describe, _subscription),
    "SetSubscriptionDispatchConfig": (SubscriptionOperations.dispatch, _dispatch),
    "GetSubscriptionDispatchConfig": (SubscriptionOperations.dispatch, _subscription),
    "ClusterStatus": (ClusterOperations.describe, _none),
    "GetClusterBalance": (BalanceOperations.show, _none),
    "TriggerRebalance": (BalanceOperations.rebalance, _fields(dry_run="dry_run")),
    "CreateRole": (RoleOperations.create, _new_role),
    "GetRole": (RoleOperations.describe, _ROLE),
    "ListRoles": (RoleOperations.list, _none),
    "DeleteRole": (RoleOperations.delete, _ROLE),
    "CreateBinding": (BindingOperations.create, _new_binding),
    "GetBinding": (BindingOperations.describe, _BINDING),
    "ListBindings": (BindingOperations.list, _fields(scope="scope", resource="resource_name")),
    "ListAllBindings": (BindingOperations.list, _none),
    "DeleteBinding": (BindingOperations.delete, _BINDING),
    "RegisterSchema": (SchemaOperations.register, _SUBJECT),
    "GetSchema": (SchemaOperations.lookup, _fields(id="schema_id")),
    "GetLatestSchema": (SchemaOperations.get, _SUBJECT),
    "ListVersions": (SchemaOperations.versions, _SUBJECT),
    "ListSubjects": (SchemaOperations.list, _none),
    "CheckCompatibility": (SchemaOperations.check, _SUBJECT),
    "DeleteSchemaVersion": (SchemaOperations.delete, _fields(subject="subject", version="version")),
    "SetCompatibilityMode": (
        SchemaOperations.compatibility,
        _fields(subject="subject", compatibility="compatibility_mode"),
    ),
    "ConfigureTopicSchema": (SchemaOperations.bind, _topic("topic_name")),
    "UpdateTopicValidationPolicy": (SchemaOperations.bind, _topic("topic_name")),
    "GetTopicSchemaConfig": (SchemaOperations.topic, _topic("topic_name")),
}


def operation_of(method: str, request: Any) -> tuple[str, dict[str, Any]]:
    """The operation's name, and those of its arguments that say what it is about.

    Raises ``BadRequest`` for invalid names.
    """
    if method not in _OPERATIONS:
        return method, {}
    operation, arguments = _OPERATIONS[method]
    return operation.name, arguments(request)
