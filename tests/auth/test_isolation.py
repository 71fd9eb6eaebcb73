"""No list names what a deny rule or a missing right hides from its caller, at any door.

The calls follow from the declarations: an operation that is added is called here, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import grpc
import pytest
import pytest_asyncio

from broker_containers.doors.danube_schema import danube_schema_pb2
from broker_containers.security.access import Access
from sulina.errors import Refused
from sulina.metadata.keys.auth import Grant
from sulina.operations.declaration import Declaration
from sulina.operations.operation_list import OPERATIONS
from tests.auth.broker import ROOT, Guarded, bearer
from tests.auth.test_doors import admin_calls
from tests.danube_admin import wire

SEEN, HIDDEN = "isolation-seen", "isolation-hidden"
TOPIC, HIDDEN_TOPIC = f"/default/{SEEN}", f"/default/{HIDDEN}"
VALUES = {
    "topic": TOPIC,
    "namespace": "default",
    "subscription": SEEN,
    "subject": SEEN,
    "principal": SEEN,
    "broker": "broker-1",
}
"""What is asked about, by the name of the argument: nothing that is hidden."""
LISTS = {
    *("namespace.list", "topic.list", "topic.owners", "topic.describe", "topic.partitions"),
    *("topic.log", "subscription.list", "schema.list", "quota.list", "broker.describe"),
    *("topic.search", "lake.list"),
}
"""The operations that name the hidden things to somebody who may see everything."""
SAMPLED = {"overview.show"}
"""Operations that name what was busy in the last samples, which depends on the moment."""
ABOUT_WORK = {"ledger.erasures"}
"""Operations that show work under way, of which there is none here."""
TABLES = "table"
"""The group of operations on tables: they need a catalog, which the broker here lacks."""
RULES = {"audit", "principal", "token", "role", "binding"}
"""Groups about rights and what was done: their readers may change every right."""


def reads(operation: Declaration) -> bool:
    return any(route.verb == "GET" for route in operation.routes) and not operation.needs_cluster


def asked(operation: Declaration) -> dict[str, Any] | None:
    """The arguments of a call; None if an argument has no value here."""
    needed = [name for name, each in operation.arguments.items() if each.required]
    return {name: VALUES[name] for name in needed} if VALUES.keys() >= set(needed) else None


CALLS = {
    operation.name: arguments
    for operation in OPERATIONS.values()
    if reads(operation) and operation.group not in {*RULES, TABLES}
    if operation.name not in ABOUT_WORK
    if (arguments := asked(operation)) is not None
}


@dataclass(frozen=True, slots=True)
class Callers:
    """Tokens of principals from whom something is hidden."""

    denied: str
    """Of one that may do everything, except look up what is hidden."""
    narrow: str
    """Of one that has a right on one subscription."""


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def callers(guarded: Guarded) -> Callers:
    root = guarded.root
    await root.admin("namespace.create", {"namespace": HIDDEN})
    await root.admin("quota.namespace", {"namespace": HIDDEN, "topics": 10})
    for topic in (TOPIC, HIDDEN_TOPIC, f"/{HIDDEN}/orders"):
        async with root.producer(topic) as producer:
            await producer.send(b"x")
    for each in (SEEN, HIDDEN):
        await root.admin("subscription.create", {"topic": TOPIC, "subscription": each})
        await root.admin("schema.register", {"subject": each, "type": "string"})
    hidden = (f"/{HIDDEN}/*", HIDDEN_TOPIC, f"{TOPIC}#{HIDDEN}", HIDDEN)
    rules = [f"deny:lookup:{each}" for each in hidden]
    return Callers(
        await guarded.token("isolation-denied", "admin:*", *rules),
        await guarded.token("isolation-narrow", f"consume:{TOPIC}#{SEEN}"),
    )


@pytest.mark.parametrize("name", CALLS)
async def test_an_operation_names_nothing_that_is_hidden(
    guarded: Guarded, callers: Callers, name: str
) -> None:
    everything = json.dumps(await guarded.root.admin(name, CALLS[name]))
    if name not in SAMPLED:
        assert (HIDDEN in everything) is (name in LISTS), "LISTS says what this test can find"
    async with guarded.connect(callers.denied) as client:
        shown = json.dumps(await client.admin(name, CALLS[name]))
        assert HIDDEN not in shown
        assert name in SAMPLED or (SEEN in shown) is (SEEN in everything)
    async with guarded.connect(callers.narrow) as client:
        try:
            shown = json.dumps(await client.admin(name, CALLS[name]))
        except Refused as error:
            shown = str(error)
        assert HIDDEN not in shown


@pytest.mark.parametrize("name", CALLS)
async def test_http_names_nothing_that_is_hidden(
    guarded: Guarded, callers: Callers, name: str
) -> None:
    [route] = [each for each in OPERATIONS[name].routes if each.verb == "GET"]
    given = CALLS[name]
    query = {key: value for key, value in given.items() if key not in route.path_arguments}
    path = route.path.replace("{topic}", TOPIC.removeprefix("/"))
    for argument in route.path_arguments:
        path = path.replace(f"{{{argument}}}", quote(str(given[argument]), safe=""))
    for token in (callers.denied, callers.narrow):
        answer = await guarded.http(
            "GET", f"/api/v1{path}?{urlencode(query)}", headers=bearer(token)
        )
        assert answer.status == 200 or (token == callers.narrow and answer.status == 403)
        assert HIDDEN not in answer.body.decode()


READS = [
    method
    for method in wire.methods()
    if method.split("/")[1].startswith(("List", "Get", "Describe", "Cluster"))
    and not method.startswith("SecurityAdmin/")
]


def fields_of(method: str) -> Mapping[str, str]:
    taken = wire.pool().FindMessageTypeByName(f"{wire.PACKAGE}.{wire.methods()[method][0]}")
    names = {"name": TOPIC, "topic": TOPIC, "subscription": SEEN, "broker_id": "broker-1"}
    if taken.name == "NamespaceRequest":
        names["name"] = "default"
    return {field: value for field, value in names.items() if field in taken.fields_by_name}


@pytest.mark.parametrize("method", READS)
async def test_danubes_admin_tools_are_told_nothing_that_is_hidden(
    guarded: Guarded, callers: Callers, method: str
) -> None:
    for token in (callers.denied, callers.narrow):
        async with admin_calls(guarded, token) as calls:
            answered = True
            try:
                shown = str(await calls(method, **fields_of(method)))
            except grpc.aio.AioRpcError as error:
                answered, shown = False, error.details() or ""
            assert HIDDEN not in shown
            assert answered or token == callers.narrow, shown
            assert token == callers.narrow or "Topics" not in method or SEEN in shown


async def test_danubes_schema_registry_names_no_hidden_subject(
    guarded: Guarded, callers: Callers
) -> None:
    for token, expected in ((ROOT, True), (callers.denied, False), (callers.narrow, False)):
        async with admin_calls(guarded, token) as calls:
            asked = danube_schema_pb2.ListSubjectsRequest().SerializeToString()
            path = "/danube_schema.SchemaRegistry/ListSubjects"
            assert (HIDDEN.encode() in await calls.raw(path, asked)) is expected
        if token != ROOT:
            async with guarded.connect(token) as client:
                with pytest.raises(Refused, match="may not look up"):
                    await client.admin("schema.get", {"subject": HIDDEN})


async def test_metrics_name_nothing_that_is_hidden(guarded: Guarded, callers: Callers) -> None:
    async def shown(token: str) -> str:
        answer = await guarded.http("GET", "/metrics", headers=bearer(token))
        assert answer.status == 200
        return answer.body.decode()

    everything, denied, narrow = [
        await shown(each) for each in (ROOT, callers.denied, callers.narrow)
    ]
    for series in (
        f'{{topic="{TOPIC}",subscription="{HIDDEN}"}}',
        f'{{topic="{HIDDEN_TOPIC}"}}',
        f'scope="namespace",name="{HIDDEN}"',
    ):
        assert series in everything
    for each in (denied, narrow):
        assert HIDDEN not in each
        assert f'{{topic="{TOPIC}",subscription="{SEEN}"}}' in each
    assert "sulina_broker_messages_in_total" in denied
    assert "sulina_broker_messages_in_total" not in narrow


@pytest.mark.parametrize(
    ("grants", "denied", "scope", "seen"),
    [
        ("namespaces:/shop/*", "", "/shop/orders", True),
        ("namespaces:/shop/*", "", "/other/orders", False),
        ("namespaces:/shop/*", "lookup:/shop/orders", "/shop/orders", False),
        ("cluster:*", "lookup:/shop/orders", "/shop/orders", False),
        ("cluster:*", "consume:/shop/orders", "/shop/orders", True),
        ("brokers:*", "admin:/shop/*", "/shop/*", False),
        ("admin:*", "lookup:/shop/orders", "/shop/*", True),
        ("topics:/shop/*", "topics:/shop/orders", "/shop/orders", False),
    ],
)
def test_lists_name_what_is_granted_and_not_denied(
    grants: str, denied: str, scope: str, seen: bool
) -> None:
    rules = (Grant.parse(denied),) if denied else ()
    assert Access("x", (Grant.parse(grants),), denied=rules).sees(scope) is seen
