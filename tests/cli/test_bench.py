"""``sulina bench``: it measures with real processes and leaves nothing behind."""

from __future__ import annotations

import signal

from tests.cli.blocking_client import BlockingClient
from tests.cli.runner import SulinaCommand, finish


def test_every_message_is_received_and_the_topic_is_deleted(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    told = sulina("bench", "--topic", topic, "--count", "20000", "--json").json()
    assert told["plan"]["size"] == 100
    assert told["figures"]["messages"] == 20_000
    assert told["figures"]["rate"] > 0 and told["figures"]["megabytes_rate"] > 0
    assert topic not in direct.topics()


def test_it_shares_the_work_and_keeps_the_rate(sulina: SulinaCommand) -> None:
    ran = sulina(
        *("bench", "--count", "301", "--rate", "1000", "--size", "64", "--compression", "zstd"),
        *("--producers", "2", "--consumers", "2"),
    )
    assert "301 of 64 bytes" in ran.stdout
    assert "p99.9" in ran.stdout


def test_an_existing_topic_is_left_alone(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.publish(topic, "precious")
    assert topic in sulina("bench", "--topic", topic, "--seconds", "1", code=1).stderr
    assert direct.read(topic) == ["precious"]


def test_ctrl_c_ends_it_and_deletes_the_topic(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    process = sulina.start("bench", "--topic", topic, "--seconds", "600", "--rate", "10")
    while topic not in direct.topics() or not direct.subscriptions(topic):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert finish(process).code == 130
    assert topic not in direct.topics()
