"""Attacks by holders of a token, against other tenants."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import grpc

from broker_containers.doors.danube import danube_pb2 as danube
from sulina.errors import SulinaError
from tests.attack.attack import (
    SECONDS,
    Target,
    attack,
    hello,
    must,
    shown,
    status_of,
)

_ANY = "any token"
_A_TOPIC = ("topics", "keys")
"""What is left of an attack that creates a topic, as its token allows."""
Code = grpc.StatusCode


@attack("declared-lengths", _ANY, "100 connections, each announces a command of 16 MiB")
async def declared_lengths(target: Target) -> None:
    token = await target.token("declaring", "produce:/attack/*")
    announced = (16 << 20).to_bytes(4, "little") + b"\x16\0\0\0" + bytes(4) + b"\x04\0\0\0"
    opened = await target.dial_many(target.port, 100, hello(token))
    for reader, writer in opened:
        await asyncio.wait_for(reader.read(1), SECONDS)
        writer.write(announced + bytes(8))
    await asyncio.sleep(2)
    grown = len(opened)
    must(grown == 100, f"only {grown} of 100 connections were accepted")


@attack("foreign-broker-url", _ANY, "x-danube-broker-url with an address of the attacker")
async def foreign_broker_url(target: Target) -> None:
    token = await target.token("dialling", "produce:/attack/*")
    dialled = asyncio.Event()

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dialled.set()
        writer.close()

    listening = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    request = danube.HealthCheckRequest(client=danube.HealthCheckRequest.Producer, id=4242)
    async with target.channel(target.grpc_port) as channel:
        check: Any = channel.unary_unary("/danube.HealthCheck/HealthCheck")
        for host in ("127.0.0.1", "localhost"):
            header = ("x-danube-broker-url", f"http://{host}:{port}")
            metadata = [*shown(token), header]
            await status_of(check(request.SerializeToString(), metadata=metadata, timeout=SECONDS))
    await asyncio.sleep(1)
    listening.close()
    must(not dialled.is_set(), "the broker dialled the attacker's address")


@attack("many-partitions", "produce", "a producer on partition 4095 of a new topic")
async def many_partitions(target: Target) -> None:
    token = await target.token("partitioning", "produce:/default/*")
    request = danube.ProducerRequest(topic_name="/default/many-part-4095", producer_name="p")
    async with target.channel(target.grpc_port) as channel:
        create: Any = channel.unary_unary("/danube.ProducerService/CreateProducer")
        message = request.SerializeToString()
        found = await status_of(create(message, metadata=shown(token), timeout=SECONDS))
    must(found is Code.PERMISSION_DENIED, f"the producer got {found.name}")


async def _check_schema(target: Target, subject: str, first: Any, second: Any) -> None:
    """Register ``first``, then check ``second`` against it; a refusal of either is fine."""
    token = await target.token(f"checking-{subject}", f"schemas:{subject}")
    async with target.connect(token) as client:
        for operation, schema in (("register", first), ("check", second)):
            arguments = {
                "subject": subject,
                "type": "json_schema",
                "definition": json.dumps(schema),
            }
            try:
                await client.admin(f"schema.{operation}", arguments)
            except SulinaError:
                continue


@attack("schema-patterns", "schemas", "a schema whose pattern backtracks on stored names", "keys")
async def schema_patterns(target: Target) -> None:
    name = "a" * 28 + "!"
    stored = {"type": "object", "properties": {name: {"type": "string"}}}
    evil = {
        "type": "object",
        "patternProperties": {"^(a+)+$": {"type": "integer"}},
        "additionalProperties": False,
    }
    await _check_schema(target, "attack-patterns", stored, evil)


@attack("schema-doubling", "schemas", "a schema whose references double 40 times", "keys")
async def schema_doubling(target: Target) -> None:
    definitions: dict[str, Any] = {"d40": {"type": "integer"}}
    for level in range(40):
        reference = {"$ref": f"#/$defs/d{level + 1}"}
        definitions[f"d{level}"] = {"allOf": [reference, reference]}
    doubling = {"$defs": definitions, "$ref": "#/$defs/d0"}
    await _check_schema(target, "attack-doubling", doubling, {**doubling, "title": "again"})


@attack(
    "peek-bomb",
    "produce and consume",
    "a small frame that is large when it is decompressed",
    *_A_TOPIC,
)
async def peek_bomb(target: Target) -> None:
    topic = "/default/bomb"
    token = await target.token("peeking", f"produce:{topic}", f"consume:{topic}")
    async with (
        target.connect(token) as client,
        client.producer(topic, compression="zstd") as producer,
    ):
        tickets = [await producer.send(bytes(256 << 10)) for _ in range(200)]
        for ticket in tickets:
            await ticket
    path = "/api/v1/topics/default/bomb/messages?limit=1000"
    answers = await asyncio.gather(*(target.http("GET", path, token) for _ in range(8)))
    largest = max(len(body) for _, body in answers)
    must(largest < 8 << 20, f"an answer has {largest >> 20} MiB")


@attack("metrics-of-others", _ANY, "/metrics with the token of another tenant", *_A_TOPIC)
async def metrics_of_others(target: Target) -> None:
    async with target.connect() as client, client.producer("/default/secret-orders") as producer:
        await (await producer.send(b"x"))
    token = await target.token("metering", "produce:/default/own")
    _, body = await target.http("GET", "/metrics", token)
    must(b"secret-orders" not in body, "the metrics name a topic of another tenant")
