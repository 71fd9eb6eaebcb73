"""Discovery, StorageService and AuthService: what clients ask besides messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker_containers.broker import Broker
from broker_containers.doors.danube import danube_pb2 as pb
from broker_containers.doors.danube.calls import Unary
from broker_containers.doors.danube.partitions import partitions_of
from broker_containers.doors.danube.places import Places, topic_record
from broker_containers.doors.danube.statuses import Context, topic_name
from sulina.metadata.keys import ledgers

_MICROSECONDS: Final = 1_000_000


class Discovery:
    """Where topics are, and which partitions they have."""

    def __init__(self, broker: Broker, places: Places) -> None:
        self._broker = broker
        self._places = places

    def calls(self) -> Mapping[str, Unary]:
        return {"TopicLookup": self.lookup, "TopicPartitions": self.partitions}

    async def lookup(self, request: pb.TopicLookupRequest, _: Context) -> pb.TopicLookupResponse:
        answer = await self._places.lookup(topic_name(request.topic))
        answer.request_id = request.request_id
        return answer

    async def partitions(
        self, request: pb.TopicLookupRequest, _: Context
    ) -> pb.TopicPartitionsResponse:
        names = await partitions_of(self._broker, topic_name(request.topic))
        return pb.TopicPartitionsResponse(request_id=request.request_id, partitions=names)


class StorageService:
    """What is stored of a topic for good: its closed ledgers, as segments."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def calls(self) -> Mapping[str, Unary]:
        return {"ListSegmentDescriptors": self.list}

    async def list(
        self, request: pb.ListSegmentDescriptorsRequest, _: Context
    ) -> pb.ListSegmentDescriptorsResponse:
        topic = topic_name(request.topic)
        await topic_record(self._broker, topic)
        stored = await ledgers.get(self._broker.store, topic)
        segments = [
            pb.SegmentDescriptorProto(
                segment_id=f"ledger-{ledger.id}",
                start_offset=ledger.first_offset,
                end_offset=ledger.last_offset,
                size=ledger.bytes,
                etag=f"{ledger.id}-{ledger.last_entry}",
                created_at=ledger.first_time_us // _MICROSECONDS,
            )
            for ledger in stored.list.ledgers
            if ledger.last_offset is not None
            and ledger.last_offset >= max(ledger.first_offset, request.after_offset)
        ]
        return pb.ListSegmentDescriptorsResponse(segments=segments)


class AuthService:
    """Older clients exchange a key for a token before anything else.

    The broker asks nobody who they are, so any key will do and the token says nothing.
    """

    def calls(self) -> Mapping[str, Unary]:
        return {"Authenticate": self.authenticate}

    async def authenticate(self, request: pb.AuthRequest, _: Context) -> pb.AuthResponse:
        return pb.AuthResponse(token="anonymous")
