"""``sulina topic``, ``subscription`` and ``namespace``: for people and for scripts."""

from __future__ import annotations

import os
import pty

from tests.cli.blocking_client import BlockingClient
from tests.cli.runner import SulinaCommand, finish


def test_a_topic_is_created_listed_described_and_deleted(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    assert sulina("topic", "create", topic).stdout == f"created topic {topic}\n"
    direct.publish(topic, "x")
    assert topic in sulina("topic", "list", "--namespace", "default").stdout
    listed = {row["topic"]: row for row in sulina("topic", "list", "--json").json()}
    assert listed[topic]["records"] == 1
    shown = sulina("topic", "describe", topic).stdout
    assert "reliable" in shown and "records" in shown
    assert sulina("topic", "delete", topic).stdout == f"deleted topic {topic}\n"
    assert topic not in direct.topics()


def test_creating_an_existing_topic_fails(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.admin("topic.create", topic=topic)
    ran = sulina("topic", "create", topic, "--json", code=1)
    assert '"error": "AlreadyExists"' in ran.stderr
    assert ran.stdout == ""


def test_partitions_are_listed_with_all(sulina: SulinaCommand, topic: str) -> None:
    made = sulina("topic", "create", topic, "--partitions", "2", "--non-reliable", "--json").json()
    assert made == {"topic": topic, "delivery": "non_reliable", "partitions": 2}
    plain = [row["topic"] for row in sulina("topic", "list", "--json").json()]
    assert topic in plain and f"{topic}-part-1" not in plain
    everything = [row["topic"] for row in sulina("topic", "list", "--all", "--json").json()]
    assert f"{topic}-part-1" in everything


def test_deleting_asks_for_confirmation_on_a_terminal(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.admin("topic.create", topic=topic)
    person, terminal = pty.openpty()
    process = sulina.start("topic", "delete", topic, stdin=terminal, stderr=terminal)
    os.write(person, b"n\n")
    assert finish(process).code == 1
    os.close(terminal)
    os.close(person)
    assert topic in direct.topics()


def test_a_subscription_is_created_moved_described_and_deleted(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.publish(topic, "a", "b", "c")
    sulina("subscription", "create", topic, "s", "--type", "shared")
    [row] = direct.subscriptions(topic)
    assert (row["subscription"], row["type"], row["position"]) == ("s", "shared", 3)
    moved = sulina("subscription", "seek", topic, "s", "--to", "earliest").stdout
    assert moved == f"subscription s of {topic} is now at 0\n"
    assert "backlog" in sulina("subscription", "describe", topic, "s").stdout
    [described] = sulina("subscription", "describe", topic, "s", "--json").json()
    assert described["backlog"] == 3
    assert "shared" in sulina("subscription", "list", topic).stdout
    sulina("subscription", "delete", topic, "s")
    assert sulina("subscription", "list", topic).stdout == f"{topic} has no subscriptions\n"


def test_a_failure_policy_is_shown_and_changed_in_part(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.admin("topic.create", topic=topic)
    direct.admin("subscription.create", topic=topic, subscription="s")
    command = ("subscription", "policy", topic, "s")
    [before] = sulina(*command, "--json").json()
    sulina(*command, "--ack-timeout-ms", "1234", "--backoff", "fixed")
    [after] = sulina(*command, "--json").json()
    assert after == {**before, "ack_timeout_ms": 1234, "backoff": "fixed"}
    ran = sulina(*command, "--poison", "dead_letter", code=1)
    assert "dead_letter_topic" in ran.stderr


def test_the_limit_of_unacknowledged_messages_is_shown_and_changed(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.admin("topic.create", topic=topic)
    direct.admin("subscription.create", topic=topic, subscription="s")
    command = ("subscription", "dispatch", topic, "s")
    assert "no limit" in sulina(*command).stdout
    assert sulina(*command, "--max-unacked", "12", "--json").json() == [{"max_unacked": 12}]
    shown = sulina("subscription", "describe", topic, "s").stdout
    assert "max unacked" in shown and "12" in shown


def test_a_subscription_command_works_on_every_partition(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.admin("topic.create", topic=topic, partitions=3)
    assert len(sulina("subscription", "create", topic, "s", "--json").json()) == 3
    assert len(sulina("subscription", "seek", topic, "s", "--to", "earliest", "--json").json()) == 3
    sulina("subscription", "delete", topic, "s")
    assert sulina("subscription", "list", topic, "--json").json() == []


def test_a_namespace_is_created_listed_described_and_deleted(
    sulina: SulinaCommand, direct: BlockingClient
) -> None:
    sulina("namespace", "create", "shop")
    assert {"namespace": "shop"} in sulina("namespace", "list", "--json").json()
    assert "shop" in sulina("namespace", "list").stdout
    assert sulina("namespace", "describe", "shop", "--json").json()["topics"] == 0
    assert "no limit" in sulina("namespace", "describe", "shop").stdout
    direct.admin("topic.create", topic="/shop/orders")
    assert "shop" in sulina("namespace", "delete", "shop", code=1).stderr
    direct.admin("topic.delete", topic="/shop/orders")
    sulina("namespace", "delete", "shop")
    assert "shop" not in direct.admin("namespace.list")


def test_ping_prints_the_round_trip_time(sulina: SulinaCommand) -> None:
    assert f"{sulina.url} answers in " in sulina("ping").stdout
    told = sulina("--json", "ping", "--count", "3").json()
    assert len(told["milliseconds"]) == told["count"] == 3
