"""The rights that a token gives. Every door checks them before it acts."""

from __future__ import annotations

import re
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from broker_containers.security.errors import Denied
from sulina.audit import TOPIC as AUDIT_TOPIC
from sulina.metadata.keys.auth import Grant, with_subscription
from sulina.model import EVERYTHING, Action
from sulina.names import MAX_PARTITIONS, TopicName

_REMEMBERED: Final = 1_000
_READ_ACTIONS: Final = (None, Action.LOOKUP, Action.CONSUME)
_PARTITION: Final = re.compile(r"-part-(0|[1-9][0-9]{0,4})")
_LOOKS: Final = (Action.LOOKUP, Action.PRODUCE, Action.CONSUME, Action.TOPICS)
"""A grant of one of these on a topic, or of all actions, allows looking it up."""
_LISTS: Final = (Action.NAMESPACES, Action.BROKERS, Action.CLUSTER)
"""With one of these, lists and metrics name a topic although it can't be looked up."""


@dataclass(frozen=True, slots=True)
class Need:
    """The right that an operation requires. Without an action, any right on the topic is enough;
    without a scope, any valid token is."""

    action: Action | None = None
    scope: str = ""
    instead: Action | None = None
    """An alternative right."""
    subscription: str = ""
    """The subscription of the topic that it is about; empty for the whole topic."""

    def __str__(self) -> str:
        action = "any right" if self.action is None else self.action.value
        return f"{action} on {'everything' if self.scope == EVERYTHING else self.place}"

    @property
    def place(self) -> str:
        """The smallest scope that a grant for it may have."""
        return with_subscription(self.scope, self.subscription)

    @property
    def actions(self) -> tuple[Action, ...]:
        """Those of which one is enough."""
        if self.action is None:
            return _LOOKS
        return (self.action,) if self.instead is None else (self.action, self.instead)


def of_topic(action: Action | None, topic: TopicName | str, subscription: str = "") -> Need:
    """A right on one topic, or on one of its subscriptions."""
    return Need(action, str(topic), subscription=subscription)


class Access:
    """The rights of one principal at one time; get a new one when they change."""

    def __init__(
        self,
        principal: str,
        grants: tuple[Grant, ...],
        until_us: int = 0,
        denied: tuple[Grant, ...] = (),
    ) -> None:
        self.principal = principal
        self.grants = grants
        self.until_us = until_us
        """When the token expires; 0 for never."""
        self.denied = denied
        """Rules that win over the grants."""
        self.sees_all = not denied and not any(each.split_scope[1] for each in grants)
        """Whether it sees everything in the lists that it may read."""
        self._allowed: set[Need] = set()

    def allows(self, need: Need) -> bool:
        """Whether the rights include ``need``."""
        if need in self._allowed:
            return True
        if not self._permits(need):
            return False
        if len(self._allowed) < _REMEMBERED:
            self._allowed.add(need)
        return True

    def _permits(self, need: Need) -> bool:
        if not need.scope:
            return Grant(Action.ADMIN, EVERYTHING) not in self.denied
        if _only_brokers(need):
            return False
        if need.action is None and (
            self._denying(Action.LOOKUP, need) is not None
            or (need.scope == EVERYTHING and self.denied)  # everything includes what is denied
        ):
            return False
        return any(
            self._denying(action, need) is None
            and any(_covers(grant, action, need, looking=True) for grant in self.grants)
            for action in need.actions
        )

    def hides(self, scope: str) -> bool:
        """Whether a deny rule forbids looking up a topic, a namespace (``/shop/*``) or a subject.

        Then nothing may name it, whatever else is granted.
        """
        return self._denying(Action.LOOKUP, Need(None, scope)) is not None

    def sees(self, scope: str, subscription: str = "") -> bool:
        """Whether lists and metrics may name a topic, a namespace or a subscription of a topic."""
        if self.allows(of_topic(None, scope, subscription)):
            return True
        if subscription or self.hides(scope):
            return False
        return any(self.allows(Need(action, scope)) for action in _LISTS)

    def _denying(self, action: Action, need: Need) -> Grant | None:
        """The deny rule that refuses an action, or None."""
        return next((rule for rule in self.denied if _covers(rule, action, need)), None)

    def check(self, need: Need) -> None:
        """Raise ``Denied``, with the missing right or the deny rule, unless ``allows``."""
        if self.allows(need):
            return
        if _only_brokers(need):
            raise Denied(
                f"{AUDIT_TOPIC} is the audit trail, which only brokers write: use another topic"
            )
        may_not = f"{self.principal!r} may not do this: "
        for action in need.actions:
            rule = self._denying(action, need)
            if rule is not None:
                raise Denied(
                    f"{may_not}the rule deny:{rule} forbids it. `sulina security withdraw "
                    f"{self.principal} deny:{rule}` removes the rule"
                )
        raise Denied(
            f"{may_not}it needs {need}. `sulina security grant {self.principal} "
            f"{need.action or Action.LOOKUP}:{need.place}` grants it"
        )

    def same_as(self, other: Access) -> bool:
        """Whether both give the same rights for the same time."""
        return (self.principal, self.grants, self.until_us, self.denied) == (
            other.principal,
            other.grants,
            other.until_us,
            other.denied,
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
RESERVED_NAMES: Final = (ROOT.principal, UNIDENTIFIED.principal, ANYONE.principal)
"""Names that no identity from outside may have: they would mislead readers of the audit trail."""


ACTING: Final[ContextVar[Access]] = ContextVar("acting", default=ROOT)
"""The rights of the caller for whom an operation runs; the broker's own calls have all."""


USING: Final[ContextVar[Caller | None]] = ContextVar("using", default=None)
"""Whose request runs, for what follows from using topics; None for the broker itself."""


CREATING_FOR: Final[ContextVar[str | None]] = ContextVar("creating_for", default=None)
"""The principal for whom something is created if it is not the caller; empty for nobody."""


def creator() -> str | None:
    """The principal in whose quota what is created now counts; None for nobody."""
    named, user = CREATING_FOR.get(), USING.get()
    if named is None and user is not None:
        named = user.access.limited_as
    return named or None


def _only_brokers(need: Need) -> bool:
    return need.scope == AUDIT_TOPIC and need.action not in _READ_ACTIONS


def _covers(rule: Grant, action: Action, need: Need, *, looking: bool = False) -> bool:
    """Whether a grant or a deny rule is about all that ``need`` asks for, by one action of it.

    With ``looking``, a rule on a subscription is also about looking up its topic.
    """
    looking = looking and need.action is None and need.scope != EVERYTHING
    if rule.action not in (action, Action.ADMIN):
        return False
    scope, subscription = rule.split_scope
    if subscription and (need.subscription or not looking):
        if subscription.endswith("*"):
            if not need.subscription or not need.subscription.startswith(subscription[:-1]):
                return False
        elif subscription != need.subscription:
            return False
    if scope == EVERYTHING:
        return True
    if need.scope == EVERYTHING:
        return False
    if need.action is Action.SCHEMAS and rule.action is not Action.SCHEMAS:
        return False  # a subject belongs to no namespace, although its name may look like it
    if scope.endswith("/*"):
        return need.scope.startswith(scope[:-1])
    if rule.action is Action.SCHEMAS:
        return scope == need.scope
    if scope == need.scope:
        return True
    # Only names that partitions have: -part-007 is a topic of its own.
    found = _PARTITION.fullmatch(need.scope.removeprefix(scope))
    return found is not None and int(found[1]) < MAX_PARTITIONS


def author(claimed: str) -> str:
    """Whom to record for a change: the caller, whatever name it gives.

    Only the root token, and callers without authentication, may name somebody.
    """
    access = ACTING.get()
    if access is ANYONE:
        return claimed
    return claimed or access.principal if access.is_root else access.principal
