"""The names of the storage service, and the gRPC options of both ends."""

from __future__ import annotations

from typing import Final

from storage_grpc import storage_pb2
from storage_grpc.remote.settings import RemoteSettings

SERVICE: Final = storage_pb2.DESCRIPTOR.services_by_name["Storage"].full_name
PROTOCOL: Final = 1
INCARNATION_KEY: Final = "sulina-incarnation"
"""The metadata key for the incarnation that a call expects."""
LIFE_KEY: Final = "sulina-life"
"""The metadata key for the life of the node that appends expect."""

Options = list[tuple[str, int]]

_SLACK: Final = 16 << 20
"""gRPC's limit is higher than ours by this, so that ours is exceeded first, with a clear error."""
_CONNECT_MS: Final = 2000
"""The time for one attempt to connect."""

_BOTH: Final[Options] = [
    # Entries are large: use large frames, and buffer enough to keep the connection busy.
    ("grpc.http2.max_frame_size", 1 << 20),
    ("grpc.http2.write_buffer_size", 4 << 20),
    ("grpc.http2.lookahead_bytes", 4 << 20),
    ("grpc.max_send_message_length", -1),
]


def method(name: str) -> str:
    """The path of a method."""
    return f"/{SERVICE}/{name}"


def server_options(max_entry_bytes: int) -> Options:
    """Options of a server that takes entries up to that size."""
    return [
        *_BOTH,
        ("grpc.max_receive_message_length", max_entry_bytes + _SLACK),
        ("grpc.max_concurrent_streams", 4096),
        # Two processes must not share a port by accident.
        ("grpc.so_reuseport", 0),
        # Clients may ping as often as they need to detect a dead node.
        ("grpc.http2.min_ping_interval_without_data_ms", 100),
        ("grpc.http2.max_ping_strikes", 0),
        # Detects dead clients.
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.ping_timeout_ms", 10_000),
    ]


def channel_options(settings: RemoteSettings) -> Options:
    """Options of a client."""
    ping, first, last = (
        int(1000 * seconds)
        for seconds in (settings.ping_seconds, settings.first_backoff, settings.last_backoff)
    )
    return [
        *_BOTH,
        # The request limits the size of its answer.
        ("grpc.max_receive_message_length", -1),
        ("grpc.keepalive_time_ms", ping),
        ("grpc.keepalive_timeout_ms", ping),
        # For the pings that measure bandwidth: no other ping is sent while one is unanswered, and
        # its default timeout is a minute.
        ("grpc.http2.ping_timeout_ms", ping),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", first),
        ("grpc.min_reconnect_backoff_ms", _CONNECT_MS),  # limits an attempt, despite its name
        ("grpc.max_reconnect_backoff_ms", last),
        # One connection per node; no hidden retries; no proxies.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_retries", 0),
        ("grpc.enable_http_proxy", 0),
    ]
