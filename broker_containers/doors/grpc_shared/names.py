"""Checks names in requests of Danube's clients and tools."""

from __future__ import annotations

from functools import lru_cache

from sulina.errors import Refused
from sulina.names import TopicName, check_label, check_namespace


class BadRequest(Refused):
    """The request is invalid, whatever the state of the cluster."""


@lru_cache(maxsize=4096)
def topic_name(name: str) -> TopicName:
    """A topic's name; the leading slash is optional. Raises ``BadRequest``."""
    try:
        return TopicName.parse(name if name.startswith("/") else f"/{name}")
    except Refused as error:
        raise BadRequest(str(error)) from None


def namespace_name(name: str) -> str:
    """A namespace. Raises ``BadRequest``."""
    try:
        return check_namespace(name)
    except Refused as error:
        raise BadRequest(str(error)) from None


def label(what: str, name: str) -> str:
    """A producer's, consumer's or subscription's name. Raises ``BadRequest``."""
    try:
        return check_label(what, name)
    except Refused as error:
        raise BadRequest(str(error)) from None
