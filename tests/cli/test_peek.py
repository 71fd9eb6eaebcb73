"""``sulina peek``: reading without a subscription."""

from __future__ import annotations

from tests.cli.direct import Direct
from tests.cli.runner import Sulina


def test_it_shows_the_oldest_messages_and_leaves_no_trace(
    sulina: Sulina, direct: Direct, topic: str
) -> None:
    direct.publish(topic, *(str(number) for number in range(12)))
    assert sulina("peek", topic).lines() == [str(number) for number in range(10)]
    assert direct.subscriptions(topic) == []


def test_it_begins_where_it_is_told_and_stops_at_the_count(
    sulina: Sulina, direct: Direct, topic: str
) -> None:
    direct.publish(topic, "a", "b", "c", "d")
    assert sulina("peek", topic, "--from", "1", "--count", "2").lines() == ["b", "c"]
    assert sulina("peek", topic, "--last", "2", "--show-offset").lines() == ["2\tc", "3\td"]
    assert sulina("peek", topic, "--from", "latest").lines() == []


def test_it_shows_all_partitions(sulina: Sulina, direct: Direct, topic: str) -> None:
    direct.admin("topic.create", topic=topic, partitions=2)
    numbers = [str(number) for number in range(20)]
    direct.publish(topic, *numbers, keys=numbers)
    found = sulina("peek", topic, "--count", "20", "--json").json_lines()
    assert {each["topic"] for each in found} == {f"{topic}-part-0", f"{topic}-part-1"}
    assert sorted(int(each["payload"]) for each in found) == list(range(20))


def test_a_topic_that_is_missing_is_an_error_with_a_remedy(sulina: Sulina, topic: str) -> None:
    ran = sulina("peek", topic, code=1)
    assert ran.stderr.startswith("sulina: ") and topic in ran.stderr


def test_from_and_last_together_are_a_usage_error(sulina: Sulina, topic: str) -> None:
    assert "not both" in sulina("peek", topic, "--from", "1", "--last", "1", code=2).stderr
