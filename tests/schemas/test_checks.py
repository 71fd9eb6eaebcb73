"""Which messages a topic takes: by the schema they name, and by their payload."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from broker_containers.schemas.checks import SchemaChecks, TopicSchemaCheck
from broker_containers.schemas.errors import InvalidPayload
from broker_containers.schemas.registry import SchemaRegistry, open_registry
from sulina.errors import NotFound
from sulina.metadata.keys import topic_lifecycle
from sulina.metadata.keys.schemas import TopicSchemaRecord, Validation
from sulina.metadata.keys.topics import TopicRecord
from sulina.metadata.store import MetadataStore
from sulina.names import TopicName
from sulina.runtime.real_clock import RealClock
from tests.schemas.json_shapes import NAME, NAME_AND_AGE, text

ORDERS = TopicName.parse("/default/orders")
PATIENCE = 20.0


@pytest.fixture
async def checks(registry: SchemaRegistry, store: MetadataStore) -> AsyncIterator[SchemaChecks]:
    await topic_lifecycle.create(store, ORDERS, TopicRecord())
    async with SchemaChecks(registry, store) as checks:
        yield checks


async def bind(
    checks: SchemaChecks, check: TopicSchemaCheck, validation: Validation, *, payload: bool = False
) -> int:
    """Register two versions, bind the topic, and wait until the check knows; returns the id."""
    registry = checks.registry
    await registry.register("orders", "json", text(NAME))
    made = await registry.register("orders", "json", text(NAME_AND_AGE))
    await registry.topics.configure(ORDERS, TopicSchemaRecord("orders", validation, payload))
    async with asyncio.timeout(PATIENCE):
        while check.config != TopicSchemaRecord("orders", validation, payload):
            await checks.prefix_caches[0].change()
        while not check.admits(made.id, 2):
            await checks.prefix_caches[1].change()
    return made.id


async def resolved(checks: SchemaChecks, topic: TopicName) -> TopicSchemaCheck:
    """The check of a topic, with its binding read from the store."""
    made = TopicSchemaCheck(checks, topic)
    await made.resolve()
    return made


async def test_a_change_holds_here_when_it_is_answered(checks: SchemaChecks) -> None:
    check = await resolved(checks, ORDERS)
    await checks.registry.register("orders", "string", b"")
    for validation in (Validation.ENFORCE, Validation.WARN, Validation.NONE):
        await checks.registry.topics.configure(ORDERS, TopicSchemaRecord("orders", validation))
        assert check.config == TopicSchemaRecord("orders", validation)


async def test_a_topic_without_a_schema_takes_everything(checks: SchemaChecks) -> None:
    check = await resolved(checks, ORDERS)
    assert check.config is None
    assert check.admits(0, 0) and check.admits(99, 7)
    await check.check(0, 0, b"anything")
    assert check.checked == check.failed == 0
    with pytest.raises(NotFound):
        await resolved(checks, TopicName.parse("/default/nothing"))


async def test_enforced_a_frame_is_refused_by_its_header_alone(checks: SchemaChecks) -> None:
    check = await resolved(checks, ORDERS)
    schema_id = await bind(checks, check, Validation.ENFORCE)
    other = await checks.registry.register("users", "string", b"")
    assert check.admits(schema_id, 1) and check.admits(schema_id, 2)
    for names, why in (
        ((0, 0), "names no schema"),
        ((schema_id, 3), "not registered"),
        ((999, 1), "not registered"),
        ((other.id, 1), "of 'users'"),
    ):
        assert not check.admits(*names)
        with pytest.raises(InvalidPayload, match=why):
            await check.check_name(*names)
    await check.check(schema_id, 1, b"payloads are not looked at")
    assert check.failed == 4


async def test_enforced_payloads_are_those_of_the_version_that_is_named(
    checks: SchemaChecks,
) -> None:
    check = await resolved(checks, ORDERS)
    schema_id = await bind(checks, check, Validation.ENFORCE, payload=True)
    await check.check(schema_id, 1, b'{"age": "any"}')
    with pytest.raises(InvalidPayload, match="/default/orders accepts only 'orders' messages"):
        await check.check(schema_id, 2, b'{"age": "any"}')


async def test_with_a_warning_everything_is_taken_and_counted(
    checks: SchemaChecks, caplog: pytest.LogCaptureFixture
) -> None:
    check = await resolved(checks, ORDERS)
    schema_id = await bind(checks, check, Validation.WARN, payload=True)
    with caplog.at_level(logging.WARNING):
        for _ in range(8):
            await check.check(0, 0, b"")
            await check.check(schema_id, 2, b"not JSON")
            await check.check(999, 1, b"")
    assert check.failed == 24
    assert len(caplog.records) == 5


async def test_without_validation_nothing_is_looked_at(checks: SchemaChecks) -> None:
    check = await resolved(checks, ORDERS)
    await bind(checks, check, Validation.NONE, payload=True)
    assert check.admits(0, 0)
    await check.check(0, 0, b"")


async def test_a_version_that_another_broker_registered_a_moment_ago_is_known(
    checks: SchemaChecks, store: MetadataStore
) -> None:
    check = await resolved(checks, ORDERS)
    schema_id = await bind(checks, check, Validation.ENFORCE, payload=True)
    other = open_registry(store, RealClock())
    await other.register("orders", "json", text({**NAME_AND_AGE, "title": "third"}))
    await check.check(schema_id, 3, b'{"age": 5}')


async def test_what_does_not_exist_is_asked_for_once(checks: SchemaChecks) -> None:
    check = await resolved(checks, ORDERS)
    await bind(checks, check, Validation.WARN)
    asked = 0
    real = checks.registry.get

    async def counted(schema_id: int, number: int | None = None) -> object:
        nonlocal asked
        asked += 1
        return await real(schema_id, number)

    checks.registry.get = counted  # type: ignore[method-assign,assignment]
    for _ in range(10):
        await check.check(999, 1, b"")
    assert asked == 1


async def test_a_deleted_version_is_refused_when_the_watch_told(checks: SchemaChecks) -> None:
    check = await resolved(checks, ORDERS)
    schema_id = await bind(checks, check, Validation.ENFORCE)
    await checks.registry.delete_version("orders", 1)
    async with asyncio.timeout(PATIENCE):
        while check.admits(schema_id, 1):
            await checks.prefix_caches[1].change()
    with pytest.raises(InvalidPayload, match="not registered"):
        await check.check_name(schema_id, 1)


async def test_a_new_topic_does_not_inherit_from_a_deleted_one_of_its_name(
    checks: SchemaChecks, store: MetadataStore
) -> None:
    check = await resolved(checks, ORDERS)
    await bind(checks, check, Validation.ENFORCE)
    await topic_lifecycle.delete(store, ORDERS)
    await topic_lifecycle.create(store, ORDERS, TopicRecord())
    again = await resolved(checks, ORDERS)
    assert again.config is None and again.admits(0, 0)


async def test_a_partition_goes_by_its_topic(checks: SchemaChecks, store: MetadataStore) -> None:
    parted = TopicName.parse("/default/parted")
    await topic_lifecycle.create(store, parted, TopicRecord(partitions=2))
    check = await resolved(checks, parted.partition(1))
    await checks.registry.register("orders", "string", b"")
    await checks.registry.topics.bind(parted, "orders")
    async with asyncio.timeout(PATIENCE):
        while check.config is None:
            await checks.prefix_caches[0].change()
    assert check.config.subject == "orders"
