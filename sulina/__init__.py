"""Sulina: durable publish/subscribe messaging.

>>> async with sulina.connect("sulina://127.0.0.1:6655") as client:
...     async with client.producer("/default/orders") as producer:
...         message_id = await (await producer.send(b"an order"))
...     async with client.consumer("/default/orders", "billing") as consumer:
...         async for message in consumer:
...             await consumer.ack(message)
"""

from __future__ import annotations

from sulina.client.client import Client, connect
from sulina.client.consumer import Consumer
from sulina.client.message import Batch, Message
from sulina.client.producer import Producer
from sulina.client.reader import ReadResult
from sulina.client.tickets import MessageId, Ticket
from sulina.client.topics import TopicInfo
from sulina.client.typed import TypedConsumer, TypedMessage, TypedProducer
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
    StorageFull,
    SulinaError,
    TooLarge,
    Unavailable,
    UnknownOutcome,
)
from sulina.model import Backoff, Delivery, FailurePolicy, Poison, Start, SubscriptionType
from sulina.version import __version__

__all__ = [
    "AlreadyExists",
    "Backoff",
    "Batch",
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
    "Start",
    "StorageFull",
    "SubscriptionType",
    "SulinaError",
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
]
