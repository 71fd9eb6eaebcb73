"""``sulina peek``: reading without a subscription."""

from __future__ import annotations

from tests.cli.blocking_client import BlockingClient
from tests.cli.runner import SulinaCommand


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


def test_it_prints_all_partitions(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.admin("topic.create", topic=topic, partitions=2)
    numbers = [str(number) for number in range(20)]
    direct.publish(topic, *numbers, keys=numbers)
    found = sulina("peek", topic, "--count", "20", "--json").json_lines()
    assert {each["topic"] for each in found} == {f"{topic}-part-0", f"{topic}-part-1"}
    assert sorted(int(each["payload"]) for each in found) == list(range(20))


def test_a_missing_topic_is_an_error_with_a_remedy(sulina: SulinaCommand, topic: str) -> None:
    ran = sulina("peek", topic, code=1)
    assert ran.stderr.startswith("sulina: ") and topic in ran.stderr


def test_from_and_last_together_are_a_usage_error(sulina: SulinaCommand, topic: str) -> None:
    assert "not both" in sulina("peek", topic, "--from", "1", "--last", "1", code=2).stderr
