"""What may be the name of a topic, a namespace, a subscription, a producer, a consumer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sulina.errors import Refused
from sulina.names import MAX_NAME_LENGTH, TopicName, check_label, check_namespace

local = st.from_regex(r"[A-Za-z0-9_-]{1,60}", fullmatch=True)


@given(local, local)
def test_a_topic_name_reads_back_as_it_was_written(namespace: str, topic: str) -> None:
    name = TopicName.parse(f"/{namespace}/{topic}")
    assert (name.namespace, name.local) == (namespace, topic)
    assert str(name) == f"/{namespace}/{topic}"


@given(st.text(max_size=30))
def test_any_text_is_a_topic_name_or_refused(text: str) -> None:
    try:
        name = TopicName.parse(text)
    except Refused:
        return
    assert str(name) == text
    assert text.isprintable() and not any(map(str.isspace, text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "//",
        "orders",
        "/orders",
        "default/orders",
        "/default/",
        "//orders",
        "/default/orders/",
        "/default/a/b",
        "/default/or ders",
        "/default/orders\n",
        "/default\n/orders",
        "/default/orders\0",
        "/default/../orders",
        "/default/or.ders",
    ],
)
def test_what_is_no_topic_name_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Refused, match="/default/orders"):
        TopicName.parse(text)


def test_a_topic_name_has_a_longest_length() -> None:
    longest = "/default/" + "t" * (MAX_NAME_LENGTH - 9)
    assert str(TopicName.parse(longest)) == longest
    with pytest.raises(Refused, match="at most"):
        TopicName.parse(longest + "t")


@given(local, local, st.integers(0, 4095))
def test_a_partition_knows_its_topic(namespace: str, topic: str, number: int) -> None:
    name = TopicName(namespace, topic)
    partition = name.partition(number)
    assert partition.partition_of == (name, number)
    assert TopicName.parse(str(partition)) == partition


@pytest.mark.parametrize(
    "local", ["orders", "orders-part-", "orders-part-01", "orders-part--1", "-part-1", "a-part-1\n"]
)
def test_what_only_looks_like_a_partition_is_none(local: str) -> None:
    assert TopicName("default", local).partition_of is None


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a\n", "\n", "a.b", "n" * 256])
def test_what_is_no_namespace_is_refused(name: str) -> None:
    with pytest.raises(Refused, match="namespace"):
        check_namespace(name)


def test_a_label_may_be_any_printable_text_of_some_length() -> None:
    for name in ("a", "order service #3", "h\N{LATIN SMALL LETTER E WITH ACUTE}", "x" * 255):
        assert check_label("consumer", name) == name
    for name in ("", "a\n", "\x00", "\ud800", "x" * 256):
        with pytest.raises(Refused, match="consumer"):
            check_label("consumer", name)
