"""Maps Danube's permissions to grants.

A permission never grants more than its name says. At a scope where its name has no meaning, it
grants nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sulina.metadata.keys.auth import Grant
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
    # Replicate is missing: clusters do not replicate to each other.
}


def grants_of(permissions: Iterable[Permission], reach: Reach) -> tuple[Grant, ...]:
    """The grants of a role with these permissions, within the reach of a binding."""
    found = (_MEANING[each] for each in permissions if each in _MEANING)
    return tuple(
        Grant(action, _where(reach))
        for action, scopes in found
        if reach.scope in scopes and (action is Action.SCHEMAS or not _is_subject(reach))
    )


def _where(reach: Reach) -> str:
    if reach.scope is BindingScope.CLUSTER:
        return EVERYTHING
    return f"/{reach.resource}/*" if reach.scope is BindingScope.NAMESPACE else reach.resource


def _is_subject(reach: Reach) -> bool:
    return reach.scope is BindingScope.TOPIC and not reach.resource.startswith("/")
