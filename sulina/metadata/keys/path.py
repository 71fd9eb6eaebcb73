"""How keys are made from names: every part is escaped, every prefix ends with ``/``.

So ``/topics/default/foo/`` covers what belongs to the topic foo and nothing of foobar, and a
subscription may have a slash in its name.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from sulina.errors import Refused
from sulina.names import TopicName

NAMESPACES = "/namespaces/"
TOPICS = "/topics/"
STATE = "/state/"


def part(name: str) -> str:
    """A name as one part of a key. ``name_of`` gives it back."""
    try:
        return quote(name, safe="", errors="strict")
    except UnicodeEncodeError:
        raise Refused(f"{name!r} can't be a name: it is not valid Unicode") from None


def name_of(text: str) -> str:
    """The name that ``part`` made a part of a key from."""
    return unquote(text, errors="strict")


def namespace_root(namespace: str) -> str:
    """The prefix of everything about a namespace itself."""
    return f"{NAMESPACES}{part(namespace)}/"


def topics_root(namespace: str) -> str:
    """The prefix of everything about the topics of a namespace."""
    return f"{TOPICS}{part(namespace)}/"


def topic_root(topic: TopicName) -> str:
    """The prefix of what a topic is and has: what every broker wants to know."""
    return f"{topics_root(topic.namespace)}{part(topic.local)}/"


def state_root(topic: TopicName) -> str:
    """The prefix of where a topic stands, which only its owner wants to know.

    It changes all the time, so it is kept apart from what all brokers watch.
    """
    return f"{STATE}{part(topic.namespace)}/{part(topic.local)}/"
