"""A broker of a cluster checks schemas from its first connection on, also after a restart."""

from __future__ import annotations

import asyncio
import json

import pytest

import sulina
from broker_containers.assembly.running import DoorSettings
from broker_containers.doors.listen import Listen
from sulina import Refused
from sulina.metadata.keys import schemas
from sulina.metadata.store import Listing
from tests.owners.brokers import Brokers
from tests.owners.cuttable import CuttableStore
from tests.schemas.shapes import NAME_AND_AGE

TOPIC = "/default/people"


class OnePort(Brokers):
    """Brokers that listen on one port, one after the other."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port

    def door_settings(self, name: str) -> DoorSettings:
        return DoorSettings(Listen(port=self._port))


async def test_a_client_that_reconnects_while_a_broker_starts_is_held_to_the_schema(
    unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading, loaded = asyncio.Event(), asyncio.Event()
    plain = CuttableStore.range

    async def slow_for_schemas(self: CuttableStore, prefix: str, **more: object) -> Listing:
        if prefix.startswith(schemas.BOUND):
            loading.set()
            await loaded.wait()
        return await plain(self, prefix, **more)  # type: ignore[arg-type]

    async with asyncio.timeout(60), OnePort(unused_tcp_port) as brokers:
        await brokers.start("one")
        async with sulina.connect(brokers.url("one")) as client:
            definition = json.dumps(NAME_AND_AGE)
            subject = {"subject": "people", "type": "json", "definition": definition}
            made = await client.admin("schema.register", subject)
            await client.admin("topic.create", {"topic": TOPIC})
            rule = {"subject": "people", "validation": "enforce", "payload": True}
            await client.admin("schema.bind", {"topic": TOPIC, **rule})
            async with client.producer(TOPIC, schema_id=made["id"], schema_version=1) as producer:
                await brokers.stop("one")
                monkeypatch.setattr(CuttableStore, "range", slow_for_schemas)
                starting = asyncio.create_task(brokers.start("one"))
                await loading.wait()
                with pytest.raises(ConnectionRefusedError):
                    await asyncio.open_connection("127.0.0.1", unused_tcp_port)
                loaded.set()
                await starting
                with pytest.raises(Refused, match="people"):
                    await (await producer.send(b'{"age": "many"}'))
