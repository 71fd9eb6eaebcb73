"""A TiKV cluster in this process, over real gRPC: PD, and two stores that share rows.

It speaks as much of the protocol as the client uses. Regions can be split and moved. A test says
which of the next requests fail, and how; connections go through a proxy that can cut them.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, Self

import grpc

from sulina.objects.tikv import messages_pb2 as pb
from sulina.objects.tikv import methods
from sulina.objects.tikv.keys import encoded
from sulina.objects.tikv.placement import LOGICAL_BITS
from tests.faults.flaky_proxy import FlakyProxy
from tests.objects.tikv_rows import Rows

CLUSTER: Final = 7
STORES: Final = (1, 2)
_LARGEST: Final = 64 << 20


class Fault(Enum):
    """What becomes of a request."""

    BUSY = auto()
    """A store answers ``ServerIsBusy``, PD an error; it is not done."""
    NOT_LEADER = auto()
    """The region is led by the other store from now on; the answer names it."""
    LEADERLESS = auto()
    """The same, and the answer does not name it."""
    SPLIT = auto()
    """The region was split just before: ``EpochNotMatch``."""
    CUT = auto()
    """The connections to the server end before it is done."""
    LOST = auto()
    """It is done; the connections to the server end before the answer."""


AT_PD: Final = (Fault.BUSY, Fault.CUT, Fault.LOST)
"""The others are answers of stores."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request that came."""

    path: str
    to_pd: bool
    keys: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Tls:
    """What the servers show, and whose certificates clients must have."""

    key: bytes
    chain: bytes
    clients: bytes | None = None


@dataclass(slots=True)
class TikvCluster:
    """Use it in ``async with``; ``address`` is that of PD."""

    tls: Tls | None = None
    choose: Callable[[Request], Fault | None] = lambda request: None
    """Decides over each request."""
    meanwhile: Callable[[Request], Awaitable[None]] | None = None
    """Called with each request before anything becomes of it."""
    seen: list[Request] = field(default_factory=list)
    rows: Rows = field(default_factory=Rows)
    regions: list[pb.RegionMeta] = field(default_factory=list)
    leads: dict[int, int] = field(default_factory=dict)
    """The store of each region's leader."""
    _proxies: list[FlakyProxy] = field(default_factory=list)
    _last: int = 0
    _ahead_ms: int = 0
    _open: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def __aenter__(self) -> Self:
        self._add_region(b"", b"")
        for server in range(1 + len(STORES)):
            self._proxies.append(await self._serve(server))
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._open.aclose()

    @property
    def address(self) -> str:
        return self._address(0)

    @property
    def connections(self) -> int:
        """How many are open, to all servers."""
        return sum(each.connections for each in self._proxies)

    def heal(self) -> None:
        """From now on everything passes."""
        self.choose, self.meanwhile = lambda request: None, None

    def spoil(self, *faults: Fault | None) -> None:
        """The next requests get these, in order; those after them pass."""
        left: Iterator[Fault | None] = iter(faults)
        self.choose = lambda request: next(left, None)

    def pass_seconds(self, seconds: float) -> None:
        """Issue timestamps of a later time, so that locks expire."""
        self._ahead_ms += round(seconds * 1000)

    def live_keys(self) -> list[bytes]:
        """All keys that have a value now, once all locks are resolved."""
        return [each.key for each in self.rows.scan(b"", b"", 1 << 30, (1 << 64) - 1)]

    def split(self, key: bytes) -> None:
        """Begin a region at ``key`` (not encoded), led by the other store."""
        region, at = self._region(encoded(key)), encoded(key)
        if region.start_key == at:
            return
        end, region.end_key = region.end_key, at
        region.region_epoch.version += 1
        self._add_region(at, end, region.region_epoch.version, 3 - self.leads[region.id])

    # ---- servers ----

    def _address(self, server: int) -> str:
        return self._proxies[server].url.removeprefix("sulina://")

    async def _serve(self, number: int) -> FlakyProxy:
        """Start PD (0) or a store behind a proxy."""
        server = grpc.aio.server(
            options=(
                ("grpc.max_receive_message_length", _LARGEST),
                ("grpc.max_send_message_length", _LARGEST),
                ("grpc.so_reuseport", 0),
            )
        )
        server.add_generic_rpc_handlers([_Methods(self, number)])
        if self.tls is None:
            port = server.add_insecure_port("127.0.0.1:0")
        else:
            pair, clients = (self.tls.key, self.tls.chain), self.tls.clients
            secured = grpc.ssl_server_credentials([pair], clients, clients is not None)
            port = server.add_secure_port("127.0.0.1:0", secured)
        await server.start()
        self._open.push_async_callback(server.stop, None)
        proxy = await self._open.enter_async_context(FlakyProxy(port, random.Random(0)))
        proxy.heal()  # it cuts connections when told, and never by itself
        return proxy

    async def answer(self, server: int, path: str, data: bytes) -> bytes:
        """Do a request, unless a fault was chosen for it."""
        take, give, work = _WORK[path]
        request: Any = take.FromString(data)
        seen = Request(path, server == 0, _keys(request))
        self.seen.append(seen)
        if self.meanwhile is not None:
            await self.meanwhile(seen)
        fault = self.choose(seen)
        if fault is Fault.CUT:
            self._proxies[server].cut_all()
        refused = None
        if fault not in (None, Fault.CUT, Fault.LOST):
            assert fault is not None
            refused = _pd_busy(give) if seen.to_pd else self._refused(fault, request, seen, give)
        elif server:
            refused = self._misplaced(server, request, seen, give)
        if refused is not None or fault is Fault.CUT:
            return b"" if refused is None else bytes(refused.SerializeToString())
        answer = work(self, request)
        if fault is Fault.LOST:
            self._proxies[server].cut_all()
        return bytes(answer.SerializeToString())

    def _refused(self, fault: Fault, request: Any, seen: Request, give: Any) -> Any:
        answer = give()
        error = answer.region_error
        region = next(each for each in self.regions if each.id == request.context.region_id)
        match fault:
            case Fault.BUSY:
                error.server_is_busy.backoff_ms = 10
            case Fault.SPLIT:
                for key in seen.keys[-1:]:
                    self.split(key + b"\0")
                error.epoch_not_match.SetInParent()
            case _:
                self.leads[region.id] = 3 - self.leads[region.id]
                error.not_leader.region_id = region.id
                if fault is Fault.NOT_LEADER:
                    error.not_leader.leader.CopyFrom(self._leader(region))
        return answer

    def _misplaced(self, server: int, request: Any, seen: Request, give: Any) -> Any:
        """The error of a request for another region, epoch or store than it should be."""
        answer, context = give(), request.context
        error = answer.region_error
        region = next((each for each in self.regions if each.id == context.region_id), None)
        if region is None:
            error.region_not_found.SetInParent()
        elif context.peer.store_id != server:
            error.store_not_match.SetInParent()
        elif self.leads[region.id] != server:
            error.not_leader.region_id = region.id
            error.not_leader.leader.CopyFrom(self._leader(region))
        elif context.region_epoch != region.region_epoch:
            error.epoch_not_match.SetInParent()
        elif not all(_holds(region, key) for key in seen.keys):
            error.key_not_in_region.SetInParent()
        else:
            return None
        return answer

    # ---- regions and time ----

    def _add_region(self, start: bytes, end: bytes, version: int = 1, store: int = 1) -> None:
        number = len(self.regions) + 1
        peers = [pb.Peer(id=10 * number + each, store_id=each) for each in STORES]
        epoch = pb.Epoch(conf_ver=1, version=version)
        self.regions.append(
            pb.RegionMeta(id=number, start_key=start, end_key=end, region_epoch=epoch, peers=peers)
        )
        self.leads[number] = store

    def _region(self, key: bytes) -> pb.RegionMeta:
        """The region of an encoded key."""
        return next(
            each
            for each in self.regions
            if each.start_key <= key and (not each.end_key or key < each.end_key)
        )

    def _leader(self, region: pb.RegionMeta) -> pb.Peer:
        return next(each for each in region.peers if each.store_id == self.leads[region.id])

    def timestamp(self) -> pb.Timestamp:
        now = (time.time_ns() // 1_000_000 + self._ahead_ms) << LOGICAL_BITS
        self._last = max(self._last + 1, now)
        logical = self._last & ((1 << LOGICAL_BITS) - 1)
        return pb.Timestamp(physical=self._last >> LOGICAL_BITS, logical=logical)

    # ---- what PD answers ----

    def members(self, request: pb.MembersRequest) -> pb.MembersAnswer:
        member = pb.Member(name="pd", client_urls=[f"http://{self.address}"])
        return pb.MembersAnswer(header=_HEADER, members=[member], leader=member)

    def issue(self, request: pb.TimestampRequest) -> pb.TimestampAnswer:
        return pb.TimestampAnswer(header=_HEADER, count=1, timestamp=self.timestamp())

    def find(self, request: pb.RegionRequest) -> pb.RegionAnswer:
        region = self._region(request.region_key)
        return pb.RegionAnswer(header=_HEADER, region=region, leader=self._leader(region))

    def store(self, request: pb.StoreRequest) -> pb.StoreAnswer:
        meta = pb.StoreMeta(id=request.store_id, address=self._address(request.store_id))
        return pb.StoreAnswer(header=_HEADER, store=meta)

    # ---- what stores answer ----

    def get(self, request: pb.GetRequest) -> pb.GetAnswer:
        pair = self.rows.get(request.key, request.version)
        error = pair.error if pair.HasField("error") else None
        return pb.GetAnswer(value=pair.value, error=error)

    def get_many(self, request: pb.BatchGetRequest) -> pb.BatchGetAnswer:
        pairs = [self.rows.get(key, request.version) for key in request.keys]
        found = [pair for pair in pairs if pair.value or pair.HasField("error")]
        return pb.BatchGetAnswer(pairs=found)

    def scan(self, request: pb.ScanRequest) -> pb.ScanAnswer:
        pairs = self.rows.scan(request.start_key, request.end_key, request.limit, request.version)
        for pair in pairs if request.key_only else []:
            pair.ClearField("value")
        return pb.ScanAnswer(pairs=pairs)

    def prewrite(self, request: pb.PrewriteRequest) -> pb.PrewriteAnswer:
        return pb.PrewriteAnswer(errors=self.rows.prewrite(request))

    def commit(self, request: pb.CommitRequest) -> pb.DoneAnswer:
        return pb.DoneAnswer(
            error=self.rows.commit(request.keys, request.start_version, request.commit_version)
        )

    def roll_back(self, request: pb.RollbackRequest) -> pb.DoneAnswer:
        return pb.DoneAnswer(error=self.rows.roll_back(request.keys, request.start_version))

    def check(self, request: pb.CheckTxnRequest) -> pb.CheckTxnAnswer:
        return self.rows.check(request)

    def resolve(self, request: pb.ResolveRequest) -> pb.DoneAnswer:
        region = next(each for each in self.regions if each.id == request.context.region_id)
        error = self.rows.resolve(request, lambda key: _holds(region, key))
        return pb.DoneAnswer(error=error)

    def scan_locks(self, request: pb.ScanLockRequest) -> pb.ScanLockAnswer:
        return pb.ScanLockAnswer(locks=self.rows.locks(request))


class _Methods(grpc.GenericRpcHandler):
    """The methods of one server."""

    def __init__(self, cluster: TikvCluster, server: int) -> None:
        self._cluster = cluster
        self._server = server

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        path = details.method
        if path not in _WORK or path.startswith("/pdpb") != (self._server == 0):
            return None

        async def one(data: bytes, context: object) -> bytes:
            return await asyncio.shield(self._cluster.answer(self._server, path, data))

        async def each(stream: AsyncIterator[bytes], context: object) -> AsyncIterator[bytes]:
            async for data in stream:
                yield await one(data, context)

        if path == methods.TIMESTAMPS:
            return grpc.stream_stream_rpc_method_handler(each)
        return grpc.unary_unary_rpc_method_handler(one)


_HEADER: Final = pb.PdAnswerHeader(cluster_id=CLUSTER)
_WORK: Final[dict[str, tuple[Any, Any, Callable[[TikvCluster, Any], Any]]]] = {
    methods.MEMBERS: (pb.MembersRequest, pb.MembersAnswer, TikvCluster.members),
    methods.TIMESTAMPS: (pb.TimestampRequest, pb.TimestampAnswer, TikvCluster.issue),
    methods.REGION: (pb.RegionRequest, pb.RegionAnswer, TikvCluster.find),
    methods.STORE: (pb.StoreRequest, pb.StoreAnswer, TikvCluster.store),
    methods.GET: (pb.GetRequest, pb.GetAnswer, TikvCluster.get),
    methods.BATCH_GET: (pb.BatchGetRequest, pb.BatchGetAnswer, TikvCluster.get_many),
    methods.SCAN: (pb.ScanRequest, pb.ScanAnswer, TikvCluster.scan),
    methods.PREWRITE: (pb.PrewriteRequest, pb.PrewriteAnswer, TikvCluster.prewrite),
    methods.COMMIT: (pb.CommitRequest, pb.DoneAnswer, TikvCluster.commit),
    methods.ROLLBACK: (pb.RollbackRequest, pb.DoneAnswer, TikvCluster.roll_back),
    methods.CHECK_TXN: (pb.CheckTxnRequest, pb.CheckTxnAnswer, TikvCluster.check),
    methods.RESOLVE: (pb.ResolveRequest, pb.DoneAnswer, TikvCluster.resolve),
    methods.SCAN_LOCK: (pb.ScanLockRequest, pb.ScanLockAnswer, TikvCluster.scan_locks),
}


def _pd_busy(give: Any) -> Any:
    header = pb.PdAnswerHeader(cluster_id=CLUSTER, error=pb.PdError(type=1, message="not now"))
    return give(header=header)


def _holds(region: pb.RegionMeta, key: bytes) -> bool:
    at = encoded(key)
    return region.start_key <= at and (not region.end_key or at < region.end_key)


def _keys(request: Any) -> tuple[bytes, ...]:
    """The keys of a request to a store, in order."""
    match request:
        case pb.GetRequest():
            found = [request.key]
        case pb.ScanRequest() | pb.ScanLockRequest():
            found = [request.start_key]
        case pb.PrewriteRequest():
            found = [each.key for each in request.mutations]
        case pb.CheckTxnRequest():
            found = [request.primary_key]
        case pb.BatchGetRequest() | pb.CommitRequest() | pb.RollbackRequest():
            found = list(request.keys)
        case pb.ResolveRequest():
            found = list(request.keys)
        case _:
            found = []
    return tuple(sorted(found))
