"""Discovery, StorageService and AuthService: calls that are not about messages."""

from __future__ import annotations

from typing import Final

from broker_containers.broker.broker import Broker
from broker_containers.doors.danube import danube_pb2 as pb
from broker_containers.doors.danube.partitions import partitions_of
from broker_containers.doors.danube.topic_locations import TopicLocations, topic_record
from broker_containers.doors.grpc_shared.callers import Callers, Context
from broker_containers.doors.grpc_shared.names import topic_name
from sulina.metadata.keys import ledgers
from sulina.model import Action

_MICROSECONDS: Final = 1_000_000


class Discovery:
    """Which broker serves a topic, and which partitions it has."""

    def __init__(self, broker: Broker, locations: TopicLocations, callers: Callers) -> None:
        self._broker = broker
        self._locations = locations
        self._callers = callers

    async def topic_lookup(
        self, request: pb.TopicLookupRequest, context: Context
    ) -> pb.TopicLookupResponse:
        topic = topic_name(request.topic)
        self._callers.check_topic(context, None, topic)
        answer = await self._locations.lookup(topic, context.head.host)
        answer.request_id = request.request_id
        return answer

    async def topic_partitions(
        self, request: pb.TopicLookupRequest, context: Context
    ) -> pb.TopicPartitionsResponse:
        topic = topic_name(request.topic)
        self._callers.check_topic(context, None, topic)
        names = await partitions_of(self._broker, topic)
        return pb.TopicPartitionsResponse(request_id=request.request_id, partitions=names)


class StorageService:
    """Lists the closed ledgers of a topic, as segments."""

    def __init__(self, broker: Broker, callers: Callers) -> None:
        self._broker = broker
        self._callers = callers

    async def list_segment_descriptors(
        self, request: pb.ListSegmentDescriptorsRequest, context: Context
    ) -> pb.ListSegmentDescriptorsResponse:
        topic = topic_name(request.topic)
        self._callers.check_topic(context, Action.CONSUME, topic)
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
            for ledger in stored.list.visible
            if ledger.last_offset is not None
            and ledger.last_offset >= max(ledger.first_offset, request.after_offset)
        ]
        return pb.ListSegmentDescriptorsResponse(segments=segments)


class AuthService:
    """Older clients exchange an API key for a token first.

    Their key is a token already: it is checked and returned. Without authentication any key is
    accepted, and the token has no meaning.
    """

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    async def authenticate(self, request: pb.AuthRequest, context: Context) -> pb.AuthResponse:
        if not self._callers.on:
            return pb.AuthResponse(token="anonymous")
        self._callers.check_token(context, request.api_key)
        return pb.AuthResponse(token=request.api_key)
