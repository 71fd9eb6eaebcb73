"""Attacks that need no token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import grpc

from broker_containers.doors.danube import danube_pb2 as danube
from broker_containers.doors.http2 import frames as h2
from broker_containers.doors.http2.hpack import HeaderEncoder
from sulina.errors import Overloaded
from tests.attack.attack import (
    SECONDS,
    Target,
    attack,
    hello,
    must,
    shown,
    status_of,
)
from tests.http2.wire import HELLO, block, head_of

_NOTHING = "nothing"
_HEALTH = "/grpc.health.v1.Health/"
_SEND = "/danube.ProducerService/SendMessage"
_LIST = "/danube_admin.BrokerAdmin/ListBrokers"
Code = grpc.StatusCode


async def _connects(target: Target) -> bool:
    try:
        async with target.connect() as client:
            await client.admin("namespace.list", {})
    except Overloaded:
        return False
    return True


async def _root_is_served(target: Target) -> None:
    """Honest clients are served at the binary door, over HTTP and by the admin port."""
    async with asyncio.timeout(SECONDS):
        while not await _connects(target):
            await asyncio.sleep(0.2)
        while (await target.http("GET", "/api/v1/namespaces", target.root))[0] == 503:
            await asyncio.sleep(0.2)  # "try again later"
    async with target.channel(target.admin_port) as channel:
        call: Any = channel.unary_unary(_LIST)
        found = await status_of(call(b"", metadata=shown(target.root), timeout=SECONDS))
    must(found is Code.OK, f"an administrator got {found.name}")


@attack("danube-large-messages", _NOTHING, "10 messages of 200 MiB to the port of Danube's clients")
async def danube_large_messages(target: Target) -> None:
    message = danube.StreamMessage(payload=bytes(200 << 20)).SerializeToString()
    async with target.channel(target.grpc_port) as channel:
        send: Any = channel.unary_unary(_SEND)
        for _ in range(10):
            found = await status_of(send(message, timeout=SECONDS))
            must(found is Code.UNAUTHENTICATED, f"a message of 200 MiB got {found.name}")


@attack("danube-large-keys", _NOTHING, "20 keys of 7 MiB to be exchanged for tokens, at once")
async def danube_large_keys(target: Target) -> None:
    message = danube.AuthRequest(api_key="x" * (7 << 20)).SerializeToString()
    async with target.channel(target.grpc_port) as channel:
        exchange: Any = channel.unary_unary("/danube.AuthService/Authenticate")
        calls = (status_of(exchange(message, timeout=SECONDS)) for _ in range(20))
        found = set(await asyncio.gather(*calls))
    must(Code.OK not in found, "a key of 7 MiB was accepted")


@attack("danube-connections", _NOTHING, "1,500 connections to Danube's port that send nothing")
async def danube_connections(target: Target) -> None:
    await target.dial_many(target.grpc_port, 1500)
    await asyncio.sleep(6)  # the handshake's time limit
    async with target.channel(target.grpc_port) as channel:
        lookup: Any = channel.unary_unary("/danube.Discovery/TopicPartitions")
        request = danube.TopicLookupRequest(topic="/default/none").SerializeToString()
        found = await status_of(lookup(request, metadata=shown(target.root), timeout=SECONDS))
    must(found is Code.OK, f"a client with a token got {found.name}")


@attack("health-watchers", _NOTHING, "140 health Watch streams to the admin port")
async def health_watchers(target: Target) -> None:
    async with target.channel(target.admin_port) as channel:
        watch: Any = channel.unary_stream(_HEALTH + "Watch")
        streams = [watch(b"") for _ in range(140)]
        await asyncio.sleep(1)
        await _root_is_served(target)
        check: Any = channel.unary_unary(_HEALTH + "Check")
        found = await status_of(check(b"", timeout=SECONDS))
        for stream in streams:
            stream.cancel()
    must(found is Code.OK, f"a health check got {found.name}")


@attack("health-without-message", _NOTHING, "200 health checks that never send their message")
async def health_without_message(target: Target) -> None:
    async with target.channel(target.admin_port) as channel:
        unfinished: Any = channel.stream_unary(_HEALTH + "Check")
        calls = [unfinished() for _ in range(200)]
        await asyncio.sleep(1)
        await _root_is_served(target)
        for call in calls:
            call.cancel()


@attack("admin-connections", _NOTHING, "300 connections to the admin port that send nothing")
async def admin_connections(target: Target) -> None:
    await target.dial_many(target.admin_port, 300)
    await _root_is_served(target)


@attack("grpc-garbage", _NOTHING, "500 garbage messages to the gRPC ports")
async def grpc_garbage(target: Target) -> None:
    for port, method in ((target.admin_port, _HEALTH + "Check"), (target.grpc_port, _SEND)):
        async with target.channel(port) as channel:
            call: Any = channel.unary_unary(method)
            for _ in range(250):
                await status_of(call(b"\xff", timeout=SECONDS))


@attack("http-kept-alive", _NOTHING, "300 kept-alive HTTP connections")
async def http_kept_alive(target: Target) -> None:
    request = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    await target.dial_many(target.http_port, 300, request)
    await asyncio.sleep(1)
    await _root_is_served(target)


@attack("http-slow-headers", _NOTHING, "300 HTTP requests whose headers never end")
async def http_slow_headers(target: Target) -> None:
    await target.dial_many(target.http_port, 300, b"GET / HTTP/1.1\r\nHost: localhost\r\n")
    await asyncio.sleep(1)
    await _root_is_served(target)


@attack("http-slow-bodies", _NOTHING, "300 HTTP requests with a token's header but no body")
async def http_slow_bodies(target: Target) -> None:
    request = (
        b"POST /api/v1/topics/default/t/messages HTTP/1.1\r\nHost: localhost\r\n"
        b"Authorization: Bearer wrong\r\nContent-Length: 8000000\r\n\r\n"
    )
    await target.dial_many(target.http_port, 300, request)
    await asyncio.sleep(1)
    await _root_is_served(target)


@attack("binary-silent", _NOTHING, "2,000 binary connections that send nothing")
async def binary_silent(target: Target) -> None:
    await target.dial_many(target.port, 2000)
    await _root_is_served(target)


@attack("binary-large-hello", _NOTHING, "300 CONNECT commands that announce 64 KiB or 4 GiB")
async def binary_large_hello(target: Target) -> None:
    await target.dial_many(target.port, 150, (65000).to_bytes(4, "little") + bytes(20))
    await target.dial_many(target.port, 150, b"\xff" * 24)
    await _root_is_served(target)


@attack("bad-tokens", _NOTHING, "1,000 invalid tokens over HTTP and the binary door")
async def bad_tokens(target: Target) -> None:
    async def guess(number: int) -> None:
        try:
            reader, writer = await target.dial(target.port)
            writer.write(hello(f"guess {number}"))
            await asyncio.wait_for(reader.read(), SECONDS)
            writer.close()
        except OSError:
            pass

    for first in range(0, 1000, 100):
        await asyncio.gather(*map(guess, range(first, first + 100)))
    await _root_is_served(target)


@attack("health-flood", _NOTHING, "2,000 health checks over HTTP, 50 at once")
async def health_flood(target: Target) -> None:
    slots = asyncio.Semaphore(50)

    async def check() -> int:
        async with slots:
            try:
                return (await target.http("GET", "/health/ready"))[0]
            except (OSError, TimeoutError):
                return 0

    answers = await asyncio.gather(*(check() for _ in range(2000)))
    must(answers.count(200) > 0, f"the answers were {set(answers)}")


# ---- HTTP/2 ----


async def _flood(target: Target, what: str, first: bytes, repeated: Callable[[int], bytes]) -> None:
    """Ten connections that send the same kind of frames until the broker closes them."""
    for number in range(10):
        port = target.grpc_port if number % 2 else target.admin_port
        reader, writer = await target.dial(port)
        drained = asyncio.create_task(_drained(reader))
        try:
            writer.write(HELLO + first)
            for start in range(0, 20_000, 500):
                writer.write(b"".join(map(repeated, range(start, start + 500))))
                await asyncio.wait_for(writer.drain(), SECONDS)
            await asyncio.wait_for(drained, SECONDS)
        except OSError:
            pass
        except TimeoutError:
            must(False, f"{what} went on")
        finally:
            drained.cancel()
            writer.close()
    await _root_is_served(target)


async def _drained(reader: asyncio.StreamReader) -> None:
    with suppress(OSError):
        while await reader.read(1 << 16):
            pass


def _call_headers(number: int, flags: int = h2.END_HEADERS) -> bytes:
    return h2.frame(h2.HEADERS, flags, 2 * number + 1, block(*head_of(_SEND)))


_FLOODS: Final[dict[str, tuple[str, bytes, Callable[[int], bytes]]]] = {
    "http2-rapid-reset": (
        "requests that are given up at once (CVE-2023-44487)",
        b"",
        lambda n: _call_headers(n) + h2.rst_frame(2 * n + 1, h2.ErrorCode.CANCEL),
    ),
    "http2-continuation": (
        "a header block that never ends",
        _call_headers(0, flags=0),
        lambda _: h2.frame(h2.CONTINUATION, 0, 1, bytes(100)),
    ),
    "http2-settings": (
        "settings",
        b"",
        lambda n: h2.settings_frame({h2.Setting.HEADER_TABLE_SIZE: n % 4096}),
    ),
    "http2-pings": ("pings", b"", lambda _: h2.frame(h2.PING, 0, 0, bytes(8))),
    "http2-empty-frames": (
        "frames without data",
        _call_headers(0),
        lambda _: h2.frame(h2.DATA, 0, 1),
    ),
    "http2-tiny-windows": ("windows that grow by one", b"", lambda _: h2.window_frame(0, 1)),
    "http2-refused-calls": ("calls without a token", b"", _call_headers),
}


def _add_flood(name: str, what: str, first: bytes, repeated: Callable[[int], bytes]) -> None:
    @attack(name, _NOTHING, f"a flood on gRPC connections: {what}")
    async def flood(target: Target) -> None:
        await _flood(target, what, first, repeated)


for _name, _each in _FLOODS.items():
    _add_flood(_name, *_each)


@attack("http2-header-bomb", _NOTHING, "headers of 4 KiB, each repeated by one byte")
async def http2_header_bomb(target: Target) -> None:
    large = ("x", "y" * 3900)
    entered = HeaderEncoder().block((large,), frozenset({large}))
    for _ in range(50):
        reader, writer = await target.dial(target.grpc_port)
        bomb = h2.frame(h2.HEADERS, h2.END_HEADERS, 1, entered + b"\xbe" * 12_000)
        writer.write(HELLO + bomb)
        await asyncio.wait_for(_drained(reader), SECONDS)
        writer.close()
    await _root_is_served(target)


@attack("http2-unread", _NOTHING, "200 connections that ask for pongs and read nothing")
async def http2_unread(target: Target) -> None:
    pings = h2.frame(h2.PING, 0, 0, bytes(8)) * 900
    await target.dial_many(target.grpc_port, 200, HELLO + pings)
    await asyncio.sleep(1)
    await _root_is_served(target)
