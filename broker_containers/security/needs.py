"""What each administrative method takes, whichever door it comes through.

A method that is not named here is for administrators of the whole cluster: whoever adds one decides
about it, or nobody else can call it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker_containers.arguments import FORWARDED, Arguments
from broker_containers.security.access import (
    BROKERS,
    CLUSTER,
    SIGNED_IN,
    Access,
    Need,
    of_namespace,
    of_topic,
    topics_of_namespace,
)
from broker_containers.security.errors import Denied
from sulina.metadata.keys.auth import EVERYTHING, Action

_Rule = Callable[[Arguments], list[Need]]


def _topic(action: Action | None) -> _Rule:
    return lambda arguments: [of_topic(action, _text(arguments, "topic"))]


def _changing(rule: _Rule, *reading: str) -> _Rule:
    """For methods that read if nothing but ``reading`` is given: then any right there does."""

    def needs(arguments: Arguments) -> list[Need]:
        found = rule(arguments)
        if set(arguments) <= {*reading, FORWARDED}:
            return [Need(None, need.scope) for need in found]
        return found

    return needs


def _namespace(arguments: Arguments) -> list[Need]:
    return [of_namespace(_text(arguments, "namespace"))]


def _listing(arguments: Arguments) -> list[Need]:
    if arguments.get("namespace"):
        return [topics_of_namespace(_text(arguments, "namespace"))]
    return [Need(Action.TOPICS, EVERYTHING)]


def _namespaces(_: Arguments) -> list[Need]:
    return [Need(Action.NAMESPACES, EVERYTHING)]


def _brokers(_: Arguments) -> list[Need]:
    return [BROKERS]


def _unsubscribing(arguments: Arguments) -> list[Need]:
    """For its consumers, and for who looks after the topic."""
    return [Need(Action.CONSUME, _text(arguments, "topic"), instead=Action.TOPICS)]


def _subject(arguments: Arguments) -> list[Need]:
    return [Need(Action.SCHEMAS, _text(arguments, "subject"))]


def _dead_letters(arguments: Arguments) -> list[Need]:
    """Whoever lets messages go to a topic publishes there."""
    found = [of_topic(Action.TOPICS, _text(arguments, "topic"))]
    if arguments.get("dead_letter_topic"):
        found.append(of_topic(Action.PRODUCE, _text(arguments, "dead_letter_topic")))
    return found


def _text(arguments: Arguments, name: str) -> str:
    """As it is given; what it says is checked by who acts upon it. Missing: nothing covers it."""
    value = arguments.get(name)
    return value if isinstance(value, str) and value else EVERYTHING


def _anybody(_: Arguments) -> list[Need]:
    return [SIGNED_IN]


_RULES: Final[dict[str, _Rule]] = {
    "topic.create": _topic(Action.TOPICS),
    "topic.delete": _topic(Action.TOPICS),
    "topic.move": _topic(Action.TOPICS),
    "topic.policy": _changing(_topic(Action.TOPICS), "topic"),
    "topic.describe": _topic(None),
    "topic.log": _topic(None),
    "topic.ledgers": _topic(None),
    "topic.lookup": _topic(None),
    "ledger.list": _topic(None),
    "ledger.offload": _topic(Action.TOPICS),
    "ledger.verify": _topic(Action.TOPICS),
    "topic.list": _listing,
    "subscription.list": _topic(None),
    "subscription.describe": _topic(None),
    "subscription.create": _topic(Action.CONSUME),
    "subscription.delete": _unsubscribing,
    "subscription.seek": _topic(Action.CONSUME),
    "subscription.policy": _dead_letters,
    "subscription.dispatch": _changing(_topic(Action.TOPICS), "topic", "subscription"),
    "messages.publish": _topic(Action.PRODUCE),
    "messages.peek": _topic(Action.CONSUME),
    "broker.list": _brokers,
    "broker.drain": _brokers,
    "broker.activate": _brokers,
    "namespace.list": _namespaces,
    "namespace.create": _namespace,
    "namespace.delete": _namespace,
    "namespace.describe": _namespace,
    "namespace.policy": _namespace,
    "schema.list": _anybody,
    "schema.get": _anybody,
    "schema.lookup": _anybody,
    "schema.versions": _anybody,
    "schema.check": _anybody,
    "schema.find": _anybody,
    "schema.register": _subject,
    "schema.delete": _subject,
    "schema.compatibility": _subject,
    "schema.topic": _topic(None),
    "schema.bind": _topic(Action.TOPICS),
}


def check_method(access: Access, method: str, arguments: Arguments) -> None:
    """Raise ``Denied`` unless this method may be called with these arguments."""
    if FORWARDED in arguments and not access.is_root:
        raise Denied(f"{FORWARDED} is what brokers say to each other: leave it out")
    rule = _RULES.get(method)
    for need in [CLUSTER] if rule is None else rule(arguments):
        access.check(need)
