"""A broker and a storage node in memory, without sockets, threads or real time, for one input each.

Everything behind the ports is real. Connections of a broker's doors are fed by hand. The storage
node's gRPC server is replaced by one that keeps the handlers, so that a target calls them with
bytes. The event loop is that of the simulation: time is virtual, and a run depends on its input
alone.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Executor
from contextlib import AsyncExitStack, contextmanager
from typing import Any, NoReturn, TypeVar, TypeVarTuple, Unpack, cast
from unittest.mock import patch

import grpc
from google.protobuf.message import DecodeError

from broker_containers.assembly.services import build_services
from broker_containers.broker.broker import Broker
from broker_containers.broker.settings import BrokerSettings
from broker_containers.doors.danube.server import DanubeServer
from broker_containers.doors.danube.settings import DanubeListen
from broker_containers.doors.danube_admin.server import AdminServer
from broker_containers.doors.danube_admin.settings import AdminListen
from broker_containers.doors.grpc_shared.connection import GrpcConnection
from broker_containers.doors.grpc_shared.server import GrpcServer
from broker_containers.doors.http2.frames import RST_STREAM, frame
from broker_containers.doors.listen import Addresses
from broker_containers.doors.services import Services
from broker_containers.operations.settings import SettingHandlers
from broker_containers.operations.single_broker import SingleBrokerHandlers
from broker_containers.security.settings import AuthSettings
from broker_containers.settings.apply import single_broker_config
from storage_grpc.journal import JournalSettings, JournalStore
from storage_grpc.ledgers import EmbeddedLedgers
from sulina.metadata.embedded import EmbeddedStore
from sulina.runtime.memory_disk import MemoryDisk
from tests.http2.wire import Responses, call_frames
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
CALL_SECONDS = 3600.0
"""Virtual seconds after which a call counts as one that hangs."""
STREAM_SECONDS = 1.5
"""Virtual seconds for which a stream is read before the client leaves."""
SMALL_JOURNAL = JournalSettings(
    file_bytes=1 << 20,
    reserve_bytes=16 << 10,
    spare_bytes=16 << 10,
    group_bytes=64 << 10,
    max_pending_bytes=8 << 20,
    max_entry_bytes=1 << 20,
)


class FuzzLoop(SimLoop):
    """The simulation's loop; what would run in a thread runs at once."""

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[_Ts]], _T], *args: *_Ts
    ) -> asyncio.Future[_T]:
        done: asyncio.Future[_T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    async def create_server(self, *_: Any, **__: Any) -> Any:
        """A port that nobody can connect to."""
        return _Listening()


class _Listening:
    """Stands for a server's socket."""

    def __init__(self) -> None:
        self.sockets = [self]

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", 1

    async def start_serving(self) -> None: ...

    def close(self) -> None: ...


class _LoggedErrors(logging.Handler):
    """Collects what the product logs as unexpected: records with a traceback."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.errors: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.errors.append(record.exc_info[1])


class WorldSession:
    """A ``Session`` of a broker: ``start`` opens the door and returns what feeds it."""

    def __init__(
        self, start: Callable[[Any], Awaitable[Callable[[bytes], Awaitable[None]]]]
    ) -> None:
        self._loop = FuzzLoop()
        self._logged = _LoggedErrors()
        self._world = self._new_world()
        with self._checked():
            self._feed = self._loop.run_until_complete(self._open(start))

    def _new_world(self) -> Any:
        return BrokerWorld(self._loop)

    async def _open(
        self, start: Callable[[Any], Awaitable[Callable[[bytes], Awaitable[None]]]]
    ) -> Callable[[bytes], Awaitable[None]]:
        return await start(await self._world.__aenter__())

    def feed(self, data: bytes) -> None:
        """Raises what the door lets through, and any exception that was logged or not handled."""
        with self._checked():
            self._loop.run_until_complete(_ended(self._feed(data)))

    def close(self) -> None:
        try:
            with self._checked():
                self._loop.run_until_complete(_ended(self._world.__aexit__()))
        finally:
            self._loop.finish()

    @contextmanager
    def _checked(self) -> Iterator[None]:
        root = logging.getLogger()
        before = root.handlers, root.level
        root.handlers, root.level = [self._logged], logging.WARNING
        try:
            with patch("sulina.runtime.threads.in_daemon", _at_once):
                yield
        finally:
            root.handlers, root.level = before
        errors, self._logged.errors = self._logged.errors, []
        for error in errors:
            raise error
        unhandled, self._loop.errors = self._loop.errors, []
        assert not unhandled, unhandled


async def _at_once(call: Callable[[], _T]) -> _T:
    """In place of a thread."""
    return call()


async def _ended(work: Awaitable[None]) -> None:
    await work


async def _only(message: Any) -> AsyncIterator[Any]:
    """A client's stream of one message."""
    yield message


class Handlers:
    """Stands for gRPC's server: keeps the handlers and listens on nothing."""

    def __init__(self, interceptors: Sequence[Any] = ()) -> None:
        self._interceptors = interceptors
        self.generic: list[grpc.GenericRpcHandler] = []

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        self.generic.extend(handlers)

    def add_registered_method_handlers(self, service: str, handlers: Any) -> None: ...

    def add_insecure_port(self, address: str) -> int:
        return 1

    async def start(self) -> None: ...

    async def stop(self, grace: float | None) -> None: ...

    def find(self, path: str) -> Any:
        """The handler of a method. Raises ``LookupError`` if no service has it."""
        details = cast(grpc.HandlerCallDetails, _Details(path))
        for each in self.generic:
            found = each.service(details)
            if found is not None:
                return found
        raise LookupError(path)

    async def call(
        self, path: str, request: bytes, metadata: Mapping[str, str] | None = None
    ) -> bytes | None:
        """The reply to a request; None if it ended with a status, or was not a message.

        Raises whatever the handler lets through, and ``TimeoutError`` if it does not end.
        """
        handler = await self._intercepted(path, metadata or {})
        read = handler.request_deserializer or bytes
        try:
            message = read(request)
        except DecodeError:
            return None  # gRPC answers with INTERNAL
        context = FakeContext(metadata or {})
        behaviour = handler.unary_stream or handler.unary_unary
        if handler.stream_stream is not None:
            behaviour, message = handler.stream_stream, _only(message)
        answer = await self.ended(
            behaviour(message, context), context, endless=handler.response_streaming
        )
        if answer is None:
            return None
        write = handler.response_serializer or bytes
        return bytes(write(answer))

    async def _intercepted(self, path: str, metadata: Mapping[str, str]) -> Any:
        details = cast(grpc.HandlerCallDetails, _Details(path, tuple(metadata.items())))

        async def found(_: Any) -> Any:
            return self.find(path)

        for each in self._interceptors:
            return await each.intercept_service(found, details)
        return self.find(path)

    async def ended(
        self, work: Coroutine[Any, Any, Any], context: FakeContext, *, endless: bool = False
    ) -> Any:
        """The result of a handler; None if it aborts the call, or is ``endless``."""
        call = asyncio.ensure_future(work)
        await asyncio.wait((call,), timeout=STREAM_SECONDS if endless else CALL_SECONDS)
        if not call.done():
            context.left = True
            call.cancel()
            await asyncio.wait((call,))
            if not endless:
                raise TimeoutError("a call does not end")
        if call.cancelled():
            return None
        error = call.exception()
        if isinstance(error, grpc.aio.AbortError):
            return None
        if error is not None:
            raise error
        return call.result()


class _Details:
    def __init__(self, method: str, metadata: tuple[tuple[str, str], ...] = ()) -> None:
        self.method = method
        self.invocation_metadata = metadata


class FakeContext:
    """What a handler sees of its caller."""

    def __init__(self, metadata: Mapping[str, str]) -> None:
        self._metadata = tuple(metadata.items())
        self.left = False

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self._metadata

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    def cancelled(self) -> bool:
        return self.left

    def time_remaining(self) -> None:
        return None

    async def write(self, message: bytes) -> None:
        assert isinstance(message, bytes)

    async def read(self) -> bytes:
        return b""

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()
    ) -> NoReturn:
        raise grpc.aio.AbortError(details)


class GrpcClient(asyncio.Transport):
    """The other end of a connection to a gRPC door: reads everything, and decodes it."""

    def __init__(self, server: GrpcServer) -> None:
        super().__init__()
        self._closing = False
        self._next = 1
        self._news = asyncio.Event()
        self.responses = Responses()
        self.connection = GrpcConnection(server)
        self.connection.connection_made(self)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._news.set()
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)

    abort = close

    def can_write_eof(self) -> bool:
        return False

    def write(self, data: Any) -> None:
        self.responses.feed(bytes(data))
        self._news.set()

    def send(self, data: bytes) -> None:
        """The connection receives bytes."""
        if not self._closing:
            self.connection.data_received(data)

    async def call(self, path: str, request: bytes, *metadata: tuple[str, str]) -> bytes | None:
        """The reply; None if the call ended with an error. Leaves streams that do not end.

        Raises ``TimeoutError`` if another call does not end.
        """
        number, self._next = self._next, self._next + 2
        self.send(call_frames(number, path, request, *metadata))
        endless = path.endswith("/ReceiveMessages")
        loop = asyncio.get_running_loop()
        end = loop.time() + (STREAM_SECONDS if endless else CALL_SECONDS)
        while number not in self.responses.ended and not self._closing:
            self._news.clear()
            try:
                async with asyncio.timeout_at(end):
                    await self._news.wait()
            except TimeoutError:
                if not endless:
                    raise TimeoutError("a call does not end") from None
                self.send(frame(RST_STREAM, 0, number, b"\0\0\0\x08"))
                break
        return self.responses.data.get(number) if self.responses.status(number) == 0 else None


class BrokerWorld:
    """A broker and the handlers of its gRPC ports. Use as ``async with``."""

    services: Services

    def __init__(self, loop: FuzzLoop, auth: AuthSettings | None = None) -> None:
        self._auth = auth
        self._clock = SimClock(loop)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> BrokerWorld:
        clock, stack = self._clock, self._stack
        store = await EmbeddedStore.open(clock, MemoryDisk())
        stack.push_async_callback(store.close)
        entries = await JournalStore.open(MemoryDisk(), clock, SMALL_JOURNAL, random.Random(1))
        stack.push_async_callback(entries.close)
        broker = Broker(EmbeddedLedgers(entries), store, clock, BrokerSettings())
        addresses = Addresses("127.0.0.1", secure=False)
        handlers = [SingleBrokerHandlers(broker, addresses)]
        services = build_services(broker, addresses, handlers, self._auth)
        config = await stack.enter_async_context(single_broker_config(broker))
        services.operations.serve(SettingHandlers(config))
        for each in (services.authority, services.schemas, broker):
            await stack.enter_async_context(each)
        stack.push_async_callback(services.publisher.close)
        self.services = services
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    async def open_danube(self) -> GrpcServer:
        """The door for Danube's clients."""
        server = DanubeServer(self.services, DanubeListen(port=0))
        return (await self._stack.enter_async_context(server)).grpc

    async def open_admin(self) -> GrpcServer:
        """The door for Danube's admin tools."""
        server = AdminServer(self.services, AdminListen())
        return (await self._stack.enter_async_context(server)).grpc


class no_grpc_server:  # noqa: N801
    """gRPC servers that are created meanwhile are ``Handlers``."""

    def __enter__(self) -> Handlers:
        made = Handlers()

        def server(*_: object, interceptors: Sequence[Any] = (), **__: object) -> Handlers:
            made._interceptors = interceptors
            return made

        self._patch = patch("grpc.aio.server", server)
        self._patch.start()
        return made

    def __exit__(self, *exc: object) -> None:
        self._patch.stop()
