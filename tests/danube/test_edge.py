"""Gateways of Danube's edge: they register, and what they replicate is stored once."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

import sulina
from broker_containers.doors.danube import danube_edge_pb2 as pb
from broker_containers.doors.danube.danube_pb2 import MsgID, StreamMessage
from sulina import Client
from sulina.model import Start
from tests.auth.broker import ROOT, Guarded, bearer, guarded_broker
from tests.danube.brokers import DanubeBrokers, OneBroker, one_broker
from tests.danube.calls import status_of

SERVICE = "/danube.edge.EdgeReplicatorService"
EDGE, TOPIC = "edge1", "/edge1/telemetry"
Code = grpc.StatusCode


class Gateway:
    """The calls of danube-edge."""

    def __init__(self, url: str, token: str = "") -> None:
        self.channel = grpc.aio.insecure_channel(url.partition("://")[2])
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()

    async def __aenter__(self) -> Gateway:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.channel.close()

    async def _unary(self, method: str, request: Any, kind: Any) -> Any:
        call: Any = self.channel.unary_unary(
            f"{SERVICE}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=kind.FromString,
        )
        return await call(request, timeout=30, metadata=self._metadata)

    async def register(self, *topics: str, subject: str | None = None, edge: str = EDGE) -> Any:
        declared = [pb.EdgeTopicDeclaration(topic_name=t, schema_subject=subject) for t in topics]
        request = pb.RegisterEdgeRequest(edge_name=edge, topics=declared)
        return await self._unary("RegisterEdge", request, pb.RegisterEdgeResponse)

    async def beat(self, version: int, edge: str = EDGE) -> Any:
        request = pb.EdgeHeartbeatRequest(edge_name=edge, config_version=version)
        return await self._unary("EdgeHeartbeat", request, pb.EdgeHeartbeatResponse)

    def _stream(self, *arguments: Any) -> Any:
        opened: Any = self.channel.stream_stream(
            f"{SERVICE}/ReplicateData",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=pb.ReplicateAck.FromString,
        )
        return opened(*arguments, timeout=30, metadata=self._metadata)

    async def opened(self) -> grpc.StatusCode:
        """The status of a stream in which nothing is sent."""
        found: grpc.StatusCode = await self._stream().code()
        return found

    async def send(self, *batches: pb.ReplicateBatch) -> list[int]:
        """Send batches in one stream; returns the acknowledged offsets."""
        return [answer.acked_offset async for answer in self._stream(iter(batches))]


def batch(*offsets: int, topic: str = TOPIC, numbered: bool = True, **more: Any) -> Any:
    """Messages of a gateway's log, each with its offset as its payload."""
    return pb.ReplicateBatch(
        topic_name=topic,
        messages=[
            StreamMessage(
                msg_id=MsgID(topic_name=topic, topic_offset=offset if numbered else 0),
                payload=b"%d" % offset,
                attributes={"mqtt": "yes"},
                **more,
            )
            for offset in offsets
        ],
        batch_last_offset=offsets[-1],
    )


async def stored(client: Client, topic: str = TOPIC) -> list[int]:
    payloads: list[int] = []
    start, at_end = Start.earliest(), False
    while not at_end:
        found = await client.read(topic, start)
        payloads += [int(payload) for batch in found for payload in batch.payloads]
        start, at_end = Start.offset(found.next_offset), found.at_end
    return payloads


@pytest_asyncio.fixture(loop_scope="session")
async def native(broker: OneBroker) -> AsyncIterator[Client]:
    async with sulina.connect(broker.native_url) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="session")
async def edge(broker: OneBroker, native: Client, topic: str) -> AsyncIterator[tuple[Gateway, str]]:
    """A gateway of the shared broker, with a namespace of its own."""
    name = topic.rpartition("/")[2]
    await native.admin("namespace.create", {"namespace": name})
    async with Gateway(broker.url) as gateway:
        yield gateway, name


async def test_a_gateway_registers_its_topics_and_replicates(
    edge: tuple[Gateway, str], native: Client
) -> None:
    gateway, name = edge
    topic = f"/{name}/telemetry"
    first = await gateway.register(topic, edge=name)
    assert first.success and first.config_version == 1
    assert [(one.topic_created, one.schema_resolved, one.error) for one in first.topics] == [
        (True, True, "")
    ]
    again = await gateway.register(topic, edge=name)
    assert again.config_version == 2 and not again.topics[0].topic_created
    sent = [batch(0, 1, 2, topic=topic), batch(3, topic=topic)]
    assert await gateway.send(*sent) == [2, 3]
    found = await native.read(topic, Start.earliest())
    assert [one.attributes for each in found for one in each] == [{"mqtt": "yes"}] * 4
    assert await stored(native, topic) == [0, 1, 2, 3]


async def test_what_is_sent_again_in_other_batches_is_stored_once(
    edge: tuple[Gateway, str], native: Client
) -> None:
    gateway, name = edge
    topic = f"/{name}/again"
    await gateway.register(topic, edge=name)
    for offsets in ((0, 1, 2), (0, 1, 2), (1, 2, 3, 4), (4,), (7, 9)):
        assert await gateway.send(batch(*offsets, topic=topic)) == [offsets[-1]]
    assert await gateway.send(batch(10, 11, topic=topic, numbered=False)) == [11]
    assert await stored(native, topic) == [0, 1, 2, 3, 4, 7, 9, 10, 11]


async def test_a_restart_forgets_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    for offsets, expected in (((0, 1), [0, 1]), ((1, 2), [0, 1, 2])):
        async with (
            one_broker(tmp_path) as broker,
            sulina.connect(broker.native_url) as client,
            Gateway(broker.url) as gateway,
        ):
            if offsets[0] == 0:
                await client.admin("namespace.create", {"namespace": EDGE})
                await gateway.register(TOPIC)
            assert await gateway.send(batch(*offsets)) == [offsets[-1]]
            assert await stored(client) == expected
            assert (await gateway.beat(1)).config_version == 1


async def test_a_topic_that_can_not_be_used_has_the_reason(
    edge: tuple[Gateway, str], native: Client
) -> None:
    gateway, name = edge
    fast = f"/{name}/fast"
    await native.admin("topic.create", {"topic": fast, "delivery": "non_reliable"})
    answer = await gateway.register(f"/{name}/good", "/default/other", fast, "bad", edge=name)
    assert answer.success
    good, other, unreliable, bad = (one.error for one in answer.topics)
    assert not good and "not in the namespace" in other and "reliable" in unreliable and bad
    assert await status_of(gateway.send(batch(0, topic=fast))) is Code.FAILED_PRECONDITION
    refused = await gateway.register("/nowhere/t", edge="nowhere")
    assert not refused.success and "namespace" in refused.message


async def test_a_heartbeat_tells_what_changed(edge: tuple[Gateway, str], native: Client) -> None:
    gateway, name = edge
    assert await status_of(gateway.beat(1, edge=name)) is Code.NOT_FOUND
    first, second = '{"type": "object"}', '{"type": ["object", "null"]}'
    schema = {"subject": name, "type": "json", "definition": first}
    await native.admin("schema.register", schema)
    topic = f"/{name}/typed"
    answer = await gateway.register(topic, subject=name, edge=name)
    [told] = answer.topics
    assert told.schema.schema_definition == first.encode() and told.schema.schema_version == 1
    same = await gateway.beat(1, edge=name)
    assert (same.changed, same.config_version) == (False, 1)
    await native.admin("schema.register", {**schema, "definition": second})
    for _ in range(2):  # a reply may get lost
        changed = await gateway.beat(1, edge=name)
        [change] = changed.changes
        assert changed.changed and changed.config_version == 2
        assert (change.change_type, change.schema.schema_version) == (pb.SCHEMA_UPDATED, 2)
    assert not (await gateway.beat(2, edge=name)).changed
    await native.admin("topic.delete", {"topic": topic})
    [change] = (await gateway.beat(2, edge=name)).changes
    assert change.change_type == pb.TOPIC_REMOVED
    assert await status_of(gateway.send(batch(0, topic=topic))) is Code.NOT_FOUND


async def test_a_message_that_a_topic_does_not_accept_is_not_acknowledged(
    edge: tuple[Gateway, str], native: Client
) -> None:
    gateway, name = edge
    topic = f"/{name}/strict"
    await gateway.register(topic, edge=name)
    await native.admin("schema.register", {"subject": name, "type": "string"})
    binding = {"topic": topic, "subject": name, "validation": "enforce"}
    await native.admin("schema.bind", binding)
    assert await status_of(gateway.send(batch(0, topic=topic))) is Code.INVALID_ARGUMENT
    assert await stored(native, topic) == []


async def test_a_gateway_needs_the_right_to_produce(tmp_path: Path) -> None:
    async with guarded_broker(tmp_path) as guarded:
        await rights_decide(guarded)


async def rights_decide(guarded: Guarded) -> None:
    await guarded.root.admin("namespace.create", {"namespace": EDGE})
    weak, strong = (
        await guarded.token("weak", "consume:*"),
        await guarded.token("strong", f"produce:/{EDGE}/*"),
    )
    async with Gateway(guarded.grpc_url, strong) as good, Gateway(guarded.grpc_url, weak) as bad:
        refused = await bad.register(TOPIC)
        assert not refused.success and "'weak' may not do this" in refused.message
        assert (await good.register(TOPIC)).success
        assert await good.send(batch(0)) == [0]
        assert await status_of(bad.send(batch(1))) is Code.PERMISSION_DENIED
        assert await status_of(bad.beat(1)) is Code.PERMISSION_DENIED
    async with Gateway(guarded.grpc_url) as stranger:
        assert await status_of(stranger.register(TOPIC)) is Code.UNAUTHENTICATED
        assert await stranger.opened() is Code.UNAUTHENTICATED
    assert await stored(guarded.root) == [0]


async def test_every_batch_counts_as_a_call_also_if_the_gateway_leaves_then(tmp_path: Path) -> None:
    async with guarded_broker(tmp_path) as guarded, Gateway(guarded.grpc_url, ROOT) as gateway:
        await guarded.root.admin("namespace.create", {"namespace": EDGE})
        await gateway.register(TOPIC)
        opened: Any = gateway.channel.stream_stream(f"{SERVICE}/ReplicateData")
        call = opened(timeout=30, metadata=(("authorization", f"Bearer {ROOT}"),))
        await call.write(batch(0).SerializeToString())
        assert pb.ReplicateAck.FromString(await call.read()).acked_offset == 0
        call.cancel()  # as danube-edge, which waits for one acknowledgement
        await status_of(gateway.send(batch(1, topic="/edge1/none")))
        found = await guarded.http("GET", "/metrics", headers=bearer(ROOT))
        counted = re.findall(r'method="ReplicateData",result="(\w+)"} (\d+)', found.text)
        assert dict(counted) == {"ok": "1", "error": "1"}


@pytest.mark.parametrize("proxied", [False, True])
async def test_a_batch_reaches_the_owner_by_lookup_or_by_any_broker(proxied: bool) -> None:
    async with DanubeBrokers(proxied=proxied) as brokers, AsyncExitStack() as stack:
        await brokers.start("one", "two")
        native = await stack.enter_async_context(brokers.client())
        await native.admin("namespace.create", {"namespace": EDGE})
        gateways = {
            name: await stack.enter_async_context(Gateway(brokers.urls[name]))
            for name in ("one", "two")
        }
        assert (await gateways["one"].register(TOPIC)).success
        await native.admin("topic.lookup", {"topic": TOPIC})
        owner = await brokers.owner(TOPIC)
        assert await gateways[owner].send(batch(0)) == [0]
        other = gateways[await brokers.other(TOPIC)]
        if proxied:
            assert await other.send(batch(0, 1), batch(2)) == [1, 2]
        else:
            assert await status_of(other.send(batch(1))) is Code.UNAVAILABLE
        assert await stored(native) == ([0, 1, 2] if proxied else [0])
