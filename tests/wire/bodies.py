"""A body for every command, with every field used."""

from __future__ import annotations

from google.protobuf.message import Message

from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import Command

_ERROR = pb.Error(kind=pb.STORAGE_FULL, message="the disk is full: make room")
_START = pb.Start(time_us=1_750_000_000_000_000)
_SELECTIONS = [pb.Selection(first=5, last=9), pb.Selection(first=70, last=99, mask=b"\x81\x02")]
_POLICY = pb.FailurePolicy(
    max_redelivery_count=3,
    ack_timeout_ms=1000,
    base_redelivery_delay_ms=10,
    max_redelivery_delay_ms=100,
    fixed_backoff=True,
    poison=pb.FailurePolicy.DEAD_LETTER,
    dead_letter_topic="/default/dead",
)

EXAMPLES: dict[Command, Message] = {
    Command.CONNECT: pb.Connect(protocol=1, client="test", token="secret"),
    Command.CONNECTED: pb.Connected(protocol=1, server="s", broker_id="b", max_frame_bytes=1 << 20),
    Command.PING: pb.Ping(),
    Command.PONG: pb.Pong(),
    Command.ERROR: _ERROR,
    Command.DONE: pb.Done(),
    Command.LOOKUP: pb.Lookup(topic="/default/t", create=True, delivery=pb.NON_RELIABLE),
    Command.LOOKUP_RESULT: pb.LookupResult(topic="/default/t", partitions=3, url="sulina://x:1"),
    Command.CREATE_PRODUCER: pb.CreateProducer(topic="/default/t", name="p", exclusive=True),
    Command.PRODUCER_CREATED: pb.ProducerCreated(producer=1, name="p", last_sequence=-1),
    Command.PUBLISH: pb.Publish(producer=1, number=2),
    Command.PUBLISHED: pb.Published(producer=1, first_number=2, base_offsets=[7, -1, 9]),
    Command.PUBLISH_FAILED: pb.PublishFailed(producer=1, number=2, error=_ERROR),
    Command.CLOSE_PRODUCER: pb.CloseProducer(producer=1),
    Command.PRODUCER_CLOSED: pb.ProducerClosed(producer=1, error=_ERROR),
    Command.SUBSCRIBE: pb.Subscribe(
        topic="/default/t",
        subscription="s",
        type=pb.KEY_SHARED,
        consumer="c",
        start=_START,
        key_filters=["a*", "b?"],
        failure_policy=_POLICY,
    ),
    Command.SUBSCRIBED: pb.Subscribed(consumer=1, name="c", active=True),
    Command.FLOW: pb.Flow(consumer=1, records=1000, bytes=1 << 20),
    Command.DELIVER: pb.Deliver(consumer=1, selection=b"\x05", attempt=2),
    Command.ACK: pb.Ack(consumer=1, selections=_SELECTIONS, cumulative=True),
    Command.NACK: pb.Nack(consumer=1, selections=_SELECTIONS, delay_ms=5, reason="busy"),
    Command.SEEK: pb.Seek(consumer=1, start=pb.Start(earliest=True)),
    Command.UNSUBSCRIBE: pb.Unsubscribe(consumer=1),
    Command.CLOSE_CONSUMER: pb.CloseConsumer(consumer=1),
    Command.CONSUMER_CLOSED: pb.ConsumerClosed(consumer=1, error=_ERROR),
    Command.ACTIVE_CHANGED: pb.ActiveChanged(consumer=1, active=True),
    Command.READ_FRAMES: pb.ReadFrames(topic="/default/t", start=_START, max_frames=1, max_bytes=9),
    Command.FRAMES_READ: pb.FramesRead(next_offset=77, at_end=True),
    Command.ADMIN: pb.Admin(method="topics", arguments=b"{}"),
    Command.ADMIN_RESULT: pb.AdminResult(result=b"[]"),
}
BODIES = {command: type(body) for command, body in EXAMPLES.items()}
