"""``sulina topic``, ``subscription``, ``namespace``; errors are one sentence with a remedy."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest

from tests.cli.runner import COMMAND, BlockingClient, SulinaCommand, finish


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


def test_dead_letters_are_replayed_from_where_it_ended_last(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    letters = f"{topic}-failed"
    direct.admin("topic.create", topic=letters)
    direct.publish(letters, "of somebody else")
    sulina("produce", letters, "one", "two", "--attribute", f"x-original-topic={topic}")
    ran = sulina("topic", "replay", letters, "--count", "2")
    assert ran.lines() == [
        f"{letters}: replayed 1 message (1 to {topic}); 1 message without an origin left out; "
        "continue with --from 2"
    ]
    [found] = sulina("topic", "replay", letters, "--from", "2", "--json").json()
    assert (found["replayed"], found["next_offset"]) == (1, 3)
    assert direct.read(topic) == ["one", "two"]


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


@pytest.fixture
def nobody() -> SulinaCommand:
    """A URL on which nothing listens."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return SulinaCommand(f"sulina://127.0.0.1:{probe.getsockname()[1]}")


@pytest.mark.parametrize(
    "command",
    [
        ("ping",),
        ("produce", "/default/t", "x"),
        ("consume", "/default/t"),
        ("peek", "/default/t"),
        ("bench",),
        ("topic", "list"),
    ],
)
def test_without_a_broker_the_error_names_the_remedy(
    nobody: SulinaCommand, command: tuple[str, ...]
) -> None:
    ran = nobody(*command, code=3)
    address = nobody.url.removeprefix("sulina://")
    assert ran.stderr == f"sulina: no broker at {address}: is `sulina up` running?\n"
    assert ran.stdout == ""


def test_with_json_the_error_is_json_too(nobody: SulinaCommand) -> None:
    told = json.loads(nobody("ping", "--json", code=3).stderr)
    assert told["error"] == "Unavailable"
    assert "is `sulina up` running?" in told["message"]


def test_debugging_prints_the_traceback(nobody: SulinaCommand) -> None:
    done = subprocess.run(
        [*COMMAND, "ping"],
        env={**nobody.environment, "SULINA_DEBUG": "1"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert b"Traceback" in done.stderr


def test_an_invalid_url_is_explained(nobody: SulinaCommand) -> None:
    ran = nobody("ping", "--url", "http://127.0.0.1", code=1)
    assert "use sulina://host:port" in ran.stderr


@pytest.mark.parametrize(
    ("command", "remedy"),
    [
        (("topic", "create", "orders"), "use /namespace/topic"),
        (("namespace", "create", "a/b"), "use letters, digits"),
        (("nonsense",), "No such command"),
        (("ping", "--timeout", "0"), "--timeout"),
        (("bench", "--count", "1", "--seconds", "1"), "not both"),
    ],
)
def test_an_invalid_command_line_fails_before_anything_is_done(
    nobody: SulinaCommand, command: tuple[str, ...], remedy: str
) -> None:
    assert remedy in nobody(*command, code=2).stderr


def test_a_missing_subscription_is_named(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.admin("topic.create", topic=topic)
    ran = sulina("subscription", "describe", topic, "none", code=1)
    assert "'none'" in ran.stderr and ran.stderr.count("\n") == 1


def test_a_flag_overrides_the_environment_and_the_last_one_wins(
    sulina: SulinaCommand, nobody: SulinaCommand
) -> None:
    assert nobody("--url", sulina.url, "ping").code == 0
    assert nobody("--url", nobody.url, "ping", "--url", sulina.url).code == 0


def test_without_its_packages_the_command_line_says_what_to_install() -> None:
    program = "import sys; sys.modules['click'] = None; from sulina.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "ping"],
        env=dict(os.environ),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    text = done.stderr.decode()
    assert "pip install 'sulina[cli]'" in text and "Traceback" not in text
