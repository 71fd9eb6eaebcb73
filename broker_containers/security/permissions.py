"""Maps Danube's permissions to grants.

A permission never grants more than its name says. At a scope where its name has no meaning, it
grants nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sulina.metadata.keys.auth import SUBSCRIPTION_ACTIONS, Grant, limited_topic
from sulina.metadata.keys.bindings import BindingScope, Reach
from sulina.metadata.keys.roles import Permission
from sulina.model import EVERYTHING, Action

_MEANING: Final[dict[Permission, tuple[Action, frozenset[BindingScope]]]] = {
    Permission.LOOKUP: (Action.LOOKUP, frozenset(BindingScope)),
    Permission.PRODUCE: (Action.PRODUCE, frozenset(BindingScope)),
    Permission.CONSUME: (Action.CONSUME, frozenset(BindingScope)),
    Permission.MANAGE_TOPIC: (Action.TOPICS, frozenset(BindingScope)),
    Permission.MANAGE_SCHEMA: (Action.SCHEMAS, frozenset(BindingScope)),
    # Topics contain no namespaces; neither topics nor namespaces contain brokers.
    Permission.MANAGE_NAMESPACE: (
        Action.NAMESPACES,
        frozenset({BindingScope.CLUSTER, BindingScope.NAMESPACE}),
    ),
    Permission.MANAGE_BROKER: (Action.BROKERS, frozenset({BindingScope.CLUSTER})),
    Permission.MANAGE_CLUSTER: (Action.CLUSTER, frozenset({BindingScope.CLUSTER})),
    # Replicate is missing: clusters do not replicate to each other, and edge gateways produce.
}


def grants_of(permissions: Iterable[Permission], reach: Reach) -> tuple[Grant, ...]:
    """The grants of a role with these permissions, within the reach of a binding."""
    found = (_MEANING[each] for each in permissions if each in _MEANING)
    return tuple(
        Grant(action, _where(reach))
        for action, scopes in found
        if reach.scope in scopes and _applies(action, reach)
    )


def _where(reach: Reach) -> str:
    if reach.scope is BindingScope.CLUSTER:
        return EVERYTHING
    return f"/{reach.resource}/*" if reach.scope is BindingScope.NAMESPACE else reach.resource


def _applies(action: Action, reach: Reach) -> bool:
    if reach.scope is not BindingScope.TOPIC:
        return True
    if not reach.resource.startswith("/"):
        return action is Action.SCHEMAS  # a subject
    return action in SUBSCRIPTION_ACTIONS or not limited_topic(reach.resource)[1]
