"""Builds keys from names: every part is escaped, every prefix ends with ``/``.

So ``/topics/default/foo/`` covers the topic foo but not foobar, and a subscription may have a slash
in its name.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from sulina.errors import Refused
from sulina.names import TopicName

NAMESPACES = "/namespaces/"
TOPICS = "/topics/"
STATE = "/state/"


def part(name: str) -> str:
    """A name as one part of a key; ``name_of`` is the inverse."""
    try:
        return quote(name, safe="", errors="strict")
    except UnicodeEncodeError:
        raise Refused(f"{name!r} is not a valid name: it is not valid Unicode") from None


def name_of(text: str) -> str:
    """The name that ``part`` escaped."""
    return unquote(text, errors="strict")


def namespace_root(namespace: str) -> str:
    """The prefix of everything about a namespace itself."""
    return f"{NAMESPACES}{part(namespace)}/"


def topics_root(namespace: str) -> str:
    """The prefix of everything about the topics of a namespace."""
    return f"{TOPICS}{part(namespace)}/"


def topic_root(topic: TopicName) -> str:
    """The prefix of a topic's configuration, which every broker watches."""
    return f"{topics_root(topic.namespace)}{part(topic.local)}/"


def state_root(topic: TopicName) -> str:
    """The prefix of a topic's state, which only its owner reads.

    It changes often, so it is kept apart from what all brokers watch.
    """
    return f"{STATE}{part(topic.namespace)}/{part(topic.local)}/"
