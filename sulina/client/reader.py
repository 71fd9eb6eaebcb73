"""Reads a topic without a subscription, for inspection rather than processing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sulina.client.message import Batch
from sulina.client.topics import TopicLookup
from sulina.client.translate import start_to_wire
from sulina.errors import CorruptFrame, Refused
from sulina.model import Start
from sulina.names import TopicName
from sulina.wire import commands_pb2 as pb
from sulina.wire import selection
from sulina.wire.commands import Command
from sulina.wire.decode import Frame
from sulina.wire.header import MAX_RECORDS, parse_header


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The result of ``Client.read``: batches in order. Iterate over it for the batches.

    ``len()`` is the number of records in all batches.
    """

    batches: tuple[Batch, ...]
    next_offset: int
    """The offset to continue from."""
    at_end: bool
    """Whether the topic ended at ``next_offset`` when the broker answered."""

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.batches)

    def __len__(self) -> int:
        return sum(map(len, self.batches))


async def read_once(
    topics: TopicLookup, topic: str, start: Start, max_records: int, max_bytes: int
) -> ReadResult:
    """Read once, and cut the frames to the requested records."""
    info = await topics.describe(topic)
    if info.partitions:
        raise Refused(
            f"{topic} is partitioned: read one of its partitions, for example {info.partitions[0]}"
        )
    return await read_part(topics, topic, start, max_records, max_bytes)


async def read_part(
    topics: TopicLookup, topic: str, start: Start, max_records: int, max_bytes: int
) -> ReadResult:
    """The same for a name that is known not to be partitioned."""
    read = await read_frames(topics, topic, start, min(max_records, MAX_RECORDS), max_bytes)
    part_of = TopicName.parse(topic).partition_of
    partition = None if part_of is None else part_of[1]
    batches: list[Batch] = []
    left = max_records
    for frame in map(Frame, read.frames):
        batch = Batch(frame, topic, partition)
        batch = batch.narrowed(_wanted(batch, start))
        if len(batch) > left:
            meant = selection.whole(frame.count) if batch.mask is None else batch.mask
            batch = batch.narrowed(selection.lowest(meant, left))
            batches.append(batch)
            return ReadResult(tuple(batches), batch.offsets[-1] + 1, at_end=False)
        left -= len(batch)
        if len(batch):
            batches.append(batch)
        if not left:
            next_offset = frame.header.next_offset
            at_end = read.at_end and next_offset == read.next_offset
            return ReadResult(tuple(batches), next_offset, at_end)
    return ReadResult(tuple(batches), read.next_offset, read.at_end)


@dataclass(frozen=True, slots=True)
class StoredFrames:
    """The result of ``Client.read_frames``: frames as they are stored, in order, and unchecked.

    The first one may begin before the offset that was asked for.
    """

    frames: tuple[memoryview, ...]
    next_offset: int
    """The offset to continue from."""
    at_end: bool
    """Whether the topic ended at ``next_offset`` when the broker answered."""


async def read_frames(
    topics: TopicLookup, topic: str, start: Start, max_frames: int, max_bytes: int
) -> StoredFrames:
    """Frames of a name that is known not to be partitioned; control frames are left out."""
    connection = await topics.owner(topic)
    body = pb.ReadFrames(
        topic=topic, start=start_to_wire(start), max_frames=max_frames, max_bytes=max_bytes
    )
    incoming, read = await connection.request(Command.READ_FRAMES, body, pb.FramesRead)
    return StoredFrames(tuple(_frames(incoming.data)), read.next_offset, read.at_end)


def _frames(data: memoryview) -> Iterator[memoryview]:
    while data:
        header = parse_header(data)
        if header.size > len(data):
            raise CorruptFrame("the broker's answer ends in the middle of a frame")
        if not header.is_control:
            yield data[: header.size]
        data = data[header.size :]


def _wanted(batch: Batch, start: Start) -> int:
    """A mask of the records from ``start`` on; a frame may begin before it."""
    frame = batch.frame
    everything = selection.whole(frame.count)
    if start.kind == "offset":
        before = min(max(start.value - frame.header.base_offset, 0), frame.count)
    elif start.kind == "time":
        late = [index for index, time in enumerate(frame.times) if time >= start.value]
        before = late[0] if late else frame.count
    else:
        before = 0
    return everything >> before << before
