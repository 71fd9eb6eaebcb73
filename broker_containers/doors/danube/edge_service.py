"""EdgeReplicatorService: gateways that take in MQTT register and replicate to this cluster.

A gateway needs the right to produce to its topics, which are in the namespace of its name. Like a
producer it creates them if they do not exist, and counts in the quotas of its principal.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, replace
from typing import Final

from broker_containers.broker.broker import Broker
from broker_containers.doors.danube import danube_edge_pb2 as pb
from broker_containers.doors.danube.edge_log import EdgeLog
from broker_containers.doors.danube.routing import Routing
from broker_containers.doors.danube.topic_locations import topic_record
from broker_containers.doors.grpc_shared.callers import Callers, Context
from broker_containers.doors.grpc_shared.names import BadRequest, namespace_name, topic_name
from broker_containers.schemas.checks import SchemaChecks
from broker_containers.schemas.registry import SchemaRegistry
from sulina.errors import NotFound, Refused
from sulina.metadata.keys import edges
from sulina.metadata.keys.edges import EdgeRecord, EdgeTopic
from sulina.model import Action, Delivery

_REPLICATE: Final = "/danube.edge.EdgeReplicatorService/ReplicateData"


@dataclass(frozen=True, slots=True)
class _Current:
    """A topic of a gateway as it is now."""

    topic: EdgeTopic
    exists: bool
    schema: pb.ResolvedSchema | None


class EdgeService:
    """The calls of gateways."""

    def __init__(
        self, broker: Broker, schemas: SchemaChecks, routing: Routing, callers: Callers
    ) -> None:
        self._broker = broker
        self._registry: SchemaRegistry = schemas.registry
        self._routing = routing
        self._callers = callers
        self._log = EdgeLog(broker, schemas)

    async def register_edge(
        self, request: pb.RegisterEdgeRequest, context: Context
    ) -> pb.RegisterEdgeResponse:
        """Topics that can't be used have an error; the others can be used at once."""
        name = namespace_name(request.edge_name)
        if len(request.topics) > edges.MAX_TOPICS:
            raise BadRequest(f"a gateway has at most {edges.MAX_TOPICS} topics: use several")
        results = [await self._declared(name, each, context) for each in request.topics]
        usable = tuple(
            EdgeTopic(result.topic_name, given.schema_subject, result.schema.fingerprint)
            for result, given in zip(results, request.topics, strict=True)
            if not result.error
        )
        if not usable:
            why = results[0].error if results else "it names no topics: configure them"
            return pb.RegisterEdgeResponse(message=f"{name!r} is not registered: {why}")
        now = self._broker.clock.wall_us()

        def registered(before: EdgeRecord | None) -> EdgeRecord:
            return EdgeRecord(1 if before is None else before.version + 1, usable, now)

        stored = await edges.update(self._broker.store, name, registered)
        return pb.RegisterEdgeResponse(
            success=True, message="registered", config_version=stored.version, topics=results
        )

    async def _declared(
        self, edge: str, given: pb.EdgeTopicDeclaration, context: Context
    ) -> pb.TopicRegistrationResult:
        answer = pb.TopicRegistrationResult(topic_name=given.topic_name)
        try:
            topic = topic_name(given.topic_name)
            if topic.namespace != edge:
                raise BadRequest(f"{topic} is not in the namespace {edge!r} of the gateway")
            self._callers.check_topic(context, Action.PRODUCE, topic)
            try:
                found = await topic_record(self._broker, topic)
            except NotFound:
                found = await self._broker.describe(topic, create=True, delivery=Delivery.RELIABLE)
                answer.topic_created = True
            if found.delivery is not Delivery.RELIABLE or found.partitions:
                raise Refused(f"{topic} is not a reliable topic without partitions: use another")
        except Refused as error:
            answer.error = str(error)
            return answer
        schema = await self._schema(given.schema_subject) if given.schema_subject else None
        answer.schema_resolved = schema is not None or not given.schema_subject
        if schema is not None:
            answer.schema.CopyFrom(schema)
        return answer

    async def _schema(self, subject: str) -> pb.ResolvedSchema | None:
        try:
            found = await self._registry.version(subject)
        except NotFound:
            return None
        return pb.ResolvedSchema(
            subject=subject,
            schema_id=found.id,
            schema_version=found.version.number,
            schema_type=found.version.type.value,
            schema_definition=found.version.definition_bytes,
            fingerprint=found.version.fingerprint,
            compatibility_mode=found.compatibility.value,
        )

    async def edge_heartbeat(
        self, request: pb.EdgeHeartbeatRequest, context: Context
    ) -> pb.EdgeHeartbeatResponse:
        """A gateway with another version than the stored one is told everything again."""
        name = namespace_name(request.edge_name)
        known = await edges.get(self._broker.store, name)
        if known is None:
            raise NotFound(f"the gateway {name!r} is not registered: call RegisterEdge first")
        self._callers.check_topic(context, Action.PRODUCE, known.topics[0].name)
        now = [await self._current(each) for each in known.topics]
        current = tuple(
            replace(each.topic, fingerprint=each.schema.fingerprint if each.schema else "")
            for each in now
        )
        if current != known.topics:
            told, newer = known, replace(known, version=known.version + 1, topics=current)

            def changed(before: EdgeRecord | None) -> EdgeRecord:
                # Unless it registered again meanwhile: the next heartbeat finds out.
                return newer if before is None or before == told else before

            known = await edges.update(self._broker.store, name, changed)
        if known.version == request.config_version and all(each.exists for each in now):
            return pb.EdgeHeartbeatResponse(config_version=known.version)
        changes = [change for each in now if (change := _change(each)) is not None]
        return pb.EdgeHeartbeatResponse(
            changed=bool(changes), config_version=known.version, changes=changes
        )

    async def _current(self, topic: EdgeTopic) -> _Current:
        exists = await self._routing.locations.exists(topic_name(topic.name))
        return _Current(topic, exists, await self._schema(topic.subject) if topic.subject else None)

    async def replicate_data(
        self, batches: AsyncIterator[pb.ReplicateBatch], context: Context
    ) -> AsyncGenerator[bytes]:
        """Acknowledges each batch once it is durable."""
        async for batch in batches:
            topic = topic_name(batch.topic_name)
            self._callers.check_topic(context, Action.PRODUCE, topic)

            async def here(batch: pb.ReplicateBatch = batch) -> pb.ReplicateAck:
                principal = self._callers.limited_as(context)
                await self._log.store(topic_name(batch.topic_name), batch, principal)
                return pb.ReplicateAck(
                    topic_name=batch.topic_name, acked_offset=batch.batch_last_offset
                )

            # To the owner, one batch is a call of its own: it streams no more than one reply.
            answer = await self._routing.answer(
                topic, context, _REPLICATE, batch, pb.ReplicateAck, here
            )
            yield answer.SerializeToString()


def _change(now: _Current) -> pb.EdgeChange | None:
    """What a gateway that knows nothing of a topic must be told."""
    topic = now.topic
    if not now.exists:
        return pb.EdgeChange(
            topic_name=topic.name, change_type=pb.TOPIC_REMOVED, detail="the topic was deleted"
        )
    if not topic.subject:
        return None
    if now.schema is None:
        detail = f"there is no schema subject {topic.subject!r}"
        return pb.EdgeChange(topic_name=topic.name, change_type=pb.SCHEMA_REMOVED, detail=detail)
    return pb.EdgeChange(
        topic_name=topic.name,
        change_type=pb.SCHEMA_UPDATED,
        schema=now.schema,
        detail=f"version {now.schema.schema_version} of {topic.subject!r}",
    )
