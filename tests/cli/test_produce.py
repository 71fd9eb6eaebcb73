"""``sulina produce``: arguments, standard input, files, keys, rates; and ``sulina bench``."""

from __future__ import annotations

import os
import pty
import signal
import time
from pathlib import Path

from tests.cli.runner import BlockingClient, SulinaCommand, finish


def test_arguments_are_published_and_the_last_offset_is_printed(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    ran = sulina("produce", topic, "one", "two", "three")
    assert ran.stdout.startswith(f"published 3 messages (11 B) to {topic} in ")
    assert ran.stdout.endswith("last offset 2\n")
    assert direct.read(topic) == ["one", "two", "three"]


def test_json_has_messages_bytes_rate_and_the_last_offset(
    sulina: SulinaCommand, topic: str
) -> None:
    told = sulina("produce", topic, "one", "two", "--json").json()
    assert (told["topic"], told["messages"], told["bytes"]) == (topic, 2, 6)
    assert told["last"] == {"topic": topic, "offset": 1}
    assert told["rate"] > 0 and told["seconds"] > 0


def test_every_line_of_standard_input_is_a_message(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    sulina("produce", topic, input="first\n\nthird without an end")
    assert direct.read(topic) == ["first", "", "third without an end"]


def test_a_long_input_arrives_whole_and_in_order(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    lines = [f"line {number}" for number in range(50_000)]
    told = sulina("produce", topic, "--compression", "lz4", "--json", input="\n".join(lines)).json()
    assert told["messages"] == 50_000
    assert direct.read(topic) == lines


def test_lines_are_published_as_they_arrive(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    process = sulina.start("produce", topic)
    assert process.stdin is not None
    process.stdin.write(b"early\n")
    process.stdin.flush()
    direct.wait_for(topic, 1)
    assert process.poll() is None
    process.stdin.write(b"late\n")
    assert finish(process).code == 0
    assert direct.read(topic) == ["early", "late"]


def test_ctrl_c_publishes_and_reports_what_was_read(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    process = sulina.start("produce", topic)
    assert process.stdin is not None
    process.stdin.write(b"one\ntwo\n")
    process.stdin.flush()
    direct.wait_for(topic, 2)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert finish(process).stdout.startswith("published 2 messages")


def test_files_are_read_one_after_the_other(
    sulina: SulinaCommand, direct: BlockingClient, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("a1\na2\n")
    (tmp_path / "b").write_text("b1")
    sulina("produce", topic, "--file", str(tmp_path / "a"), "--file", str(tmp_path / "b"))
    assert direct.read(topic) == ["a1", "a2", "b1"]


def test_a_whole_file_is_one_message_byte_for_byte(
    sulina: SulinaCommand, topic: str, tmp_path: Path
) -> None:
    content = bytes(range(256))
    (tmp_path / "image").write_bytes(content)
    sulina("produce", topic, "--file", str(tmp_path / "image"), "--whole-file", "--key", "k")
    [found] = sulina("peek", topic, "--json").json_lines()
    assert found["key"] == "k"
    assert sulina("peek", topic, "--format", "hex").stdout == content.hex() + "\n"


def test_the_key_can_precede_a_separator(sulina: SulinaCommand, topic: str) -> None:
    sulina("produce", topic, "7:Ada: the first", "nobody", "--key-separator", ":")
    found = sulina("peek", topic, "--json").json_lines()
    assert [(each["key"], each["payload"]) for each in found] == [
        ("7", "Ada: the first"),
        (None, "nobody"),
    ]


def test_attributes_go_with_every_message(sulina: SulinaCommand, topic: str) -> None:
    sulina("produce", topic, "x", "y", "--attribute", "source=test", "--attribute", "note=a=b")
    found = sulina("peek", topic, "--json").json_lines()
    assert [each["attributes"] for each in found] == [{"source": "test", "note": "a=b"}] * 2


def test_count_repeats_arguments_and_cuts_input(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    sulina("produce", topic, "a", "b", "--count", "5")
    sulina("produce", topic, "--count", "2", input="c\nd\ne\n")
    assert direct.read(topic) == ["a", "b", "a", "b", "a", "c", "d"]


def test_a_rate_is_not_exceeded(sulina: SulinaCommand, topic: str) -> None:
    told = sulina("produce", topic, "x", "--count", "60", "--rate", "100", "--json").json()
    assert told["messages"] == 60
    assert told["seconds"] >= 0.5  # never shorter: this is no matter of how fast the machine is


def test_a_named_producer_continues_its_sequence(sulina: SulinaCommand, topic: str) -> None:
    sulina("produce", topic, "a", "b", "--producer-name", "meter-1")
    sulina("produce", topic, "c", "--producer-name", "meter-1")
    found = sulina("peek", topic, "--json").json_lines()
    assert [each["producer"] for each in found] == ["meter-1"] * 3
    assert [each["sequence"] for each in found] == [0, 1, 2]


def test_a_non_reliable_topic_is_created_on_request(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    sulina("produce", topic, "x", "--non-reliable")
    assert direct.admin("topic.describe", topic=topic)["delivery"] == "non_reliable"


def test_long_work_shows_a_progress_bar_on_a_terminal(sulina: SulinaCommand, topic: str) -> None:
    screen, terminal = pty.openpty()
    process = sulina.start("produce", topic, "x", "--count", "60", "--rate", "60", stderr=terminal)
    os.close(terminal)
    shown = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            shown += os.read(screen, 65536)
        except OSError:  # this is how a terminal says that the other side has left
            break
    os.close(screen)
    assert finish(process).code == 0
    assert b"publishing" in shown


def test_control_characters_reach_pipes_and_not_terminals(
    sulina: SulinaCommand, topic: str
) -> None:
    evil = "\x1b]0;owned\x07 \u202eabc\u009b31m\tend"
    sulina("produce", topic, input=evil.encode() + b"\n")
    sulina("produce", topic, "x", "--attribute", f"a={evil}")
    assert sulina("peek", topic, "--count", "1").stdout == f"{evil}\n"
    for words in (("--show-attributes",), ("--format", "raw"), ("--json",)):
        shown = screen_of(sulina, "peek", topic, "--count", "2", *words).decode()
        assert "owned" in shown
        assert not {"\x1b", "\x07", "\u202e", "\u009b"} & set(shown)


def screen_of(sulina: SulinaCommand, *words: str) -> bytes:
    """What a command writes to a terminal."""
    screen, terminal = pty.openpty()
    process = sulina.start(*words, stdout=terminal)
    os.close(terminal)
    shown = b""
    while True:
        try:
            shown += os.read(screen, 65536)
        except OSError:  # this is how a terminal says that the other side has left
            break
    os.close(screen)
    assert finish(process).code == 0
    return shown


def test_a_line_larger_than_a_message_is_refused(sulina: SulinaCommand, topic: str) -> None:
    ran = sulina("produce", topic, input=b"x" * (17 << 20), code=1)
    assert "a line is longer than 16 MiB" in ran.stderr


def test_contradicting_sources_and_keys_are_usage_errors(sulina: SulinaCommand, topic: str) -> None:
    assert "not both" in sulina("produce", topic, "x", "--file", "-", code=2).stderr
    ran = sulina("produce", topic, "x", "--key", "k", "--key-separator", ":", code=2)
    assert "not both" in ran.stderr
    ran = sulina("produce", topic, "x", "--attribute", "nothing", code=2)
    assert "write name=value" in ran.stderr


def test_delayed_messages_are_stored_now_and_delivered_later(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    sulina("produce", topic, "in a while", "--delay", "2h")
    sulina("produce", topic, "late", "--deliver-at", "2020-01-01T12:30Z", "--delay", "1s", code=2)
    sulina("produce", topic, "at once")
    assert direct.read(topic) == ["in a while", "at once"]
    ran = sulina("consume", topic, "--subscription", "s", "--from", "earliest", "--count", "1")
    assert ran.stdout == "at once\n"


def test_invalid_times_are_refused_with_an_example(sulina: SulinaCommand, topic: str) -> None:
    for option, value in (("--delay", "soon"), ("--delay", "-1s"), ("--deliver-at", "tomorrow")):
        ran = sulina("produce", topic, "x", option, value, code=2)
        assert "write one such as" in ran.stderr


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
