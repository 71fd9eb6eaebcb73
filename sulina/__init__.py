"""Sulina: durable publish/subscribe messaging.

>>> async with sulina.connect("sulina://127.0.0.1:6655") as client:
...     async with client.producer("/default/orders") as producer:
...         message_id = await (await producer.send(b"an order"))
...     async with client.consumer("/default/orders", "billing") as consumer:
...         async for message in consumer:
...             await consumer.ack(message)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sulina.errors import (
    AlreadyExists,
    Closed,
    CorruptFrame,
    Fenced,
    NotFound,
    Overloaded,
    ProtocolError,
    Refused,
    Retriable,
    SignInNeeded,
    StorageFull,
    SulinaError,
    TooLarge,
    Unavailable,
    UnknownOutcome,
)
from sulina.model import Backoff, Delivery, FailurePolicy, Poison, Start, SubscriptionType
from sulina.version import __version__

if TYPE_CHECKING:
    from sulina.client.client import Client, connect
    from sulina.client.consumer import Consumer
    from sulina.client.login import stored_login
    from sulina.client.message import Batch, Message
    from sulina.client.producer import Producer
    from sulina.client.reader import ReadResult
    from sulina.client.table import Change, Table
    from sulina.client.tickets import MessageId, Ticket
    from sulina.client.topics import TopicInfo
    from sulina.client.typed import TypedConsumer, TypedMessage, TypedProducer

__all__ = [
    "AlreadyExists",
    "Backoff",
    "Batch",
    "Change",
    "Client",
    "Closed",
    "Consumer",
    "CorruptFrame",
    "Delivery",
    "FailurePolicy",
    "Fenced",
    "Message",
    "MessageId",
    "NotFound",
    "Overloaded",
    "Poison",
    "Producer",
    "ProtocolError",
    "ReadResult",
    "Refused",
    "Retriable",
    "SignInNeeded",
    "Start",
    "StorageFull",
    "SubscriptionType",
    "SulinaError",
    "Table",
    "Ticket",
    "TooLarge",
    "TopicInfo",
    "TypedConsumer",
    "TypedMessage",
    "TypedProducer",
    "Unavailable",
    "UnknownOutcome",
    "__version__",
    "connect",
    "stored_login",
]
_CLIENT_MODULES = {
    "client": ("Client", "connect"),
    "consumer": ("Consumer",),
    "login": ("stored_login",),
    "message": ("Batch", "Message"),
    "producer": ("Producer",),
    "reader": ("ReadResult",),
    "table": ("Change", "Table"),
    "tickets": ("MessageId", "Ticket"),
    "topics": ("TopicInfo",),
    "typed": ("TypedConsumer", "TypedMessage", "TypedProducer"),
}


def __getattr__(name: str) -> Any:
    """Import a part of the client when it is first used: servers and help texts need none."""
    for module, names in _CLIENT_MODULES.items():
        if name in names:
            return getattr(import_module(f"sulina.client.{module}"), name)
    raise AttributeError(f"module 'sulina' has no attribute {name!r}")
