"""Connections: URLs of brokers, silent connections, and peers that are not brokers."""

from __future__ import annotations

import asyncio

import pytest

import sulina
from sulina.client.address import Address, parse_addresses
from sulina.errors import Closed, NotFound, Refused, Unavailable, UnknownOutcome
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import Command, error_body
from tests.client.bench import Bench, until


async def test_the_client_introduces_itself(bench: Bench) -> None:
    await bench.client(token="secret", name="me")
    (hello,) = bench.broker.bodies(Command.CONNECT)
    assert (hello.protocol, hello.client, hello.token) == (1, "me", "secret")


async def test_a_first_connection_that_fails_is_told_at_once(bench: Bench) -> None:
    bench.network.reachable = False
    with pytest.raises(Unavailable, match="no broker at broker:6655"):
        await bench.client()
    assert len(bench.network.dials) == 1


async def test_each_address_is_tried_once(bench: Bench) -> None:
    bench.network.reachable = False
    with pytest.raises(Unavailable, match=r"a:1.*b:2"):
        await bench.client("sulina://a:1,b:2")
    assert [host for host, _, _ in bench.network.dials] == ["a", "b"]


async def test_a_broker_that_does_not_answer_is_given_up(bench: Bench) -> None:
    bench.broker.silent.add(Command.CONNECT)
    with pytest.raises(Unavailable, match="no answer from broker:6655 within 10 s"):
        await bench.eventually(bench.client())


async def test_a_refused_introduction_is_raised(bench: Bench) -> None:
    bench.broker.answers[Command.CONNECT] = [Refused("the token is not valid")]
    with pytest.raises(Refused, match="token"):
        await bench.client()


async def test_a_peer_that_hangs_up_is_perhaps_no_broker(bench: Bench) -> None:
    bench.broker.silent.add(Command.CONNECT)
    opening = asyncio.ensure_future(bench.client())
    await until(lambda: bool(bench.broker.peers))
    bench.broker.peer.stream.close()
    with pytest.raises(Unavailable, match="is it a broker's binary port"):
        await opening


async def test_a_peer_that_speaks_another_protocol_is_named(bench: Bench) -> None:
    bench.broker.silent.add(Command.CONNECT)
    opening = asyncio.ensure_future(bench.client())
    await until(lambda: bool(bench.network.links))
    bench.network.links[0].other.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(Refused, match="does not speak the broker protocol"):
        await opening


async def test_ping_measures_the_way(bench: Bench, client: sulina.Client) -> None:
    assert await client.ping() == 0.0  # the clock stands still


async def test_the_client_answers_pings(bench: Bench, client: sulina.Client) -> None:
    bench.broker.peer.send(Command.PING, pb.Ping())
    await until(lambda: bool(bench.broker.bodies(Command.PONG)))


async def test_a_quiet_connection_is_kept_by_pings(bench: Bench, client: sulina.Client) -> None:
    await bench.clock.advance(100)
    assert len(bench.broker.bodies(Command.PING)) >= 9
    assert len(bench.network.dials) == 1


async def test_a_client_that_only_listens_pings_too(bench: Bench, client: sulina.Client) -> None:
    for _ in range(30):
        await bench.clock.advance(2)
        bench.broker.peer.send(Command.PING, pb.Ping())  # so that it hears something
    assert len(bench.broker.bodies(Command.PING)) >= 4


async def test_a_silent_connection_counts_as_lost(bench: Bench, client: sulina.Client) -> None:
    async with client.consumer("/default/t", "s"):
        bench.broker.silent.add(Command.PING)
        await bench.clock.advance(8)
        assert len(bench.network.dials) == 1
        await bench.clock.advance(5)
        assert len(bench.network.dials) == 2
        assert len(bench.broker.bodies(Command.SUBSCRIBE)) == 2


async def test_a_request_on_a_lost_connection_has_an_unknown_outcome(
    bench: Bench, client: sulina.Client
) -> None:
    bench.broker.silent.add(Command.ADMIN)
    calling = asyncio.ensure_future(client.admin("topic.delete", {"topic": "/default/t"}))
    await until(lambda: bool(bench.broker.bodies(Command.ADMIN)))
    bench.network.cut()
    with pytest.raises(UnknownOutcome, match="was lost"):
        await calling


async def test_a_request_has_a_deadline(bench: Bench, client: sulina.Client) -> None:
    bench.broker.silent.add(Command.ADMIN)
    with pytest.raises(UnknownOutcome, match="did not answer ADMIN within 30 s"):
        await bench.eventually(client.admin("topic.list"))


async def test_the_brokers_errors_are_raised_as_they_are(
    bench: Bench, client: sulina.Client
) -> None:
    bench.broker.answers[Command.ADMIN] = [NotFound("no such namespace")]
    with pytest.raises(NotFound, match="no such namespace"):
        await client.admin("topic.list", {"namespace": "x"})


async def test_arguments_that_are_no_json_are_refused(client: sulina.Client) -> None:
    with pytest.raises(Refused, match="JSON"):
        await client.admin("topic.list", {"x": object()})


async def test_single_calls_connect_again_when_the_connection_was_lost(
    bench: Bench, client: sulina.Client
) -> None:
    bench.network.cut()
    bench.network.reachable = False
    asking = asyncio.ensure_future(client.ping())
    await bench.clock.advance(5)
    bench.network.reachable = True
    await bench.clock.advance(10)
    assert await asking == 0.0


async def test_who_needs_the_same_broker_shares_a_connection(
    bench: Bench, client: sulina.Client
) -> None:
    bench.network.cut()
    await until(lambda: not bench.broker.peer.stream.open)
    await bench.eventually(_pings(client, 5))
    assert len(bench.network.dials) == 2


async def _pings(client: sulina.Client, count: int) -> None:
    await asyncio.gather(*(client.ping() for _ in range(count)))


async def test_closing_is_told_to_who_waits_for_a_connection(bench: Bench) -> None:
    client = await bench.client()
    bench.network.cut()
    bench.broker.silent.add(Command.CONNECT)
    asking = asyncio.ensure_future(client.ping())
    await until(lambda: len(bench.network.dials) == 2)
    await client.close()
    with pytest.raises(Closed, match="the client is closed"):
        await asking


async def test_an_error_to_nobody_ends_the_connection(bench: Bench, client: sulina.Client) -> None:
    bench.broker.peer.send(Command.ERROR, error_body(Refused("you sent nonsense")))
    await until(lambda: not bench.broker.peer.stream.open)
    await client.ping()
    assert len(bench.network.dials) == 2


async def test_a_closed_client_refuses_and_may_be_closed_again(
    bench: Bench, client: sulina.Client
) -> None:
    await client.close()
    await client.close()
    for call in (client.ping, client.open):
        with pytest.raises(Closed, match="the client is closed"):
            await call()
    assert not bench.broker.peer.stream.open


async def test_no_task_outlives_the_client(bench: Bench) -> None:
    before = asyncio.all_tasks()
    client = await bench.client()
    producer = await client.producer("/default/t").open()
    consumer = await client.consumer("/default/t", "s").open()
    await producer.send(b"x")
    assert consumer.active
    assert len(asyncio.all_tasks()) > len(before)
    await client.close()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_no_task_outlives_a_client_whose_broker_is_gone(bench: Bench) -> None:
    before = asyncio.all_tasks()
    client = await bench.client()
    producer = await client.producer("/default/t", send_timeout=5).open()
    await client.consumer("/default/t", "s").open()
    bench.network.reachable = False
    bench.network.cut()
    await producer.send(b"x")
    with pytest.raises(Unavailable):
        await bench.eventually(client.close())
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


def test_a_url_names_a_host_and_a_port() -> None:
    assert parse_addresses("sulina://127.0.0.1:6655") == (Address("127.0.0.1", 6655),)


def test_the_port_may_be_left_out() -> None:
    assert parse_addresses("sulina://broker") == (Address("broker", 6655),)


def test_tls_is_asked_for_by_the_scheme() -> None:
    assert parse_addresses("sulina+tls://b.example:1/") == (Address("b.example", 1, secure=True),)


def test_several_brokers_are_divided_by_commas() -> None:
    assert parse_addresses("sulina://a:1,b") == (Address("a", 1), Address("b", 6655))


def test_a_url_may_say_for_which_name_the_certificate_is() -> None:
    expected = Address("10.0.2.1", 6655, secure=True, name="brokers.inside")
    assert parse_addresses("sulina+tls://brokers.inside@10.0.2.1:6655") == (expected,)
    with pytest.raises(Refused):
        parse_addresses("sulina+tls://@10.0.2.1:6655")


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
