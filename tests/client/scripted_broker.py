"""A peer that speaks the protocol and does what a test tells it: for the paths of retry.

It stores nothing durably and decides nothing; what the real broker does is tested with the real
one. Frames are kept in memory a topic, with the sequences that were seen, as a broker would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message as Body

from sulina.errors import ProtocolError, SulinaError
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import Command, Incoming, error_body
from sulina.wire.header import assign, check_frame
from sulina.wire.stream import CommandStream

LIMIT = 80 << 20


class ScriptedBroker:
    """All connections share its state. ``publishing`` decides about each frame: None stores and
    acknowledges it, an error refuses it, "silence" stores it and says nothing."""

    def __init__(self) -> None:
        self.peers: list[ScriptedPeer] = []
        self.partitions: dict[str, int] = {}
        self.stored: dict[str, list[bytes]] = {}
        self.last_sequence: dict[tuple[str, int], int] = {}
        self.seen: list[Incoming] = []
        self.publishing: Callable[[int], SulinaError | str | None] = lambda number: None
        self.answers: dict[Command, list[SulinaError]] = {}
        self.silent: set[Command] = set()
        self.urls: dict[str, str] = {}
        self.id = ""

    def accept(self) -> CommandStream:
        return ScriptedPeer(self).stream

    def bodies(self, command: Command) -> list[Any]:
        """The bodies of all commands of this kind that came."""
        return [incoming.body for incoming in self.seen if incoming.command is command]

    def records(self, topic: str) -> int:
        return sum(check_frame(frame).count for frame in self.stored.get(topic, []))

    def store(self, topic: str, data: memoryview) -> int:
        """The frame's base offset, or -1 if its sequence was stored before."""
        header = check_frame(data)
        key = (topic, header.producer_id)
        if header.last_sequence <= self.last_sequence.get(key, -1):
            return -1
        base = self.records(topic)
        frame = bytearray(data)
        assign(frame, base, 1)
        self.stored.setdefault(topic, []).append(bytes(frame))
        self.last_sequence[key] = header.last_sequence
        return base

    @property
    def peer(self) -> ScriptedPeer:
        """The newest connection."""
        return self.peers[-1]


class ScriptedPeer:
    """The broker's side of one connection."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker
        self.stream = CommandStream(self, LIMIT)
        self.producers: dict[int, pb.CreateProducer] = {}
        self.consumers: dict[int, pb.Subscribe] = {}

    def connected(self, stream: CommandStream) -> None:
        self.broker.peers.append(self)

    def lost(self, reason: Exception | None) -> None:
        pass

    def writable_again(self) -> None:
        pass

    def broke_protocol(self, error: ProtocolError) -> None:
        raise AssertionError(f"the client broke the protocol: {error}")

    def send(self, command: Command, body: Body, *data: bytes | memoryview) -> None:
        self.stream.send(command, 0, body, *data)

    def deliver(self, frame: bytes, *, selection: bytes = b"", attempt: int = 1) -> None:
        """To the consumer that came last."""
        body = pb.Deliver(consumer=max(self.consumers), selection=selection, attempt=attempt)
        self.send(Command.DELIVER, body, frame)

    def received(self, incoming: Incoming) -> None:
        command, request, body = incoming.command, incoming.request, incoming.body
        self.broker.seen.append(incoming)
        if command in self.broker.silent:
            return
        errors = self.broker.answers.get(command)
        if errors:
            self.stream.send(Command.ERROR, request, error_body(errors.pop(0)))
            return
        if isinstance(body, pb.Connect):
            hello = pb.Connected(protocol=1, broker_id=self.broker.id)
            self.stream.send(Command.CONNECTED, request, hello)
        elif isinstance(body, pb.Ping):
            self.stream.send(Command.PONG, request, pb.Pong())
        elif isinstance(body, pb.Lookup):
            result = pb.LookupResult(
                topic=body.topic,
                partitions=self.broker.partitions.get(body.topic, 0),
                delivery=body.delivery,
                url=self.broker.urls.get(body.topic, ""),
            )
            self.stream.send(Command.LOOKUP_RESULT, request, result)
        elif isinstance(body, pb.CreateProducer):
            self._create_producer(request, body)
        elif isinstance(body, pb.Publish):
            self._publish(body, incoming.data)
        elif isinstance(body, pb.Subscribe):
            handle = len(self.consumers) + 1
            self.consumers[handle] = body
            answer = pb.Subscribed(consumer=handle, name=body.consumer, active=True)
            self.stream.send(Command.SUBSCRIBED, request, answer)
        elif request:
            self.stream.send(Command.DONE, request, pb.Done())

    def _create_producer(self, request: int, body: pb.CreateProducer) -> None:
        from sulina.wire.encode import producer_id

        handle = len(self.producers) + 1
        self.producers[handle] = body
        last = self.broker.last_sequence.get((body.topic, producer_id(body.name)), -1)
        answer = pb.ProducerCreated(
            producer=handle, name=body.name, last_sequence=last, max_delay_ms=86_400_000
        )
        self.stream.send(Command.PRODUCER_CREATED, request, answer)

    def _publish(self, body: pb.Publish, data: memoryview) -> None:
        verdict = self.broker.publishing(body.number)
        if isinstance(verdict, SulinaError):
            failed = pb.PublishFailed(
                producer=body.producer, number=body.number, error=error_body(verdict)
            )
            self.send(Command.PUBLISH_FAILED, failed)
            return
        base = self.broker.store(self.producers[body.producer].topic, data)
        if verdict is None:
            published = pb.Published(
                producer=body.producer, first_number=body.number, base_offsets=[base]
            )
            self.send(Command.PUBLISHED, published)
