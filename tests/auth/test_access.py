"""What grants cover, and which JSON Web Tokens are accepted."""

from __future__ import annotations

import pytest

from broker_containers.operations.running import authorize
from broker_containers.security.access import (
    ANYONE,
    BROKERS,
    CLUSTER,
    Access,
    Need,
    of_namespace,
    of_topic,
    topics_of_namespace,
)
from broker_containers.security.errors import Denied, Unauthenticated
from broker_containers.security.jwt import read_jwt
from broker_containers.security.settings import AuthSettings
from sulina.errors import Refused
from sulina.metadata.keys.auth import Grant
from sulina.model import Action
from sulina.operations.declaration import FORWARDED
from tests.auth.broker import JWT_KEY, json_web_token

ORDERS = "/default/orders"
NOW_US = 0


def somebody(*grants: str) -> Access:
    return Access("somebody", tuple(Grant.parse(each) for each in grants))


@pytest.mark.parametrize(
    ("grant", "need", "covered"),
    [
        (f"produce:{ORDERS}", of_topic(Action.PRODUCE, ORDERS), True),
        (f"produce:{ORDERS}", of_topic(Action.CONSUME, ORDERS), False),
        (f"produce:{ORDERS}", of_topic(None, ORDERS), True),
        (f"produce:{ORDERS}", of_topic(Action.PRODUCE, f"{ORDERS}-part-12"), True),
        (f"produce:{ORDERS}", of_topic(Action.PRODUCE, f"{ORDERS}-part-x"), False),
        (f"produce:{ORDERS}", of_topic(Action.PRODUCE, f"{ORDERS}2"), False),
        ("produce:/default/*", of_topic(Action.PRODUCE, ORDERS), True),
        ("produce:/default/*", of_topic(Action.PRODUCE, "/defaulted/orders"), False),
        ("produce:*", of_topic(Action.PRODUCE, ORDERS), True),
        ("produce:*", of_topic(Action.ADMIN, ORDERS), False),
        (f"admin:{ORDERS}", of_topic(Action.CONSUME, ORDERS), True),
        (f"admin:{ORDERS}", of_namespace("default"), False),
        ("admin:/default/*", of_namespace("default"), True),
        ("admin:/default/*", Need(Action.ADMIN, "*"), False),
        ("admin:*", Need(Action.ADMIN, "*"), True),
        ("schemas:orders", Need(Action.SCHEMAS, "orders"), True),
        ("schemas:orders", Need(Action.SCHEMAS, "others"), False),
        (f"schemas:{ORDERS}", of_topic(None, ORDERS), False),
        ("admin:/default/*", Need(Action.SCHEMAS, "/default/orders"), False),
        ("admin:*", Need(Action.SCHEMAS, "orders"), True),
        ("schemas:/default/*", Need(Action.SCHEMAS, ORDERS), True),
        ("schemas:/default/*", Need(Action.SCHEMAS, "orders"), False),
        (f"lookup:{ORDERS}", of_topic(None, ORDERS), True),
        ("lookup:*", of_topic(Action.CONSUME, ORDERS), False),
        (f"topics:{ORDERS}", of_topic(Action.TOPICS, f"{ORDERS}-part-1"), True),
        ("topics:*", of_topic(Action.PRODUCE, ORDERS), False),
        ("topics:*", of_topic(Action.CONSUME, ORDERS), False),
        ("topics:/default/*", of_namespace("default"), False),
        ("topics:/default/*", topics_of_namespace("default"), True),
        (f"topics:{ORDERS}", topics_of_namespace("default"), False),
        ("namespaces:/default/*", topics_of_namespace("default"), True),
        ("namespaces:/default/*", of_namespace("other"), False),
        ("namespaces:*", of_topic(None, ORDERS), False),
        ("cluster:*", CLUSTER, True),
        ("cluster:*", BROKERS, False),
        ("cluster:*", of_topic(None, ORDERS), False),
        ("cluster:*", Need(Action.ADMIN, ORDERS), False),
        ("brokers:*", BROKERS, True),
        ("brokers:*", CLUSTER, False),
        ("admin:*", CLUSTER, True),
        ("admin:/default/*", BROKERS, False),
    ],
)
def test_a_grant_covers_what_it_says_and_nothing_else(
    grant: str, need: Need, covered: bool
) -> None:
    assert somebody(grant).allows(need) is covered


@pytest.mark.parametrize(
    "text",
    [
        "",
        "produce",
        "own:/default/x",
        "produce:",
        "consume:/default",
        "admin:/a/b/c",
        "cluster:/a/*",
        "brokers:/a/b",
        "namespaces:/a/b",
    ],
)
def test_an_invalid_grant_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        Grant.parse(text)


def test_a_denial_says_what_is_missing_and_how_to_get_it() -> None:
    with pytest.raises(Denied, match=f"sulina security grant somebody produce:{ORDERS}"):
        somebody().check(of_topic(Action.PRODUCE, ORDERS))


def test_operations_that_do_not_exist_are_for_administrators() -> None:
    with pytest.raises(Denied):
        authorize(somebody("admin:/default/*", "produce:*"), "made.up", {"topic": ORDERS})
    authorize(somebody("admin:*"), "made.up", {})


def test_reading_a_policy_takes_less_than_changing_it() -> None:
    consumer = somebody(f"consume:{ORDERS}")
    authorize(consumer, "topic.policy", {"topic": ORDERS})
    with pytest.raises(Denied):
        authorize(consumer, "topic.policy", {"topic": ORDERS, "retention_ms": 1})


def test_dead_letters_need_the_right_to_publish() -> None:
    owner = somebody(f"admin:{ORDERS}")
    arguments = {"topic": ORDERS, "subscription": "s", "dead_letter_topic": "/other/letters"}
    with pytest.raises(Denied, match="produce on /other/letters"):
        authorize(owner, "subscription.policy", arguments)


def test_only_brokers_may_mark_a_call_as_forwarded() -> None:
    with pytest.raises(Denied):
        authorize(somebody("admin:*"), "topic.list", {FORWARDED: True})
    authorize(ANYONE, "topic.list", {FORWARDED: True})


def test_a_good_json_web_token_names_its_principal() -> None:
    assert read_jwt(json_web_token("billing"), JWT_KEY, NOW_US).principal == "billing"


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (json_web_token("x", key=b"another key"), "another key"),
        (json_web_token("x", algorithm="none"), "HS256"),
        (json_web_token("x", algorithm="RS256"), "HS256"),
        (json_web_token("x")[:-2], "another key|read"),
        ("a.b.c", "another key|read"),
        ("..", "another key|read"),
        ("é.b.c", "too long"),
    ],
)
def test_an_invalid_json_web_token_is_refused_with_the_reason(token: str, why: str) -> None:
    with pytest.raises(Unauthenticated, match=why):
        read_jwt(token, JWT_KEY, NOW_US)


def test_an_expired_json_web_token_is_refused() -> None:
    with pytest.raises(Unauthenticated, match="expired"):
        read_jwt(json_web_token("x", seconds=60), JWT_KEY, 1 << 60)


def test_secrets_that_can_be_guessed_are_refused() -> None:
    with pytest.raises(Refused):
        AuthSettings("short")
    with pytest.raises(Refused):
        AuthSettings("long enough to be one", b"short")
