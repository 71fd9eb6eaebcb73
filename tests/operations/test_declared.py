"""Every declared operation is reachable, and what it says of itself is true."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import sulina
from broker_containers.assembly.running import DoorSettings
from broker_containers.assembly.single import run_embedded
from broker_containers.doors.listen import Listen
from broker_containers.operations.reference import reference
from sulina.errors import ProtocolError, Refused, Retriable, SulinaError
from sulina.metadata.keys.policy import Policy
from sulina.model import FailurePolicy
from sulina.operations.client import AdminClient
from sulina.operations.operation_list import GROUPS, OPERATIONS
from sulina.operations.subscriptions import FailureChanges
from sulina.operations.topics import NamespaceLimits, TopicLimits, TopicOperations
from tests.http.test_cluster import PATIENCE, two_brokers
from tests.operations.examples import EXAMPLES, REFUSED_HERE


def test_there_is_an_example_of_every_operation() -> None:
    assert [name for name, _ in EXAMPLES] == list(dict.fromkeys(name for name, _ in EXAMPLES))
    assert {name for name, _ in EXAMPLES} == OPERATIONS.keys()


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_declaration_is_complete(name: str) -> None:
    declared = OPERATIONS[name]
    assert declared.summary.endswith(".") and declared.summary[0].isupper()
    for route in declared.routes:
        assert set(route.path_arguments) <= declared.arguments.keys()
    named: dict[str, Any] = {}
    for argument in declared.arguments.values():
        argument.described.schema(named)
    assert declared.result.schema(named)


def test_every_limit_can_be_changed() -> None:
    names = {field.name for field in fields(Policy)}
    assert get_type_hints(NamespaceLimits).keys() == names
    assert get_type_hints(TopicLimits).keys() == names
    assert get_type_hints(FailureChanges).keys() == {each.name for each in fields(FailurePolicy)}


async def test_a_call_sends_what_was_given_and_reads_the_answer() -> None:
    sent: list[tuple[str, Any]] = []

    async def call(name: str, arguments: Any) -> Any:
        sent.append((name, dict(arguments)))
        return {"topic": "/default/t", "added by a newer broker": 1}

    made = await AdminClient(call).topics.create("/default/t", partitions=4)
    assert made.topic == "/default/t"
    await AdminClient(call).topics.create("/default/t")
    assert sent == [
        ("topic.create", {"topic": "/default/t", "partitions": 4}),
        ("topic.create", {"topic": "/default/t"}),
    ]


async def test_an_option_that_is_none_is_sent_and_an_argument_that_is_none_is_not() -> None:
    encoded = TopicOperations.policy.encoded("/default/t", retention_ms=None)
    assert encoded == {"topic": "/default/t", "retention_ms": None}
    assert TopicOperations.list.encoded(namespace=None) == {}


async def test_an_answer_of_another_shape_is_an_error_of_the_protocol() -> None:
    async def call(name: str, arguments: Any) -> Any:
        return {"name": "/default/t"}

    with pytest.raises(ProtocolError, match=r"topic.create can't be read"):
        await AdminClient(call).topics.create("/default/t")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "topic is missing"),
        ({"topic": "/a/b", "partition": 3}, "no argument 'partition': choose from topic"),
        ({"topic": "/a/b", "partitions": -1}, "partitions must be a whole number from 0"),
        ({"topic": "/a/b", "delivery": "maybe"}, "delivery is one of reliable, non_reliable"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused, match=why):
        TopicOperations.create.decoded(arguments)


def test_null_is_the_same_as_not_given_where_it_has_no_meaning() -> None:
    assert TopicOperations.create.decoded({"topic": "/a/b", "partitions": None}) == {
        "topic": "/a/b"
    }


async def typed_calls(client: sulina.Client) -> dict[str, SulinaError]:
    """Call every example by the typed client; returns those that were refused, and why."""
    refused: dict[str, SulinaError] = {}
    for name, arguments in EXAMPLES:
        group = next(key for key, each in GROUPS.items() if OPERATIONS[name] in each.operations)
        call = getattr(getattr(client.admin, group), OPERATIONS[name].method)
        try:
            await call(**OPERATIONS[name].decoded(arguments))
        except (Refused, Retriable) as error:
            refused[name] = error
    return refused


async def test_the_typed_client_reaches_every_operation_of_one_process(tmp_path: Path) -> None:
    async with (
        run_embedded(tmp_path, DoorSettings(Listen(port=0))) as server,
        sulina.connect(server.addresses.url) as client,
    ):
        refused = await typed_calls(client)
    clustered = {name for name, each in OPERATIONS.items() if each.needs_cluster}
    assert refused.keys() == REFUSED_HERE | clustered
    for name in clustered:
        assert "needs a cluster" in str(refused[name])


async def test_the_typed_client_reaches_every_operation_of_a_cluster(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(PATIENCE),
        two_brokers(tmp_path) as two,
        sulina.connect(two.urls["broker-2"]) as client,
    ):
        refused = await typed_calls(client)
    assert refused.keys() == REFUSED_HERE


def test_the_reference_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "operations.md"
    assert page.read_text() == reference(), (
        "run: python -m broker_containers.operations.reference > docs/reference/operations.md"
    )
