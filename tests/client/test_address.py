"""URLs of brokers."""

from __future__ import annotations

import pytest

from sulina.client.address import Address, parse_addresses
from sulina.errors import Refused


def test_a_url_names_a_host_and_a_port() -> None:
    assert parse_addresses("sulina://127.0.0.1:6655") == (Address("127.0.0.1", 6655),)


def test_the_port_may_be_left_out() -> None:
    assert parse_addresses("sulina://broker") == (Address("broker", 6655),)


def test_tls_is_asked_for_by_the_scheme() -> None:
    assert parse_addresses("sulina+tls://b.example:1/") == (Address("b.example", 1, secure=True),)


def test_several_brokers_are_divided_by_commas() -> None:
    assert parse_addresses("sulina://a:1,b") == (Address("a", 1), Address("b", 6655))


def test_an_ipv6_address_stands_in_brackets() -> None:
    (address,) = parse_addresses("sulina://[::1]:7000")
    assert address == Address("::1", 7000)
    assert str(address) == "[::1]:7000"
    assert parse_addresses("sulina://[::1]") == (Address("::1", 6655),)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:6655",
        "http://broker:6655",
        "sulina://",
        "sulina://a,,b",
        "sulina://a:",
        "sulina://a:zero",
        "sulina://a:70000",
        "sulina://:6655",
        "sulina://a:1/topic",
        "sulina://[::1",
        "sulina://[::1]7",
    ],
)
def test_anything_else_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(Refused, match=r"sulina://127\.0\.0\.1:6655"):
        parse_addresses(url)
