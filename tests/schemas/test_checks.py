"""Which messages a topic takes: by the schema they name, and by their payload."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from broker_containers.schemas.checks import SchemaChecks, TopicSchemaCheck
from broker_containers.schemas.errors import InvalidPayload
from broker_containers.schemas.opening import open_registry
from broker_containers.schemas.registry import SchemaRegistry
from sulina.errors import NotFound
from sulina.metadata.keys import topic_lifecycle
from sulina.metadata.keys.schemas import TopicSchemaRecord, Validation
from sulina.metadata.keys.topics import TopicRecord
from sulina.metadata.store import MetadataStore
from sulina.names import TopicName
from sulina.runtime.real_clock import RealClock
from tests.schemas.shapes import NAME, NAME_AND_AGE, text

ORDERS = TopicName.parse("/default/orders")
PATIENCE = 20.0


@pytest.fixture
async def gates(registry: SchemaRegistry, store: MetadataStore) -> AsyncIterator[SchemaChecks]:
    await topic_lifecycle.create(store, ORDERS, TopicRecord())
    async with SchemaChecks(registry, store) as gates:
        yield gates


async def bind(
    gates: SchemaChecks, gate: TopicSchemaCheck, validation: Validation, *, payload: bool = False
) -> int:
    """Register two versions, bind the topic, and wait until the gate knows; returns the id."""
    registry = gates.registry
    await registry.register("orders", "json", text(NAME))
    made = await registry.register("orders", "json", text(NAME_AND_AGE))
    await registry.topics.configure(ORDERS, TopicSchemaRecord("orders", validation, payload))
    async with asyncio.timeout(PATIENCE):
        while gate.config != TopicSchemaRecord("orders", validation, payload):
            await gates.mirrors[0].change()
        while not gate.admits(made.id, 2):
            await gates.mirrors[1].change()
    return made.id


async def test_a_change_holds_here_when_it_is_answered(gates: SchemaChecks) -> None:
    gate = await gates.gate(ORDERS)
    await gates.registry.register("orders", "string", b"")
    for validation in (Validation.ENFORCE, Validation.WARN, Validation.NONE):
        await gates.registry.topics.configure(ORDERS, TopicSchemaRecord("orders", validation))
        assert gate.config == TopicSchemaRecord("orders", validation)


async def test_a_topic_without_a_schema_takes_everything(gates: SchemaChecks) -> None:
    gate = await gates.gate(ORDERS)
    assert gate.config is None
    assert gate.admits(0, 0) and gate.admits(99, 7)
    await gate.check(0, 0, b"anything")
    assert gate.checked == gate.failed == 0
    with pytest.raises(NotFound):
        await gates.gate(TopicName.parse("/default/nothing"))


async def test_enforced_a_frame_is_refused_by_its_header_alone(gates: SchemaChecks) -> None:
    gate = await gates.gate(ORDERS)
    schema_id = await bind(gates, gate, Validation.ENFORCE)
    other = await gates.registry.register("users", "string", b"")
    assert gate.admits(schema_id, 1) and gate.admits(schema_id, 2)
    for names, why in (
        ((0, 0), "names no schema"),
        ((schema_id, 3), "not registered"),
        ((999, 1), "not registered"),
        ((other.id, 1), "of 'users'"),
    ):
        assert not gate.admits(*names)
        with pytest.raises(InvalidPayload, match=why):
            await gate.check_name(*names)
    await gate.check(schema_id, 1, b"payloads are not looked at")
    assert gate.failed == 4


async def test_enforced_payloads_are_those_of_the_version_that_is_named(
    gates: SchemaChecks,
) -> None:
    gate = await gates.gate(ORDERS)
    schema_id = await bind(gates, gate, Validation.ENFORCE, payload=True)
    await gate.check(schema_id, 1, b'{"age": "any"}')
    with pytest.raises(InvalidPayload, match="/default/orders takes messages of 'orders' only"):
        await gate.check(schema_id, 2, b'{"age": "any"}')


async def test_with_a_warning_everything_is_taken_and_counted(
    gates: SchemaChecks, caplog: pytest.LogCaptureFixture
) -> None:
    gate = await gates.gate(ORDERS)
    schema_id = await bind(gates, gate, Validation.WARN, payload=True)
    with caplog.at_level(logging.WARNING):
        for _ in range(8):
            await gate.check(0, 0, b"")
            await gate.check(schema_id, 2, b"not JSON")
            await gate.check(999, 1, b"")
    assert gate.failed == 24
    assert len(caplog.records) == 5


async def test_without_validation_nothing_is_looked_at(gates: SchemaChecks) -> None:
    gate = await gates.gate(ORDERS)
    await bind(gates, gate, Validation.NONE, payload=True)
    assert gate.admits(0, 0)
    await gate.check(0, 0, b"")


async def test_a_version_that_another_broker_registered_a_moment_ago_is_known(
    gates: SchemaChecks, store: MetadataStore
) -> None:
    gate = await gates.gate(ORDERS)
    schema_id = await bind(gates, gate, Validation.ENFORCE, payload=True)
    other = open_registry(store, RealClock())
    await other.register("orders", "json", text({**NAME_AND_AGE, "title": "third"}))
    await gate.check(schema_id, 3, b'{"age": 5}')


async def test_what_does_not_exist_is_asked_for_once(gates: SchemaChecks) -> None:
    gate = await gates.gate(ORDERS)
    await bind(gates, gate, Validation.WARN)
    asked = 0
    real = gates.registry.get

    async def counted(schema_id: int, number: int | None = None) -> object:
        nonlocal asked
        asked += 1
        return await real(schema_id, number)

    gates.registry.get = counted  # type: ignore[method-assign,assignment]
    for _ in range(10):
        await gate.check(999, 1, b"")
    assert asked == 1


async def test_a_deleted_version_is_refused_when_the_watch_told(gates: SchemaChecks) -> None:
    gate = await gates.gate(ORDERS)
    schema_id = await bind(gates, gate, Validation.ENFORCE)
    await gates.registry.delete_version("orders", 1)
    async with asyncio.timeout(PATIENCE):
        while gate.admits(schema_id, 1):
            await gates.mirrors[1].change()
    with pytest.raises(InvalidPayload, match="not registered"):
        await gate.check_name(schema_id, 1)


async def test_a_new_topic_does_not_inherit_from_a_deleted_one_of_its_name(
    gates: SchemaChecks, store: MetadataStore
) -> None:
    gate = await gates.gate(ORDERS)
    await bind(gates, gate, Validation.ENFORCE)
    await topic_lifecycle.delete(store, ORDERS)
    await topic_lifecycle.create(store, ORDERS, TopicRecord())
    again = await gates.gate(ORDERS)
    assert again.config is None and again.admits(0, 0)


async def test_a_partition_goes_by_its_topic(gates: SchemaChecks, store: MetadataStore) -> None:
    parted = TopicName.parse("/default/parted")
    await topic_lifecycle.create(store, parted, TopicRecord(partitions=2))
    gate = await gates.gate(parted.partition(1))
    await gates.registry.register("orders", "string", b"")
    await gates.registry.topics.bind(parted, "orders")
    async with asyncio.timeout(PATIENCE):
        while gate.config is None:
            await gates.mirrors[0].change()
    assert gate.config.subject == "orders"
