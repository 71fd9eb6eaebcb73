"""The rights that a token gives. Every door checks them before it acts."""

from __future__ import annotations

import re
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from broker_containers.security.errors import Denied
from sulina.audit import TOPIC as AUDIT_TOPIC
from sulina.metadata.keys.auth import Grant
from sulina.model import EVERYTHING, Action
from sulina.names import MAX_PARTITIONS, TopicName

_REMEMBERED: Final = 1_000
_READ_ACTIONS: Final = (None, Action.LOOKUP, Action.CONSUME)
_PARTITION: Final = re.compile(r"-part-(0|[1-9][0-9]{0,4})")


@dataclass(frozen=True, slots=True)
class Need:
    """The right that an operation requires. Without an action, any right on the topic is enough;
    without a scope, any valid token is."""

    action: Action | None = None
    scope: str = ""
    instead: Action | None = None
    """An alternative right."""

    def __str__(self) -> str:
        action = "any right" if self.action is None else self.action.value
        return f"{action} on {'everything' if self.scope == EVERYTHING else self.scope}"


def of_topic(action: Action | None, topic: TopicName | str) -> Need:
    """A right on one topic."""
    return Need(action, str(topic))


class Access:
    """The rights of one principal at one time; get a new one when they change."""

    def __init__(self, principal: str, grants: tuple[Grant, ...], until_us: int = 0) -> None:
        self.principal = principal
        self.grants = grants
        self.until_us = until_us
        """When the token expires; 0 for never."""
        self._allowed: set[Need] = set()

    def allows(self, need: Need) -> bool:
        """Whether the rights include ``need``."""
        if need in self._allowed:
            return True
        if need.scope == AUDIT_TOPIC and need.action not in _READ_ACTIONS:
            return False
        if need.scope and not any(_covers(grant, need) for grant in self.grants):
            return False
        if len(self._allowed) < _REMEMBERED:
            self._allowed.add(need)
        return True

    def check(self, need: Need) -> None:
        """Raise ``Denied``, with the missing right, unless ``allows``."""
        if not self.allows(need):
            if need.scope == AUDIT_TOPIC and need.action not in _READ_ACTIONS:
                raise Denied(
                    f"{AUDIT_TOPIC} is the audit trail, which only brokers write: use another topic"
                )
            raise Denied(
                f"{self.principal!r} may not do this: it needs {need}. "
                f"`sulina security grant {self.principal} "
                f"{need.action or Action.LOOKUP}:{need.scope}` grants it"
            )

    def same_as(self, other: Access) -> bool:
        """Whether both give the same rights for the same time."""
        return (self.principal, self.grants, self.until_us) == (
            other.principal,
            other.grants,
            other.until_us,
        )

    @property
    def limited_as(self) -> str:
        """The principal whose quotas apply; empty for brokers, and without authentication."""
        return "" if self.is_root else self.principal

    @property
    def is_root(self) -> bool:
        """Whether it belongs to the root token, which other brokers use."""
        return self is ROOT or self is ANYONE


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes an administrative call, and how it reaches the broker."""

    access: Access
    door: str
    """``binary``, ``http``, ``danube`` or ``danube_admin``."""
    address: str
    """Of the peer: an IP address and, where it is known, a port."""


ROOT: Final = Access("root", (Grant(Action.ADMIN, EVERYTHING),))
UNIDENTIFIED: Final = Access("unidentified", ())
"""Before a client has sent its token."""
ANYONE: Final = Access("anyone", (Grant(Action.ADMIN, EVERYTHING),))
"""Without authentication."""


ACTING: Final[ContextVar[Access]] = ContextVar("acting", default=ROOT)
"""The rights of the caller for whom an operation runs; the broker's own calls have all."""

_LOOKS: Final = frozenset(
    {Action.LOOKUP, Action.PRODUCE, Action.CONSUME, Action.TOPICS, Action.ADMIN}
)
"""A grant of one of these on a topic allows looking it up."""


def _covers(grant: Grant, need: Need) -> bool:
    if need.action is None:
        enough = grant.action in _LOOKS
    else:
        enough = grant.action in (need.action, need.instead, Action.ADMIN)
    if not enough:
        return False
    if grant.scope == EVERYTHING:
        return True
    if need.scope == EVERYTHING:
        return False
    if need.action is Action.SCHEMAS and grant.action is not Action.SCHEMAS:
        return False  # a subject belongs to no namespace, although its name may look like it
    if grant.scope.endswith("/*"):
        return need.scope.startswith(grant.scope[:-1])
    if grant.action is Action.SCHEMAS:
        return grant.scope == need.scope
    if grant.scope == need.scope:
        return True
    # Only names that partitions have: -part-007 is a topic of its own.
    found = _PARTITION.fullmatch(need.scope.removeprefix(grant.scope))
    return found is not None and int(found[1]) < MAX_PARTITIONS
