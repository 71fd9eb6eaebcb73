"""The doors of a broker, each with a whole broker in memory behind it."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from broker_containers.doors.binary.session import BinarySession
from broker_containers.doors.danube import danube_edge_pb2, danube_pb2
from broker_containers.doors.danube_admin import danube_admin_pb2
from broker_containers.doors.danube_schema import danube_schema_pb2
from broker_containers.doors.grpc_shared.server import GrpcServer
from broker_containers.doors.http2 import frames as h2
from broker_containers.security.settings import AuthSettings
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import LENGTH_FIELD, PREFIX, Command, pack, unpack
from tests.fuzz.target import Target, calls, filled, pack_call
from tests.fuzz.world import BrokerWorld, GrpcClient, WorldSession
from tests.http2.wire import HELLO, block, call_frames, head_of
from tests.operations.examples import EXAMPLES as OPERATION_EXAMPLES
from tests.wire.bodies import EXAMPLES
from tests.wire.records import NOW, delayed_sample, sample, sealed

# ---- tokens ----


async def some_tokens(world: BrokerWorld) -> list[str]:
    """Tokens of every kind; none if clients need none. The first is that of an administrator."""
    if not world.services.authority.on:
        return []
    made = []
    for number, grants in enumerate(_GRANTS):
        created = await world.services.operations.client.tokens.create(f"p{number}", grants=grants)
        made.append(created.token)
    await world.services.authority.caught_up()
    return [*made, *_INVALID]


def chosen(tokens: list[str], request: bytes) -> str:
    """The token that the first byte of a request chooses."""
    return tokens[(request[0] if request else 0) % len(tokens)] if tokens else ""


_GRANTS: Final = (
    ("admin:*",),
    ("admin:*", "deny:admin:/default/t"),
    ("produce:/default/t", "consume:/default/t#s"),
    ("namespaces:/default/*", "schemas:orders"),
    (),
)
_INVALID: Final = ("wrong", "sulina_x_y", "")
_AUTH: Final = AuthSettings("a root token that nobody guesses")


# ---- the binary protocol ----

_COMMANDS: Final = list(EXAMPLES)
_RAW: Final = len(_COMMANDS)
"""The number of a call whose request is sent as it is."""
_RECONNECT: Final = _RAW + 1
_BINARY: Final[list[type[Message] | None]] = [*map(type, EXAMPLES.values()), None, None]
_SETTLE_SECONDS: Final = 0.05


class _Client(asyncio.Transport):
    """The other end of a connection: reads everything, and checks that it can be decoded."""

    def __init__(self, session: BinarySession) -> None:
        super().__init__()
        self._session = session
        self._received = bytearray()
        self._closing = False
        self.reading = asyncio.Event()
        self.reading.set()
        session.stream.connection_made(self)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self.reading.set()
            asyncio.get_running_loop().call_soon(self._session.stream.connection_lost, None)

    abort = close

    def pause_reading(self) -> None:
        self.reading.clear()

    def resume_reading(self) -> None:
        self.reading.set()

    def write(self, data: Any) -> None:
        self._received += data
        while len(self._received) >= PREFIX.size:
            length = LENGTH_FIELD + int.from_bytes(self._received[:LENGTH_FIELD], "little")
            if length > len(self._received):
                break
            unpack(memoryview(self._received[:length]))
            del self._received[:length]

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(parts))

    async def send(self, data: bytes) -> None:
        """Send as a network does: nothing while the broker does not read."""
        stream, at = self._session.stream, 0
        while at < len(data) and stream.open:
            await self.reading.wait()
            buffer = stream.get_buffer(-1)
            length = min(len(buffer), len(data) - at)
            if not length:
                return
            buffer[:length] = data[at : at + length]
            stream.buffer_updated(length)
            at += length


async def _binary(world: BrokerWorld) -> Callable[[bytes], Awaitable[None]]:
    """The first byte of a call to connect again chooses the token, if clients need tokens."""
    tokens = await some_tokens(world)

    async def connected(request: bytes) -> _Client:
        client = _Client(
            BinarySession(world.services, lambda _: "", lambda _: None, lambda _: None)
        )
        token = chosen(tokens, request)
        hello = pb.Connect(protocol=1, client="fuzz", token=token)
        await client.send(pack(Command.CONNECT, 1, hello))
        return client

    async def feed(data: bytes) -> None:
        client = await connected(b"")
        for number, (method, request) in enumerate(calls(data, len(_BINARY))):
            if method == _RECONNECT:
                client.close()
                client = await connected(request)
            elif method == _RAW:
                await client.send(request)
            else:
                await client.send(_command(_COMMANDS[method], number + 1, request))
            await asyncio.sleep(_SETTLE_SECONDS)
        await asyncio.sleep(1)
        client.close()
        await asyncio.sleep(_SETTLE_SECONDS)

    return feed


def _command(command: Command, number: int, request: bytes) -> bytes:
    """The bytes of a command. The body of PUBLISH is followed by its frame, after a length byte."""
    control, data = request, b""
    if command is Command.PUBLISH and request:
        control = request[1 : 1 + request[0]]
        data = sealed(request[1 + request[0] :])
    length = PREFIX.size - LENGTH_FIELD + len(control) + len(data)
    return PREFIX.pack(length, command, 0, 0, number, len(control)) + control + data


def _binary_seeds() -> list[bytes]:
    def call(command: Command, body: Message) -> bytes:
        return pack_call(_COMMANDS.index(command), body.SerializeToString())

    def publish(number: int, frame: bytes) -> bytes:
        body = pb.Publish(producer=1, number=number).SerializeToString()
        return pack_call(_COMMANDS.index(Command.PUBLISH), bytes([len(body)]) + body + frame)

    producing = call(Command.CREATE_PRODUCER, pb.CreateProducer(topic="/default/t", name="p"))
    subscribe = pb.Subscribe(topic="/default/t", subscription="s", type=pb.SHARED, consumer="c")
    consuming = call(Command.SUBSCRIBE, subscribe) + call(
        Command.FLOW, pb.Flow(consumer=2, records=100, bytes=1 << 20)
    )
    chosen = [pb.Selection(first=0, last=2), pb.Selection(first=0, last=2, mask=b"\x05")]
    whole = (
        producing
        + consuming
        + publish(1, sample().encode())
        + publish(2, delayed_sample().encode())
        + call(Command.NACK, pb.Nack(consumer=2, selections=chosen[1:], delay_ms=1, reason="x"))
        + call(Command.ACK, pb.Ack(consumer=2, selections=chosen))
        + call(Command.SEEK, pb.Seek(consumer=2, start=pb.Start(time_us=NOW)))
        + call(
            Command.READ_FRAMES,
            pb.ReadFrames(
                topic="/default/t", start=pb.Start(earliest=True), max_frames=9, max_bytes=1 << 20
            ),
        )
        + call(Command.UNSUBSCRIBE, pb.Unsubscribe(consumer=2))
    )
    operations = [
        call(Command.ADMIN, pb.Admin(method=name, arguments=json.dumps(arguments).encode()))
        for name, arguments in OPERATION_EXAMPLES
    ]
    return [
        *(call(command, body) for command, body in EXAMPLES.items()),
        whole,
        pack_call(_RAW, pack(Command.PING, 1, pb.Ping())),
        *operations,
        b"".join(operations),
    ]


# ---- doors of gRPC ----

Method = tuple[str, type[Message]]


def _methods(*services: ServiceDescriptor) -> list[Method]:
    return [
        (f"/{service.full_name}/{method.name}", GetMessageClass(method.input_type))
        for service in services
        for method in service.methods
    ]


_DANUBE: Final = _methods(
    *danube_pb2.DESCRIPTOR.services_by_name.values(),
    *danube_edge_pb2.DESCRIPTOR.services_by_name.values(),
)
_ADMIN: Final = _methods(*danube_admin_pb2.DESCRIPTOR.services_by_name.values())
_SCHEMAS: Final = _methods(*danube_schema_pb2.DESCRIPTOR.services_by_name.values())


_ANSWERED: Final = ("/danube.HealthCheck/HealthCheck", "/danube.AuthService/Authenticate")
"""Methods that anybody may call."""


def _door(
    methods: Sequence[Method], open_door: Callable[[BrokerWorld], Awaitable[GrpcServer]]
) -> Callable[[BrokerWorld], Awaitable[Callable[[bytes], Awaitable[None]]]]:
    async def start(world: BrokerWorld) -> Callable[[bytes], Awaitable[None]]:
        server = await open_door(world)
        tokens = await some_tokens(world)

        async def feed(data: bytes) -> None:
            client = GrpcClient(server)
            client.send(HELLO)
            token = chosen(tokens, b"")
            for method, request in calls(data, len(methods) + 1):
                if method == len(methods):  # from now on by somebody else
                    token = chosen(tokens, request)
                    continue
                path = methods[method][0]
                shown = [("authorization", f"Bearer {token}")] if token else []
                reply = await client.call(path, request, *shown)
                if tokens and token in _INVALID and path not in _ANSWERED:
                    assert reply is None, f"{path} answers without a valid token"
            client.close()
            await asyncio.sleep(_SETTLE_SECONDS)

        return feed

    return start


def _door_seeds(methods: Sequence[Method]) -> list[bytes]:
    each = [
        pack_call(number, filled(kind).SerializeToString())
        for number, (_, kind) in enumerate(methods)
    ]
    return [*each, b"".join(each)]


def _danube_seeds() -> list[bytes]:
    paths = [path.rpartition("/")[2] for path, _ in _DANUBE]

    def call(method: str, body: Message) -> bytes:
        return pack_call(paths.index(method), body.SerializeToString())

    d = danube_pb2
    where = d.MsgID(topic_name="/default/t", topic_offset=0)
    message = d.StreamMessage(payload=b"hello", producer_name="p", msg_id=where)
    sequence = (
        call("CreateProducer", d.ProducerRequest(topic_name="/default/t", producer_name="p"))
        + call(
            "Subscribe",
            d.ConsumerRequest(topic_name="/default/t", consumer_name="c", subscription="s"),
        )
        + call("SendMessage", message)
        + call("ReceiveMessages", d.ReceiveRequest(consumer_id=1))
        + call("Nack", d.NackRequest(msg_id=where, subscription_name="s", delay_ms=1, reason="x"))
        + call("Ack", d.AckRequest(msg_id=where, subscription_name="s"))
        + call("TopicLookup", d.TopicLookupRequest(topic="/default/t"))
        + call("TopicPartitions", d.TopicLookupRequest(topic="/default/t"))
    )
    return [*_door_seeds(_DANUBE), sequence]


# ---- HTTP/2 ----


async def _http2(world: BrokerWorld) -> Callable[[bytes], Awaitable[None]]:
    server = await world.open_danube()

    async def feed(data: bytes) -> None:
        client = GrpcClient(server)
        client.send(HELLO)
        # In parts of different sizes: what arrives is divided anywhere.
        at = 0
        for size in itertools.cycle((1, 7, 64, 1000)):
            if at >= len(data):
                break
            client.send(data[at : at + size])
            at += size
        await asyncio.sleep(_SETTLE_SECONDS)
        client.close()
        await asyncio.sleep(_SETTLE_SECONDS)
        assert not client.connection.http2.streams

    return feed


def _http2_seeds() -> list[bytes]:
    lookup = danube_pb2.TopicLookupRequest(topic="/default/t").SerializeToString()
    call = call_frames(1, "/danube.Discovery/TopicPartitions", lookup)
    again = call_frames(3, "/danube.Discovery/TopicLookup", lookup, ("grpc-timeout", "1S"))
    begun = h2.frame(h2.HEADERS, 0, 1, block(*head_of("/a/b"))[:20])
    rest = h2.frame(h2.CONTINUATION, h2.END_HEADERS, 1, block(*head_of("/a/b"))[20:])
    return [
        call + again,
        begun + rest + h2.rst_frame(1, h2.ErrorCode.CANCEL),
        h2.settings_frame({h2.Setting.INITIAL_WINDOW_SIZE: 1}) + call + h2.window_frame(1, 100),
        h2.settings_frame({h2.Setting.HEADER_TABLE_SIZE: 0}) + call + again,
        h2.frame(h2.PING, 0, 0, bytes(8)) + h2.goaway_frame(1, h2.ErrorCode.NO_ERROR),
        h2.frame(h2.HEADERS, h2.END_HEADERS | h2.PADDED, 1, b"\x01\x82\x86\x84\x00") + call[9:],
        h2.frame(h2.PRIORITY, 0, 5, bytes(5)) + h2.frame(0x42, 0, 0, b"unknown"),
    ]


_PER_SESSION: Final = 200


def _target(
    name: str,
    summary: str,
    methods: Sequence[Method],
    open_door: Callable[[BrokerWorld], Awaitable[GrpcServer]],
    seeds: Callable[[], list[bytes]],
    session: type[WorldSession] = WorldSession,
) -> Target:
    return Target(
        name=name,
        summary=summary,
        seeds=seeds,
        open=lambda: session(_door(methods, open_door)),
        messages=[*(kind for _, kind in methods), None],
        inputs_per_session=_PER_SESSION,
        memory_mib=256,
    )


class _GuardedSession(WorldSession):
    """A broker that asks for tokens."""

    def _new_world(self) -> Any:
        return BrokerWorld(self._loop, _AUTH)


def _by_everybody(seeds: Callable[[], list[bytes]], method: int) -> Callable[[], list[bytes]]:
    """The same inputs by the holder of each token, but the longest only by the first; ``method``
    changes the token."""
    count = len(_GRANTS) + len(_INVALID)

    def all_() -> list[bytes]:
        *found, longest = sorted(seeds(), key=len)
        turns = [pack_call(method, bytes([number])) for number in range(count)]
        return [longest, *(turn + each for each in found for turn in turns)]

    return all_


_PUBLIC_DOORS: Final = (
    ("danube", "calls of Danube's clients", _DANUBE, BrokerWorld.open_danube, _danube_seeds),
    (
        *("admin", "calls of Danube's admin tools", _ADMIN, BrokerWorld.open_admin),
        lambda: _door_seeds(_ADMIN),
    ),
    (
        *("schemas", "calls to the schema registry", _SCHEMAS, BrokerWorld.open_admin),
        lambda: _door_seeds(_SCHEMAS),
    ),
)
_GUARDED: Final = [
    Target(
        name="binary-tokens",
        summary="commands to the binary door by holders of all kinds of tokens",
        seeds=_by_everybody(_binary_seeds, _RECONNECT),
        open=lambda: _GuardedSession(_binary),
        messages=_BINARY,
        separator=pack_call(_RECONNECT, b""),
        inputs_per_session=_PER_SESSION,
        memory_mib=256,
    ),
    *(
        _target(
            f"{name}-tokens",
            f"{summary} by holders of all kinds of tokens",
            methods,
            door,
            _by_everybody(seeds, len(methods)),
            _GuardedSession,
        )
        for name, summary, methods, door, seeds in _PUBLIC_DOORS
    ),
]

TARGETS = [
    *_GUARDED,
    Target(
        name="binary",
        summary="commands to a session of the binary door",
        seeds=_binary_seeds,
        open=lambda: WorldSession(_binary),
        messages=_BINARY,
        separator=pack_call(_RECONNECT, b""),
        inputs_per_session=_PER_SESSION,
        memory_mib=256,
    ),
    Target(
        name="http2",
        summary="what a client sends on a connection of a gRPC door",
        seeds=_http2_seeds,
        open=lambda: WorldSession(_http2),
        inputs_per_session=_PER_SESSION,
        memory_mib=256,
    ),
    _target(
        "danube",
        "calls of Danube's clients: producers, consumers, discovery, health, auth, storage",
        _DANUBE,
        BrokerWorld.open_danube,
        _danube_seeds,
    ),
    _target(
        "admin",
        "calls of Danube's admin tools",
        _ADMIN,
        BrokerWorld.open_admin,
        lambda: _door_seeds(_ADMIN),
    ),
    _target(
        "schemas",
        "calls to the schema registry",
        _SCHEMAS,
        BrokerWorld.open_admin,
        lambda: _door_seeds(_SCHEMAS),
    ),
]
