"""``sulina consume`` and ``sulina peek``: printing, acknowledging, positions, and how they end."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta

import pytest

from tests.cli.runner import BlockingClient, SulinaCommand, finish


def test_messages_are_printed_one_per_line(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.publish(topic, "one", "two", "three")
    ran = sulina("consume", topic, "--from", "earliest", "--count", "2")
    assert ran.lines() == ["one", "two"]


def test_only_printed_messages_are_acknowledged(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.publish(topic, "one", "two", "three")
    first = ("consume", topic, "--subscription", "s", "--from", "earliest", "--count", "2")
    assert sulina(*first).lines() == ["one", "two"]
    rest = ("consume", topic, "--subscription", "s", "--count", "1")
    assert sulina(*rest).lines() == ["three"]
    [row] = direct.subscriptions(topic)
    assert (row["position"], row["backlog"]) == (3, 0)


def test_without_acknowledgement_messages_are_redelivered(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.publish(topic, "one", "two")
    command = ("consume", topic, "--subscription", "s", "--from", "earliest", "--count", "2")
    assert sulina(*command, "--no-ack").lines() == ["one", "two"]
    assert sulina(*command).lines() == ["one", "two"]


def test_the_temporary_subscription_is_deleted_afterwards(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.publish(topic, "one")
    sulina("consume", topic, "--from", "earliest", "--count", "1")
    assert direct.subscriptions(topic) == []


def test_it_ends_at_the_timeout_and_fails_only_with_a_count(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.publish(topic, "one")
    command = ("consume", topic, "--from", "earliest", "--timeout", "0.3")
    assert sulina(*command).lines() == ["one"]
    ran = sulina(*command, "--count", "5", code=1)
    assert ran.lines() == ["one"]
    assert "received 1 message of 5" in ran.stderr


def test_json_lines_have_all_fields(sulina: SulinaCommand, topic: str) -> None:
    origin = ("--attribute", "a=b", "--producer-name", "p", "--expires", "1h")
    sulina("produce", topic, "payload", "--key", "k", *origin)
    [found] = sulina("consume", topic, "--from", "earliest", "--count", "1", "--json").json_lines()
    assert datetime.fromisoformat(found.pop("publish_time")).tzinfo is UTC
    assert found.pop("publish_time_us") > 0
    assert datetime.fromisoformat(found.pop("expires_at")).tzinfo is UTC
    assert found == {
        "topic": topic,
        "partition": None,
        "offset": 0,
        "deliver_at": None,
        "key": "k",
        "attributes": {"a": "b"},
        "producer": "p",
        "sequence": 0,
        "schema_id": 0,
        "schema_version": 0,
        "attempt": 1,
        "payload": "payload",
    }


def test_binary_payloads_are_printed_as_base64_hex_or_raw(
    sulina: SulinaCommand, topic: str
) -> None:
    sulina("produce", topic, input=b"\xff\x00\n\xfe")
    command = ("consume", topic, "--from", "earliest", "--count", "2")
    found = sulina(*command, "--json").json_lines()
    assert [each["payload_base64"] for each in found] == ["/wA=", "/g=="]
    assert sulina(*command, "--format", "hex").lines() == ["ff00", "fe"]
    process = sulina.start(*command, "--format", "raw")
    assert process.communicate(timeout=60)[0] == b"\xff\x00\xfe"


def test_key_offset_and_attributes_can_be_printed_before_a_message(
    sulina: SulinaCommand, topic: str
) -> None:
    sulina("produce", topic, "v", "--key", "k", "--attribute", "a=b")
    shown = ("--show-key", "--show-offset", "--show-attributes", "--show-topic")
    ran = sulina("consume", topic, "--from", "earliest", "--count", "1", *shown)
    assert ran.lines() == [f'{topic}\t0\tk\t{{"a": "b"}}\tv']


def test_it_starts_at_an_offset_or_at_a_time(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.publish(topic, "a", "b", "c")
    assert sulina("consume", topic, "--from", "1", "--count", "2").lines() == ["b", "c"]
    past = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    assert sulina("consume", topic, "--from", past, "--count", "3").lines() == ["a", "b", "c"]
    ran = sulina("consume", topic, "--from", "yesterday", code=2)
    assert "write latest, earliest, an offset" in ran.stderr


def test_all_partitions_of_a_topic_are_consumed(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.admin("topic.create", topic=topic, partitions=3)
    numbers = [str(number) for number in range(30)]
    direct.publish(topic, *numbers, keys=numbers)
    command = ("consume", topic, "--from", "earliest", "--count", "30", "--json")
    found = sulina(*command, "--subscription", "s", "--type", "key_shared").json_lines()
    assert sorted(int(each["payload"]) for each in found) == list(range(30))
    assert {each["partition"] for each in found} == {0, 1, 2}


def test_only_keys_that_match_a_filter_are_received(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.publish(topic, "x", "y", "z", keys=["a1", "b1", "a2"])
    command = ("consume", topic, "--from", "earliest", "--type", "key_shared", "--timeout", "1")
    assert sulina(*command, "--key-filter", "a*").lines() == ["x", "z"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_keeps_the_acknowledgements(
    sulina: SulinaCommand, direct: BlockingClient, topic: str, number: signal.Signals
) -> None:
    direct.publish(topic, "one", "two")
    process = sulina.start("consume", topic, "--subscription", "s", "--from", "earliest")
    assert process.stdout is not None
    assert [process.stdout.readline(), process.stdout.readline()] == [b"one\n", b"two\n"]
    process.send_signal(number)
    assert finish(process).code == 130
    [row] = direct.subscriptions(topic)
    assert (row["backlog"], row["consumers"]) == (0, 0)


def test_it_ends_when_its_reader_closes_the_pipe(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.publish(topic, "one")
    process = sulina.start("consume", topic, "--from", "earliest")
    assert process.stdout is not None
    assert process.stdout.readline() == b"one\n"
    process.stdout.close()  # no further message comes, so no write would fail
    assert process.wait(60) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert direct.subscriptions(topic) == []


def test_it_ends_silently_when_the_pipe_breaks_during_a_write(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.publish(topic, *["x" * 1000] * 2000)
    process = sulina.start("consume", topic, "--from", "earliest")
    assert process.stdout is not None
    assert process.stdout.read(10) == b"x" * 10
    process.stdout.close()
    assert process.wait(60) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()


def test_it_prints_the_oldest_messages_and_changes_nothing(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.publish(topic, *(str(number) for number in range(12)))
    assert sulina("peek", topic).lines() == [str(number) for number in range(10)]
    assert direct.subscriptions(topic) == []


def test_it_starts_at_the_position_and_stops_at_the_count(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.publish(topic, "a", "b", "c", "d")
    assert sulina("peek", topic, "--from", "1", "--count", "2").lines() == ["b", "c"]
    assert sulina("peek", topic, "--last", "2", "--show-offset").lines() == ["2\tc", "3\td"]
    assert sulina("peek", topic, "--from", "latest").lines() == []


def test_peek_finds_messages_by_key_and_text(sulina: SulinaCommand, topic: str) -> None:
    sulina("produce", topic, "a tea", "a coffee", "--key", "customer-1")
    sulina("produce", topic, "more tea", "--key", "customer-2")
    assert sulina("peek", topic, "--key", "customer-2").lines() == ["more tea"]
    assert sulina("peek", topic, "--text", "tea").lines() == ["a tea", "more tea"]
    assert sulina("peek", topic, "--text", "tea", "--count", "1").lines() == ["a tea"]
    assert sulina("peek", topic, "--text", "tea", "--last", "1").lines() == ["more tea"]
    assert sulina("peek", topic, "--key", "customer").lines() == []


def test_it_reads_all_partitions_by_time(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.admin("topic.create", topic=topic, partitions=3)
    numbers = [str(number) for number in range(20)]
    for number in numbers:  # one by one: messages of a frame may have the same time
        kind = "odd" if int(number) % 2 else "even"
        direct.publish(topic, f"{number} {kind}", keys=[number])
    found = sulina("peek", topic, "--count", "12", "--json").json_lines()
    assert [each["key"] for each in found] == numbers[:12]
    assert {each["topic"] for each in found} == {f"{topic}-part-{part}" for part in range(3)}
    newest = sulina("peek", topic, "--last", "5", "--format", "json").json_lines()
    assert [each["key"] for each in newest] == numbers[-5:]
    even = sulina("peek", topic, "--text", "even", "--last", "3").lines()
    assert even == ["14 even", "16 even", "18 even"]
    assert sulina("peek", topic, "--key", "7").lines() == ["7 odd"]
    time = found[9]["publish_time"]
    assert sulina("peek", topic, "--from", time, "--count", "2").lines() == ["9 odd", "10 even"]


def test_a_missing_topic_is_an_error_with_a_remedy(sulina: SulinaCommand, topic: str) -> None:
    ran = sulina("peek", topic, code=1)
    assert ran.stderr.startswith("sulina: ") and topic in ran.stderr


def test_from_and_last_together_are_a_usage_error(sulina: SulinaCommand, topic: str) -> None:
    assert "not both" in sulina("peek", topic, "--from", "1", "--last", "1", code=2).stderr
